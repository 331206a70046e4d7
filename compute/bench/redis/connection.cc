// Hot path: no allocation, no lock, no virtual call for a request.
#include "compute/bench/redis/connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace gossamer::bench {
namespace {

constexpr std::string_view kUnix = "unix:";

Error NoAnswer(const std::string& address, const std::string& why) {
  return MakeError(Code::kNodeUnreachable, "nothing answers at " + address + ": " + why);
}

Error WrongAddress(const std::string& address) {
  return MakeError(Code::kInvalidArgument,
                   address +
                       " is no address: give unix:PATH or ADDRESS:PORT, such as "
                       "unix:/run/redis.sock or 127.0.0.1:6379");
}

Result<UniqueFd> ConnectToPath(const std::string& address) {
  const std::string path = address.substr(kUnix.size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof name.sun_path) return WrongAddress(address);
  std::memcpy(name.sun_path, path.data(), path.size());
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made || connect(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return NoAnswer(address, std::strerror(errno));
  }
  return made;
}

Result<UniqueFd> ConnectToHost(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return WrongAddress(address);
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (code != 0) return NoAnswer(address, gai_strerror(code));
  UniqueFd made;
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    made = UniqueFd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (made && connect(made.get(), one->ai_addr, one->ai_addrlen) == 0) break;
    error = errno;
    made = UniqueFd();
  }
  freeaddrinfo(found);
  if (!made) return NoAnswer(address, std::strerror(error));
  const int on = 1;
  setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

// Appends "$5\r\n", "*5\r\n".
void AppendHeader(std::string& out, char type, size_t number) {
  std::array<char, 24> text;
  text[0] = type;
  char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), number).ptr;
  end[0] = '\r';
  end[1] = '\n';
  out.append(text.data(), static_cast<size_t>(end + 2 - text.data()));
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::Open(const std::string& address, FindEnd find_end) {
  Result<UniqueFd> socket =
      address.starts_with(kUnix) ? ConnectToPath(address) : ConnectToHost(address);
  if (!socket) return socket.error();
  return std::unique_ptr<Connection>(new Connection(std::move(socket).value(), find_end));
}

void Connection::Begin(size_t words) { AppendHeader(out_, '*', words); }

void Connection::AddWord(std::string_view word) {
  AppendHeader(out_, '$', word.size());
  out_ += word;
  out_ += "\r\n";
}

void Connection::Fail(const std::string& why) {
  if (!error_) error_ = MakeError(Code::kNodeUnreachable, "the server is gone: " + why);
  out_.clear();
  sent_ = 0;
  while (!waiting_.empty()) {
    Answer* const answer = waiting_.front();
    waiting_.pop_front();
    answer->waiter_.resume();
  }
}

void Connection::Flush() {
  while (has_unsent()) {
    const ssize_t done =
        send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (done < 0) return Fail(std::strerror(errno));
    sent_ += static_cast<size_t>(done);
  }
  out_.clear();
  sent_ = 0;
}

void Connection::Receive() {
  if (begin_ != 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (in_.size() - end_ < kReadBytes / 2) in_.resize(2 * in_.size());
  const ssize_t got = recv(fd(), in_.data() + end_, in_.size() - end_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) return Fail(got == 0 ? "it has closed the connection" : std::strerror(errno));
  end_ += static_cast<size_t>(got);
  while (begin_ < end_) {
    const std::string_view bytes(in_.data() + begin_, end_ - begin_);
    const ReplyEnd reply = find_end_(bytes);
    if (reply.kind == ReplyEnd::Kind::kNeedMore) return;
    if (reply.kind == ReplyEnd::Kind::kGarbled || waiting_.empty()) {
      return Fail("what it sends is no reply of its protocol");
    }
    begin_ += reply.bytes;
    Answer* const answer = waiting_.front();
    waiting_.pop_front();
    answer->reply_ = bytes.substr(0, reply.bytes);
    answer->waiter_.resume();
  }
}

}  // namespace gossamer::bench
