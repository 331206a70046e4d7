// Starts threads without exceptions: coroutines, whose callers expect a Result, must not throw.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "common/status.h"

namespace gossamer {

// A thread that runs `body`. `purpose` completes the sentence "... gives no thread to renew
// leases". Errors: Unsupported if this machine cannot start one.
template <typename Body>
Result<std::thread> StartThread(const std::string& purpose, Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return MakeError(Code::kUnsupported,
                     "this machine gives no thread to " + purpose + " (" + error.code().message() +
                         "): allow more processes (`ulimit -u`, pids.max of the "
                         "control group), or more memory");
  }
}

}  // namespace gossamer
