// Locks that say whose a file is, until its process ends.
#pragma once

#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace gossamer {

// A process that was killed has its locks until the kernel has taken apart its memory: a server
// that is started again at once would meet them.
inline constexpr std::chrono::milliseconds kLockPatience{2000};

// Takes the lock (flock) of the open file. Returns false, with `errno`, if that cannot be done, or
// another process has it (EWOULDBLOCK) for `patience`.
inline bool LockFile(int file, std::chrono::milliseconds patience = kLockPatience) {
  constexpr std::chrono::milliseconds kPollInterval{10};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    const bool waits = errno == EINTR || errno == EWOULDBLOCK;
    if (!waits || std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace gossamer
