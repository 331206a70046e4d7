// SIGHUP as a descriptor, in place of the end of the process.
//
// Requires (unchecked): made before other threads, which then leave the signal alone, too.
// Thread-safety: none.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "common/unique_fd.h"

namespace gossamer::gateway {

class Hangups {
 public:
  Hangups() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  // For poll(2).
  int fd() const { return signals_.get(); }
  // Whether one has come since the last call.
  bool Take() {
    signalfd_siginfo one;
    return read(fd(), &one, sizeof one) > 0;
  }

 private:
  UniqueFd signals_;
};

}  // namespace gossamer::gateway
