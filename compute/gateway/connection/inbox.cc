#include "compute/gateway/connection/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gossamer::gateway {

bool Inbox::Open() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return static_cast<bool>(wake_);
}

void Inbox::Wake() const {
  const uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));
}

void Inbox::Put(Arrival arrival) {
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(arrival));
  }
  Wake();
}

std::vector<Inbox::Arrival> Inbox::TakeAll() {
  uint64_t times = 0;
  static_cast<void>(read(wake_.get(), &times, sizeof times));
  const std::lock_guard lock(mutex_);
  return std::exchange(arrivals_, {});
}

Inbox* Inboxes::TakePlace(uint64_t most) {
  const std::lock_guard lock(placing_);
  if (CountClients() >= most) return nullptr;
  Inbox& fewest = *std::ranges::min_element(
      all_, {}, [](const Inbox& one) { return one.clients.load(std::memory_order_relaxed); });
  fewest.clients.fetch_add(1, std::memory_order_relaxed);
  return &fewest;
}

uint64_t Inboxes::CountClients() const {
  uint64_t count = 0;
  for (const Inbox& one : all_) count += one.clients.load(std::memory_order_relaxed);
  return count;
}

}  // namespace gossamer::gateway
