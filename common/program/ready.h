// How a server program reports that it serves: a line for people on standard output, "READY\n" on a
// file descriptor (--ready_fd) for its parent, and READY=1 to the service manager if there is one
// (NOTIFY_SOCKET, as of sd_notify).
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer {

// Whether `ready_fd` is -1, or open for writing. A program asks before it starts anything, and
// before it opens files, which might get this number. Errors: InvalidArgument.
Status CheckReadyFd(int ready_fd);

// Reports in all three ways. `line` has no line break. Closes `ready_fd`, unless negative.
// Errors: InvalidArgument if `ready_fd` cannot be written to. A line that cannot be printed is only
// logged: clients can connect all the same.
Status AnnounceReady(std::string_view line, int ready_fd);

// Sends `state`, such as "READY=1" or "STOPPING=1", to the service manager, if any. Ignores errors:
// the program serves all the same.
void NotifyServiceManager(const std::string& state);

}  // namespace gossamer
