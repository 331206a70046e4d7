#include "compute/gateway/connection/acceptor.h"

#include <glog/logging.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace gossamer::gateway {

bool Acceptor::Open(EpollSet& epoll) {
  return std::ranges::all_of(listeners_, [&epoll](const Listener& one) {
    return epoll.Watch(one.fd(), EPOLLIN | EPOLLEXCLUSIVE);
  });
}

void Acceptor::Close(EpollSet& epoll) {
  for (const Listener& one : listeners_) epoll.Forget(one.fd());
}

void Acceptor::Pause(EpollSet& epoll) {
  if (resume_at_) return;
  LOG_EVERY_T(WARNING, 10)
      << "no further connection can be accepted: raise `ulimit -n` (one in 10 s is logged)";
  Close(epoll);
  resume_at_ = Clock::now() + kPause;
}

void Acceptor::Resume(EpollSet& epoll) {
  if (!resume_at_ || Clock::now() < *resume_at_) return;
  resume_at_.reset();
  if (Open(epoll)) return;
  // The kernel has no memory for it now. What is not watched would never be accepted again.
  Close(epoll);
  resume_at_ = Clock::now() + kPause;
}

bool Acceptor::Accept(int fd, EpollSet& epoll, uint64_t max_clients, uint64_t& rejected) {
  const auto listener = std::ranges::find(listeners_, fd, &Listener::fd);
  if (listener == listeners_.end()) return false;
  for (int i = 0; i < kMostAtOnce; ++i) {
    UniqueFd socket(accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool is_short =
          errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (is_short) Pause(epoll);
      return true;
    }
    Inbox* const inbox = inboxes_.TakePlace(max_clients);
    if (inbox == nullptr) {
      ++rejected;
      constexpr std::string_view kFull = "-ERR max number of clients reached\r\n";
      // One that expects TLS is only closed.
      if (!listener->is_tls) {
        static_cast<void>(send(socket.get(), kFull.data(), kFull.size(), MSG_NOSIGNAL));
      }
      continue;
    }
    inbox->Put({std::move(socket), listener->is_tls});
  }
  return true;
}

}  // namespace gossamer::gateway
