#include "compute/gateway/client.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace gossamer::gateway {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
// Longer buffers of a client that is idle are given back. There may be thousands of clients, and most requests are short.
constexpr size_t kKeptBytes = 256 * 1024;
constexpr size_t kKeptRequestBytes = 16 * 1024;

}  // namespace

void Client::LimitRequests(uint64_t max_query_bytes) {
  RequestLimits limits;
  if (is_authenticated) {
    limits.argument_bytes = std::min(limits.argument_bytes, max_query_bytes);
  } else {
    // As in Redis: a login needs no more, and memory is for clients that are known.
    limits.arguments = 10;
    limits.argument_bytes = 16 * 1024;
    limits.breach = "unauthenticated";
  }
  parser.set_limits(limits);
}

Client::Read Client::Receive(uint64_t& bytes) {
  if (taken_ == in_.size()) {
    in_.clear();
    if (in_.capacity() > kKeptRequestBytes) in_.shrink_to_fit();
  } else if (taken_ != 0) {
    in_.erase(0, taken_);
  }
  taken_ = 0;
  const size_t before = in_.size();
  // Of a long request as much again as has arrived: a client does not get memory for what it only announces.
  const size_t missing = parser.wanted() > before ? parser.wanted() - before : 0;
  const size_t wanted = std::max(kReadBytes, std::min(missing, before));
  // Short requests come by way of the stack: so a client holds as much memory as it has sent, and nothing is zeroed.
  std::array<char, kReadBytes> arrived;
  const bool is_in_place = wanted > kReadBytes;
  if (is_in_place) in_.resize(before + wanted);
  const std::span<char> to(is_in_place ? in_.data() + before : arrived.data(), wanted);
  size_t got = 0;
  const TlsSession::Rest rest = tls_ ? tls_->Receive(to, got) : ReceivePlain(to, got);
  if (is_in_place) {
    in_.resize(before + got);
  } else {
    in_.append(arrived.data(), got);
  }
  bytes += got;
  // After the last event, only a read that brings nothing tells of the end.
  may_read = rest == TlsSession::Rest::kMore || (got != 0 && has_hung_up);
  if (got != 0) return Read::kSome;
  return rest == TlsSession::Rest::kEnded ? Read::kEnded : Read::kNone;
}

TlsSession::Rest Client::ReceivePlain(std::span<char> to, size_t& bytes) {
  const ssize_t got = recv(fd(), to.data(), to.size(), 0);
  if (got <= 0) {
    const bool is_nothing = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return is_nothing ? TlsSession::Rest::kNone : TlsSession::Rest::kEnded;
  }
  bytes = static_cast<size_t>(got);
  return bytes == to.size() ? TlsSession::Rest::kMore : TlsSession::Rest::kNone;
}

void Client::EndRefusedTransaction(uint64_t& bytes_received) {
  if (transaction != Transaction::kRefused) return;
  // The end of the connection has no event of its own any more: it is read again.
  if (unparsed_bytes() == 0 && Receive(bytes_received) == Read::kEnded) may_read = true;
  if (unparsed_bytes() == 0) transaction = Transaction::kNone;
}

void Client::EndSending() {
  tls_.reset();
  shutdown(fd(), SHUT_WR);
}

bool Client::Send(uint64_t& bytes) {
  const std::string_view from = std::string_view(out).substr(sent_);
  size_t done = 0;
  const bool is_connected = from.empty() || (tls_ ? tls_->Send(from, done) : SendPlain(from, done));
  sent_ += done;
  bytes += done;
  if (!is_connected) return false;
  if (sent_ != out.size()) {
    // A client that never takes quite all does not make `out` longer and longer.
    if (sent_ > kKeptBytes && sent_ >= out.size() / 2) {
      out.erase(0, sent_);
      sent_ = 0;
    }
    return true;
  }
  out.clear();
  sent_ = 0;
  if (out.capacity() > kKeptBytes) out.shrink_to_fit();
  return true;
}

bool Client::SendPlain(std::string_view from, size_t& bytes) {
  while (bytes < from.size()) {
    const ssize_t done = send(fd(), from.data() + bytes, from.size() - bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes += static_cast<size_t>(done);
  }
  return true;
}

}  // namespace gossamer::gateway
