// How a server program tells whoever started it that it serves: "READY\n" on a file descriptor
// (--ready_fd), and READY=1 to the service manager where there is one (NOTIFY_SOCKET, as of
// sd_notify).
#pragma once

#include <string>

#include "common/status.h"

namespace gossamer {

// Writes to `ready_fd` and closes it, unless negative. InvalidArgument when it cannot be written
// to.
Status WriteReady(int ready_fd);

// Sends `state`, such as "READY=1" or "STOPPING=1", to the service manager; nothing without one.
// Never fails: the program serves all the same.
void NotifyServiceManager(const std::string& state);

}  // namespace gossamer
