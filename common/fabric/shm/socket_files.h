// The files of the shm fabric's sockets: a path to listen at, the lock file beside it, and what dead
// servers left behind.
//
// PATH.lock is locked (flock) as long as the server at PATH lives; the kernel releases it with the
// process, in whichever container that runs. Only the holder of the lock removes PATH and PATH.lock,
// and a lock counts only while the locked file still has the name.
#pragma once

#include <string>

#include "common/fabric/shm/handles.h"

namespace gossamer::shm {

// $XDG_RUNTIME_DIR, else /tmp.
std::string RuntimeDirectory();

// A path in RuntimeDirectory() that no process gave itself before: gossamer-ID.sock with 64 random
// bits. Process ids would repeat across containers that share the directory.
std::string FreshSocketPath();

// An exclusive lock on the file at `path`, made if need be. Empty when another process holds it
// (errno is EWOULDBLOCK) or the file cannot be opened (errno says why).
UniqueFd TakeLockFile(const std::string& path);

// Removes the sockets and lock files of dead servers of this user that have a name as
// FreshSocketPath() makes them. Those of a living server stay; several processes may clear at once.
// Files that cannot be examined or removed stay, too: nothing depends on their absence. Returns how
// many servers' files went.
size_t ClearDeadSockets(const std::string& directory);

}  // namespace gossamer::shm
