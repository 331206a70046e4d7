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
  const ssize_t got = recv(fd(), is_in_place ? in_.data() + before : arrived.data(), wanted, 0);
  const auto new_bytes = static_cast<size_t>(std::max<ssize_t>(got, 0));
  if (is_in_place) {
    in_.resize(before + new_bytes);
  } else {
    in_.append(arrived.data(), new_bytes);
  }
  if (got > 0) {
    bytes += static_cast<uint64_t>(got);
    // After the last event, only a read that brings nothing tells of the end.
    may_read = has_hung_up || static_cast<size_t>(got) == wanted;
    return Read::kSome;
  }
  may_read = false;
  const bool is_nothing = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return is_nothing ? Read::kNone : Read::kEnded;
}

bool Client::Send(uint64_t& bytes) {
  while (sent_ < out.size()) {
    const ssize_t done = send(fd(), out.data() + sent_, out.size() - sent_, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<size_t>(done);
    bytes += static_cast<uint64_t>(done);
  }
  out.clear();
  sent_ = 0;
  if (out.capacity() > kKeptBytes) out.shrink_to_fit();
  return true;
}

}  // namespace gossamer::gateway
