// Starts threads where an exception may not pass: through coroutines, whose callers expect a Result.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "common/status.h"

namespace gossamer {

// A thread that runs `body`. Unsupported where this machine gives none; `purpose` completes the sentence "... gives no
// thread to renew leases".
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
