// How a server program reports that it serves: "READY\n" on a file descriptor (--ready_fd) for its
// parent, and READY=1 to the service manager if there is one (NOTIFY_SOCKET, as of sd_notify).
#pragma once

#include <string>

#include "common/status.h"

namespace gossamer {

// Writes to `ready_fd` and closes it, unless negative. Errors: InvalidArgument when writing fails.
Status WriteReady(int ready_fd);

// Sends `state`, such as "READY=1" or "STOPPING=1", to the service manager, if any. Ignores errors:
// the program serves all the same.
void NotifyServiceManager(const std::string& state);

}  // namespace gossamer
