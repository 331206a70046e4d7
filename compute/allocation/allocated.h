// Memory that was allocated and that nothing leads to yet: what may become of it (rule U4).
//
// A node or a block that was allocated under a lease that has ended since must not become reachable: a sweeper may have
// given its memory to others. So each piece carries a stamp, and the batch that makes it reachable is posted only if
// RemoteAllocator::MayLink still says so in the same step.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "compute/session/servers.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Where something was allocated, and how many leases this compute server had been given, by any memory server, when that
// server was asked for what showed last that the lease there was in force.
struct AllocationStamp {
  ServerId server{0};
  uint64_t registrations = 0;
};

// What one batch makes reachable.
class LinkedMemory {
 public:
  void Add(const AllocationStamp& stamp) {
    const size_t server = ToInteger(stamp.server);
    servers_[server / kBits] |= uint64_t{1} << server % kBits;
    oldest_ = std::min(oldest_, stamp.registrations);
  }
  bool IsEmpty() const { return oldest_ == kNever; }
  // The least of the stamps.
  uint64_t oldest() const { return oldest_; }
  // Whether predicate(number) is true of a server that some of it lies on.
  template <typename Predicate>
  bool IsOnAny(Predicate&& predicate) const {
    for (size_t word = 0; word < servers_.size(); ++word) {
      for (uint64_t rest = servers_[word]; rest != 0; rest &= rest - 1) {
        if (predicate(word * kBits + static_cast<size_t>(std::countr_zero(rest)))) return true;
      }
    }
    return false;
  }

 private:
  static constexpr size_t kBits = 64;
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  static_assert(Servers::kMaxServers % kBits == 0);

  std::array<uint64_t, Servers::kMaxServers / kBits> servers_{};
  uint64_t oldest_ = kNever;
};

class RemoteAllocator;

// A node (RemotePtr) or a block (BlockPtr) that was allocated. It goes back by itself as long as nothing was posted to
// it; afterwards only by `GiveBack`, as a WRITE may be on its way (E3), or something may lead to it. What does neither
// go back nor become reachable is left to a sweeper.
template <typename Pointer>
class [[nodiscard]] Allocated {
 public:
  Allocated() = default;
  Allocated(RemoteAllocator& allocator, Pointer pointer, uint32_t bytes,
            const AllocationStamp& stamp)
      : allocator_(&allocator), pointer_(pointer), bytes_(bytes), stamp_(stamp) {}
  Allocated(Allocated&& other) noexcept
      : allocator_(std::exchange(other.allocator_, nullptr)),
        pointer_(other.pointer_),
        bytes_(other.bytes_),
        stamp_(other.stamp_),
        is_posted_(other.is_posted_) {}
  Allocated& operator=(Allocated&& other) noexcept {
    if (this == &other) return *this;
    if (!is_posted_) GiveBack();
    allocator_ = std::exchange(other.allocator_, nullptr);
    pointer_ = other.pointer_;
    bytes_ = other.bytes_;
    stamp_ = other.stamp_;
    is_posted_ = other.is_posted_;
    return *this;
  }
  ~Allocated() {
    if (!is_posted_) GiveBack();
  }

  Pointer pointer() const { return pointer_; }
  const AllocationStamp& stamp() const { return stamp_; }
  // From here on, verbs that write to it, or make it reachable, may be on their way.
  void Posted() { is_posted_ = true; }
  // Requires: no verb that writes to it is on its way, and nothing leads to it.
  void GiveBack();

 private:
  RemoteAllocator* allocator_ = nullptr;
  Pointer pointer_;
  uint32_t bytes_ = 0;
  AllocationStamp stamp_;
  bool is_posted_ = false;
};

}  // namespace gossamer
