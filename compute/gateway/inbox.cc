#include "compute/gateway/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

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

}  // namespace gossamer::gateway
