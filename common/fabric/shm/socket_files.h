// The files of the shm fabric's sockets: a path to listen at, its lock file, and the leftovers of
// dead servers.
//
// PATH.lock is locked (flock) as long as the server at PATH lives; the kernel releases the lock
// with the process, in any container. Only the holder of the lock removes PATH and PATH.lock, and a
// lock counts only while the locked file still has the name.
#pragma once

#include <string>

#include "common/fabric/shm/handles.h"

namespace gossamer::shm {

// $XDG_RUNTIME_DIR, else /tmp.
std::string RuntimeDirectory();

// A path in RuntimeDirectory() that no process has used before: gossamer-ID.sock with 64 random
// bits. Process ids would repeat across containers that share the directory.
std::string FreshSocketPath();

// An exclusive lock on the file at `path`, created if absent. Empty when another process holds it
// for kLockPatience (errno is EWOULDBLOCK) or the file cannot be opened (errno says why).
UniqueFd TakeLockFile(const std::string& path);

// Removes the sockets and lock files of this user's dead servers whose names FreshSocketPath()
// could have made. Files of living servers stay; several processes may clear concurrently. Ignores
// files that cannot be examined or removed: nothing depends on their absence. Returns the number of
// servers cleared.
size_t ClearDeadSockets(const std::string& directory);

}  // namespace gossamer::shm
