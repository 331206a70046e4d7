// The service manager that has started this process, if any, such as systemd: sd_notify(3), and its
// store of file descriptors, from which the next process of the service gets them.
//
// Thread-safety: all calls from any thread, as long as none changes the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer {

// NOTIFY_SOCKET.
bool HasServiceManager();

// Sends `state`, VARIABLE=VALUE in each line, and a duplicate of `descriptor` with it, unless -1.
// Errors: NodeUnreachable; also without a service manager.
Status TellServiceManager(const std::string& state, int descriptor = -1);

// Waits until it has read all that this process has told it: it knows senders that live.
// Errors: NodeUnreachable.
Status AwaitServiceManager(std::chrono::milliseconds patience);

// What it has kept under `name` (FDNAME); none if there is nothing.
UniqueFd KeptDescriptor(const std::string& name);

// How many descriptors it keeps for this service. nullopt: it does not say. `root` prefixes /proc:
// for tests. Cost: may run systemctl.
std::optional<uint64_t> MostKeptDescriptors(const std::string& root = {});

}  // namespace gossamer
