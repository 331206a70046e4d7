// The process at the other end of a Unix socket.
//
// Thread-safety: any thread.
#pragma once

#include <sys/types.h>

#include "common/fabric/shm/handles.h"

namespace gossamer::shm {

// Returns: its id; 0 if the kernel does not say.
pid_t PeerPid(const UniqueFd& socket);
// Returns: a pidfd of the peer, whose id is `pid`. Empty if the kernel cannot name it, or without a
// free descriptor (errno).
UniqueFd PeerProcess(const UniqueFd& socket, pid_t pid);
// Whether the process has ended. `process`: a pidfd; empty: false.
bool ProcessEnded(const UniqueFd& process);
// Whether the peer has closed its end.
bool HungUp(const UniqueFd& socket);

}  // namespace gossamer::shm
