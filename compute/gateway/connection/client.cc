#include "compute/gateway/connection/client.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace gossamer::gateway {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
// Answers of one client that leave together, before others have a turn.
constexpr size_t kSendBytes = 1024 * 1024;
// Longer buffers of a client that is idle are given back. There may be thousands of clients, and
// most requests are short.
constexpr size_t kKeptBytes = 256 * 1024;
constexpr size_t kKeptRequestBytes = 16 * 1024;
// A request that takes more is long.
constexpr size_t kLongRequestBytes = 256 * 1024;

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

// Of a long request as much again as has arrived: a client does not get memory for what it only
// announces.
size_t Client::WantedBytes() const {
  const size_t missing =
      parser.wanted() > unparsed_bytes() ? parser.wanted() - unparsed_bytes() : 0;
  return std::max(kReadBytes, std::min(missing, unparsed_bytes()));
}

bool Client::MayReceive() {
  const size_t needed = unparsed_bytes() + WantedBytes();
  const size_t growth =
      needed <= in_.capacity() ? 0 : std::max(needed, 2 * in_.capacity()) - in_.capacity();
  if (in_.capacity() + growth > kLongRequestBytes) return requests_held_.MayGrow(growth);
  return memory_.HasRoom(ClientMemory::Use::kRequests, growth);
}

Client::Read Client::Receive(uint64_t& bytes) {
  const size_t wanted = WantedBytes();
  if (taken_ == in_.size()) {
    GiveBack();
  } else if (taken_ != 0) {
    in_.erase(0, taken_);
    taken_ = 0;
  }
  const size_t before = in_.size();
  // Short requests come by way of the stack: so a client holds as much memory as it has sent, and
  // nothing is zeroed.
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
  CountMemory();
  // After the last event, only a read that brings nothing tells of the end.
  may_read = rest == TlsSession::Rest::kMore || (got != 0 && has_hung_up);
  if (got != 0) return Read::kSome;
  return rest == TlsSession::Rest::kEnded ? Read::kEnded : Read::kNone;
}

void Client::CountMemory() {
  requests_held_.Set(in_.capacity() + parser.held_bytes());
  answers_held_.Set(piece_bytes_ + out.capacity());
}

void Client::GiveBack() {
  if (taken_ == in_.size()) {
    in_.clear();
    taken_ = 0;
    if (in_.capacity() > kKeptRequestBytes) in_.shrink_to_fit();
    parser.GiveBack();
    requests_held_.EndGrowth();
  }
  const size_t kept = memory_.is_short(ClientMemory::Use::kAnswers) ? 0 : kKeptBytes;
  if (out.empty() && out.capacity() > kept) out.shrink_to_fit();
  CountMemory();
}

void Client::GiveBackAnswers() {
  if (out.empty()) out.shrink_to_fit();
  CountMemory();
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

void Client::EndSending() {
  tls_.reset();
  shutdown(fd(), SHUT_WR);
}

void Client::Append(std::deque<std::string> pieces) {
  const auto append = [this](std::string piece) {
    piece_bytes_ += piece.size();
    pieces_.push_back(std::move(piece));
  };
  if (!out.empty()) append(std::exchange(out, {}));
  for (std::string& piece : pieces) append(std::move(piece));
  CountMemory();
}

bool Client::SendRestOf(const std::string& from, size_t& room, uint64_t& bytes) {
  const std::string_view rest = std::string_view(from).substr(sent_, room);
  if (rest.empty()) return true;
  size_t done = 0;
  const bool is_connected = tls_ ? tls_->Send(rest, done) : SendPlain(rest, done);
  sent_ += done;
  bytes += done;
  room -= done;
  may_send = is_connected && done == rest.size();
  return is_connected;
}

bool Client::Send(uint64_t& bytes) {
  size_t room = kSendBytes;
  while (!pieces_.empty()) {
    const size_t size = pieces_.front().size();
    if (!SendRestOf(pieces_.front(), room, bytes)) return false;
    if (sent_ != size) break;
    piece_bytes_ -= size;
    pieces_.pop_front();
    sent_ = 0;
  }
  if (pieces_.empty()) {
    if (!SendRestOf(out, room, bytes)) return false;
    // A client that never takes quite all does not make `out` longer and longer.
    const bool is_sent = sent_ == out.size();
    if (is_sent || (sent_ > kKeptBytes && sent_ >= out.size() / 2)) {
      out.erase(0, sent_);
      sent_ = 0;
    }
    if (is_sent && out.capacity() > kKeptBytes) out.shrink_to_fit();
  }
  CountMemory();
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
