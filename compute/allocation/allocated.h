// Memory that was allocated but is not reachable yet, and what may be done with it (rule U4).
//
// Memory allocated under a lease that has ended must not become reachable: a sweeper may have given
// it to others. So each piece carries a stamp. The batch that makes it reachable is posted only if
// RemoteAllocator::MayLink still permits it in the same step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "compute/session/servers.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Where memory was allocated, and the allocator's count of leases then. `registrations`: the leases
// that all memory servers together had given this compute server before it sent the request that
// last confirmed the lease with `server`.
struct AllocationStamp {
  ServerId server{0};
  uint64_t registrations = 0;
};

// The memory that one batch makes reachable.
class LinkedMemory {
 public:
  void Add(const AllocationStamp& stamp) {
    const size_t server = ToInteger(stamp.server);
    servers_[server / kBits] |= uint64_t{1} << server % kBits;
    oldest_ = std::min(oldest_, stamp.registrations);
  }
  bool IsEmpty() const { return oldest_ == kNever; }
  // The smallest `registrations` of the stamps.
  uint64_t oldest() const { return oldest_; }
  // A bit set of the servers that hold some of the memory, kBits in a word.
  std::span<const uint64_t> servers() const { return servers_; }
  static constexpr size_t kBits = 64;

 private:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  static_assert(Servers::kMaxServers % kBits == 0);

  std::array<uint64_t, Servers::kMaxServers / kBits> servers_{};
  uint64_t oldest_ = kNever;
};

class RemoteAllocator;

// An allocated node (RemotePtr) or block (BlockPtr). The destructor gives it back unless verbs were
// posted for it. Afterwards only `GiveBack` does: a WRITE may be in flight (E3), or it may be
// reachable. Memory that is neither given back nor known to be reachable is left to a sweeper, and
// the allocator is told (rule G3).
template <typename Pointer>
class [[nodiscard]] Allocated {
 public:
  Allocated() = default;
  Allocated(RemoteAllocator& allocator, Pointer pointer, uint32_t bytes,
            const AllocationStamp& stamp)
      : memory_(&allocator, {pointer, bytes, stamp}) {}

  explicit operator bool() const { return memory_ != nullptr; }
  Pointer pointer() const { return memory_.get_deleter().pointer; }
  const AllocationStamp& stamp() const { return memory_.get_deleter().stamp; }
  // Call before posting verbs that write to the memory or make it reachable.
  void Posted() { memory_.get_deleter().is_posted = true; }
  // Call once the batch has succeeded that made it reachable.
  void Linked() { memory_.release(); }
  // Requires (unchecked): no verb that writes to the memory is in flight, and nothing refers to it.
  void GiveBack() {
    memory_.get_deleter().is_posted = false;
    memory_.reset();
  }

 private:
  struct Piece {
    Pointer pointer{};
    uint32_t bytes = 0;
    AllocationStamp stamp;
    bool is_posted = false;

    void operator()(RemoteAllocator* allocator) const;
  };

  std::unique_ptr<RemoteAllocator, Piece> memory_;
};

}  // namespace gossamer
