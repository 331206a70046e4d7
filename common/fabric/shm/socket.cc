#include "common/fabric/shm/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/fabric/shm/socket_files.h"

namespace gossamer::shm {
namespace {

constexpr size_t kMaxFds = 3;
constexpr int kFreshRetries = 8;

UniqueFd NewSocket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path || path.find_first_of(" \t\n") != std::string::npos) {
    return MakeError(Code::kInvalidArgument,
                     "socket path '" + path + "': at most 107 bytes, without blanks");
  }
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Errors: InvalidArgument when a live server has the path, or it is unusable.
Result<UniqueFd> LockPath(const std::string& path) {
  BOOST_OUTCOME_TRYV(SocketAddress(path));
  UniqueFd lock = TakeLockFile(path + ".lock");
  if (lock) return lock;
  return MakeError(Code::kInvalidArgument,
                   errno == EWOULDBLOCK
                       ? "a live memory server listens at " + path + ": give another address"
                       : ErrnoText("cannot take " + path + ".lock") +
                             ": give --listen=PATH, or XDG_RUNTIME_DIR, in a directory that this "
                             "user may write to");
}

Transfer TransferError() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT ? Transfer::kWouldBlock
                                                                       : Transfer::kLost;
}

}  // namespace

Transfer SendMessage(const UniqueFd& socket, std::span<const std::byte> message,
                     std::span<const int> fds, bool wait) {
  // sendmsg does not write through this pointer.
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket.get(), &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0) {
      return Transfer::kDone;
    }
    if (errno != EINTR) return TransferError();
  }
}

Transfer ReceiveMessage(const UniqueFd& socket, std::span<std::byte> message, size_t* bytes,
                        std::vector<UniqueFd>* fds, bool wait) {
  iovec part{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t received;
  do {
    received = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (received < 0 && errno == EINTR);
  if (received < 0) return TransferError();
  for (cmsghdr* part_header = CMSG_FIRSTHDR(&header); part_header != nullptr;
       part_header = CMSG_NXTHDR(&header, part_header)) {
    if (part_header->cmsg_level != SOL_SOCKET || part_header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part_header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part_header) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (fds != nullptr) fds->push_back(std::move(owned));
    }
  }
  *bytes = static_cast<size_t>(received);
  return received == 0 ? Transfer::kLost : Transfer::kDone;
}

Result<UniqueFd> ConnectSocket(const std::string& path) {
  BOOST_OUTCOME_TRY(address, SocketAddress(path));
  UniqueFd socket = NewSocket();
  if (!socket && LacksDescriptors()) {
    return MakeError(Code::kNoResources,
                     "connecting to " + path + ": this process has " + NoDescriptorText());
  }
  if (!socket) return MakeError(Code::kUnsupported, ErrnoText("Unix socket"));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) return UniqueFd();
    return MakeError(Code::kNodeUnreachable, ErrnoText("memory server at " + path));
  }
  return socket;
}

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

Result<ListeningSocket> ListeningSocket::Bind(const std::string& path) {
  if (!path.empty()) {
    BOOST_OUTCOME_TRY(lock, LockPath(path));
    return BindLocked(path, std::move(lock));
  }
  ClearDeadSockets(RuntimeDirectory());
  std::string fresh = FreshSocketPath();
  Result<UniqueFd> lock = LockPath(fresh);
  // Another server that clears may hold the new lock file for a moment, and then remove it.
  for (int retries = kFreshRetries; !lock && retries > 0; --retries) {
    fresh = FreshSocketPath();
    lock = LockPath(fresh);
  }
  if (!lock) return std::move(lock).error();
  return BindLocked(fresh, std::move(lock).value());
}

Result<ListeningSocket> ListeningSocket::BindLocked(const std::string& path, UniqueFd lock_file) {
  BOOST_OUTCOME_TRY(address, SocketAddress(path));
  ListeningSocket listener;
  listener.lock_file_ = std::move(lock_file);
  listener.path_ = path;
  struct stat existing{};
  if (::lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return MakeError(Code::kInvalidArgument, path + " exists and is not a socket");
    }
    ::unlink(path.c_str());
  }
  listener.socket_ = NewSocket();
  // A client that can connect can read and write the whole store: allow this user only.
  if (!listener.socket_ || ::fchmod(listener.socket_.get(), 0600) != 0 ||
      ::bind(listener.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0) {
    return MakeError(Code::kInvalidArgument, ErrnoText("listening at " + path));
  }
  return listener;
}

ListeningSocket::~ListeningSocket() { Close(); }

void ListeningSocket::Close() {
  if (socket_) ::unlink(path_.c_str());
  if (lock_file_) ::unlink((path_ + ".lock").c_str());
  socket_ = UniqueFd();
  lock_file_ = UniqueFd();
}

Status ListeningSocket::Listen() {
  if (::listen(socket_.get(), SOMAXCONN) != 0) {
    return MakeError(Code::kUnsupported, ErrnoText("listening at " + path_));
  }
  return Ok();
}

UniqueFd ListeningSocket::Accept() {
  return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace gossamer::shm
