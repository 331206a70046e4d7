#include "common/fabric/shm/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gossamer::shm {

pid_t PeerPid(const UniqueFd& socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return 0;
  return credentials.pid;
}

UniqueFd PeerProcess(const UniqueFd& socket, pid_t pid) {
#if defined(SO_PEERPIDFD)
  constexpr int kPeerPidFd = SO_PEERPIDFD;
#else
  constexpr int kPeerPidFd = 77;  // since Linux 6.5: exact even if the process has ended meanwhile
#endif
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (::getsockopt(socket.get(), SOL_SOCKET, kPeerPidFd, &fd, &bytes) == 0) return UniqueFd(fd);
  if (pid <= 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
}

bool ProcessEnded(const UniqueFd& process) {
  if (!process) return false;
  pollfd event{process.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

bool HungUp(const UniqueFd& socket) {
  pollfd event{socket.get(), 0, 0};
  return ::poll(&event, 1, 0) == 1 && (event.revents & POLLHUP) != 0;
}

}  // namespace gossamer::shm
