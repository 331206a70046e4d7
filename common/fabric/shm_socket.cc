#include "common/fabric/shm_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace gossamer::shm {
namespace {

constexpr size_t kMaxFds = 3;

UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

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

std::string FreshPath() {
  static std::atomic<uint32_t> counter{0};
  const char* directory = std::getenv("XDG_RUNTIME_DIR");
  std::string path = directory != nullptr && directory[0] == '/' ? directory : "/tmp";
  path += "/gossamer-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".sock";
  return path;
}

// An exclusive lock on the file at `path`, made if need be; empty when another process holds it.
UniqueFd TakeLockFile(const std::string& path) {
  for (;;) {
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return {};
    // The last owner may have removed the file that was opened: then the lock is on nothing.
    struct stat opened{};
    struct stat named{};
    if (::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      return file;
    }
  }
}

Transfer TransferError() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT ? Transfer::kWouldBlock
                                                                       : Transfer::kLost;
}

}  // namespace

Transfer SendMessage(const UniqueFd& socket, std::span<const std::byte> message,
                     std::span<const int> fds, bool wait) {
  // sendmsg does not write what it is given.
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

Result<UniqueFd> ConnectSocket(const std::string& path, uint32_t timeout_ms) {
  BOOST_OUTCOME_TRY(address, SocketAddress(path));
  UniqueFd socket = NewSocket();
  if (!socket) return MakeError(Code::kUnsupported, ErrnoText("Unix socket"));
  const timeval timeout{timeout_ms / 1000, static_cast<suseconds_t>(timeout_ms % 1000) * 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return MakeError(Code::kNodeUnreachable, ErrnoText("memory server at " + path));
  }
  return socket;
}

Result<ListeningSocket> ListeningSocket::Bind(const std::string& path) {
  ListeningSocket listener;
  const std::string wanted = path.empty() ? FreshPath() : path;
  BOOST_OUTCOME_TRY(address, SocketAddress(wanted));
  errno = 0;
  listener.lock_file_ = TakeLockFile(wanted + ".lock");
  if (!listener.lock_file_) {
    return MakeError(Code::kInvalidArgument,
                     errno == EWOULDBLOCK
                         ? "a live memory server listens at " + wanted + ": give another address"
                         : ErrnoText("lock file of " + wanted));
  }
  struct stat existing{};
  if (::lstat(wanted.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return MakeError(Code::kInvalidArgument, wanted + " exists and is not a socket");
    }
    ::unlink(wanted.c_str());
  }
  listener.path_ = wanted;
  listener.socket_ = NewSocket();
  // Who may connect may read and write the whole store: the user alone.
  if (!listener.socket_ || ::fchmod(listener.socket_.get(), 0600) != 0 ||
      ::bind(listener.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0) {
    return MakeError(Code::kInvalidArgument, ErrnoText("listening at " + wanted));
  }
  return listener;
}

ListeningSocket::~ListeningSocket() { Close(); }

void ListeningSocket::Close() {
  if (!socket_) return;
  ::unlink(path_.c_str());
  ::unlink((path_ + ".lock").c_str());
  socket_ = UniqueFd();
  lock_file_ = UniqueFd();
}

Status ListeningSocket::Listen() {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0) {
    return MakeError(Code::kUnsupported, ErrnoText("listening at " + path_));
  }
  return Ok();
}

UniqueFd ListeningSocket::Accept() {
  return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace gossamer::shm
