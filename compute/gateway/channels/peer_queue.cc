#include "compute/gateway/channels/peer_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <utility>

#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

bool PeerQueue::Open() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return static_cast<bool>(wake_);
}

void PeerQueue::KeepIf(bool has_peers) {
  assert(wake_);
  keeps_.store(has_peers, std::memory_order_release);
}

void PeerQueue::Put(ChannelKind kind, std::string_view channel, std::string_view text) {
  if (!keeps_.load(std::memory_order_acquire)) return;
  std::string request;
  ReplyWriter writer(request, false);
  writer.Array(4);
  writer.Bulk("GOSSAMER.PEER");
  writer.Bulk(kind == ChannelKind::kShard ? "SPUBLISH" : "PUBLISH");
  writer.Bulk(channel);
  writer.Bulk(text);
  const size_t bytes = request.size();
  auto shared = std::make_shared<const std::string>(std::move(request));
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > kMostBytes) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    was_empty = requests_.empty();
    bytes_ += bytes;
    requests_.push_back(std::move(shared));
  }
  if (!was_empty) return;
  const uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));
}

std::vector<PeerQueue::Request> PeerQueue::TakeAll() {
  uint64_t times = 0;
  static_cast<void>(read(wake_.get(), &times, sizeof times));
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(requests_, {});
}

}  // namespace gossamer::gateway
