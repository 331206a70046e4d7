// Evictor: keeps the memory of a store below its limit by deleting keys (--evict).
//
// A thread asks the memory servers how much is used, and evicts while that is more than a little
// below the limit. Writes that come when it is above evict as much as they bring, and a little
// more, before they are done: so writers cannot outrun it. A write that is refused for want of
// memory all the same evicts, and is tried again. Reads never wait.
//
// Several compute servers of a store evict side by side, each by what its own clients use, and
// about as much as these write: so one whose clients only read keeps what they read.
//
// Thread-safety: one thread starts and destroys it; sessions of any threads may use it at a time.
// Cost of a write while there is room: two atomic additions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/resting_thread.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/gateway/eviction/eviction_figures.h"
#include "compute/gateway/eviction/key_heat.h"
#include "compute/gateway/eviction/victim_choice.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class Evictor {
 public:
  using Clock = std::chrono::steady_clock;
  // How long a refused write is tried again, while keys can be evicted.
  static constexpr std::chrono::seconds kPatience{5};
  // In a row, so many calls that find no key to evict show that there is none.
  static constexpr uint64_t kMostInVain = 32;

  // `store` and `figures` must outlive it. Waits until the memory servers have told how much memory
  // there is. Requires: the policy is not kNone.
  // Errors: those of Store::NewSession and Session::AsyncMemoryLevel; Unsupported without a thread.
  static Result<std::unique_ptr<Evictor>> Start(Store& store, EvictionFigures& figures);
  ~Evictor() = default;
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  // null, unless the coldest keys go.
  KeyHeat* heat() { return heat_.get(); }
  uint64_t keys_in_store() const { return figures_.keys_in_store.load(std::memory_order_relaxed); }

  // Counts a write of so many bytes. Returns whether MakeRoom has nothing to do before it.
  bool HasRoomFor(uint64_t bytes) {
    const auto signed_bytes = static_cast<int64_t>(bytes);
    written_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    const int64_t used = figures_.used_bytes.fetch_add(signed_bytes, std::memory_order_relaxed);
    return used + signed_bytes <= static_cast<int64_t>(limit());
  }
  // Evicts as much as a write of so many bytes brings, or until there is room.
  Task<void> MakeRoom(Session& session, uint64_t bytes);

  // One write's tries after it was refused.
  struct Refusal {
    Clock::time_point until = Clock::now() + kPatience;
    std::vector<uint64_t> wanted_blocks{};  // the sizes of blocks that its values want
    uint64_t bytes = 0;                     // of all these values
    int tries = 0;
  };
  // Evicts for a write that was refused. Returns whether it is to be tried again.
  Task<bool> MakeRoomFor(Session& session, Refusal& refusal);
  // So many writes are refused for good.
  void NoteFailures(uint64_t writes) {
    figures_.failed_writes.fetch_add(writes, std::memory_order_relaxed);
  }

 private:
  explicit Evictor(EvictionFigures& figures) : figures_(figures) {}

  uint64_t limit() const { return figures_.limit_bytes.load(std::memory_order_relaxed); }
  bool has_others() const { return compute_servers_.load(std::memory_order_relaxed) > 1; }
  // Whether no key has been found to evict for so long that it is not worth a try.
  bool IsInVain() const { return in_vain_.load(std::memory_order_relaxed) >= kMostInVain; }
  // Asks the memory servers.
  Task<Status> Look(Session& session);
  // Draws keys once. Returns about how many bytes are free now; 0 also after a failure.
  Task<uint64_t> Evict(Session& session, std::span<const uint64_t> wanted_blocks);
  void Run();
  // What the thread does between two rests. Returns how long to rest.
  Task<std::chrono::milliseconds> RunOnce();

  EvictionFigures& figures_;
  std::unique_ptr<KeyHeat> heat_;
  RecentColdness recent_;
  std::atomic<uint64_t> written_bytes_ = 0;    // since the thread has looked
  std::atomic<uint32_t> compute_servers_ = 1;  // of the store
  std::atomic<uint64_t> in_vain_ = 0;          // calls in a row that found no key to evict
  std::atomic<uint64_t> next_seed_ = 0;
  // Of the thread.
  std::unique_ptr<Session> session_;
  uint64_t kept_bytes_ = 0;
  uint64_t handed_out_bytes_ = 0;
  Clock::time_point tended_{};
  RestingThread thread_;  // uses all of the above
};

}  // namespace gossamer::gateway
