// What sessions count: LiveCounters, LeafSketch, both in the SessionFigures of one session, and
// SessionCounts, which sums those of a store.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/counters.h"
#include "gossamer/status.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// LiveCounters: the counters of one session, which any thread may read while the session's thread
// counts.
//
// Fields have the names of Counters (gossamer/counters.h). A count is one word that only the
// session's thread writes: it loads and stores, without a locked instruction, as a plain integer
// would. Reading does not disturb it, but for the cache line that it then has to fetch again.
//
// Invariant: a count never falls. Counts that are read together may be of slightly different
// moments.
// Thread-safety: one thread counts; any thread reads.
class LiveCount {
 public:
  LiveCount& operator++() { return *this += 1; }
  LiveCount& operator+=(uint64_t more) {
    count_.store(count_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    return *this;
  }
  uint64_t Read() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_{0};
};

struct LiveWireCounts {
  LiveCount operations;
  LiveCount round_trips;
  LiveCount reads;
  LiveCount writes;
  LiveCount atomics;
  LiveCount sends;
  LiveCount bytes_read;
  LiveCount bytes_written;

  LiveWireCounts& operator+=(const WireCounts& more) {
    operations += more.operations;
    round_trips += more.round_trips;
    reads += more.reads;
    writes += more.writes;
    atomics += more.atomics;
    sends += more.sends;
    bytes_read += more.bytes_read;
    bytes_written += more.bytes_written;
    return *this;
  }
  WireCounts Read() const {
    return {operations.Read(), round_trips.Read(), reads.Read(),      writes.Read(),
            atomics.Read(),    sends.Read(),       bytes_read.Read(), bytes_written.Read()};
  }
};

struct LiveCacheCounts {
  LiveCount hits;
  LiveCount misses;
  LiveCount stale;
  LiveCount evictions;
  LiveCount filled;
  LiveCount along;
  LiveCount along_right;

  // Without `bytes`, which is the store's.
  CacheCounts Read() const {
    return {.hits = hits.Read(),
            .misses = misses.Read(),
            .stale = stale.Read(),
            .evictions = evictions.Read(),
            .filled = filled.Read(),
            .along = along.Read(),
            .along_right = along_right.Read()};
  }
};

struct LiveLockCounts {
  LiveCount acquired;
  LiveCount handed_over;
  LiveCount combined;
  LiveCount remote_retries;

  LockCounts Read() const {
    return {acquired.Read(), handed_over.Read(), combined.Read(), remote_retries.Read()};
  }
};

struct LiveCounters {
  std::array<LiveWireCounts, kOperationClasses> wire;
  LiveCacheCounts cache;
  LiveLockCounts locks;
  LiveCount rereads;
  LiveCount expired;

  // Adds the verbs of an operation that has ended. NotFound and AlreadyExists count as an
  // operation, other errors do not.
  void AddOperation(const WireCounts& verbs, OperationClass kind, const Error* error) {
    LiveWireCounts& total = of(kind);
    total += verbs;
    const bool is_answered =
        error == nullptr || error->code == Code::kNotFound || error->code == Code::kAlreadyExists;
    if (is_answered) ++total.operations;
  }
  LiveWireCounts& of(OperationClass operation) { return wire[static_cast<size_t>(operation)]; }
  Counters Read() const {
    Counters counters;
    for (size_t i = 0; i < kOperationClasses; ++i) counters.wire[i] = wire[i].Read();
    counters.cache = cache.Read();
    counters.locks = locks.Read();
    counters.rereads = rereads.Read();
    counters.expired = expired.Read();
    return counters;
  }
};

// A field of Counters that is missing here. `bytes` of the cache is.
static_assert(sizeof(LiveCounters) == sizeof(Counters) - sizeof(uint64_t));

// LeafSketch: which leaves one session uses most, by a sample of its operations.
//
// About one use in kMeanStep is looked at. The sketch keeps kPlaces leaves (Space-Saving: a leaf
// that is not among them takes the place of the one with the least count, and that count). Every
// kHalveAfter samples all counts are halved, so that what is hot now is on top.
//
// Invariant: the session never waits: while the sketch is being read, it takes no sample.
// Thread-safety: one thread uses leaves; any thread reads.
// Cost: a subtraction for each use; a search of kPlaces words for each sample.
class LeafSketch {
 public:
  static constexpr size_t kPlaces = 32;
  static constexpr uint32_t kMeanStep = 64;
  static constexpr uint64_t kHalveAfter = 1 << 14;
  static constexpr size_t kKeyBytes = 64;

  struct Leaf {
    RemotePtr leaf;
    std::string key;          // the least sampled key, cut to kKeyBytes
    uint64_t operations = 0;  // estimated
  };

  // The leaf is used for the key.
  void Use(RemotePtr leaf, KeyView key) {
    if (--left_ == 0) Sample(leaf, key);
  }
  // Likewise, of `count` uses at once: leaf_at(i) and key_at(i). Null leaves are passed over.
  template <typename LeafAt, typename KeyAt>
  void UseMany(size_t count, LeafAt leaf_at, KeyAt key_at) {
    size_t next = 0;
    while (count - next >= left_) {
      next += left_;
      Sample(leaf_at(next - 1), key_at(next - 1));
    }
    left_ -= static_cast<uint32_t>(count - next);
  }

  // In no order.
  std::vector<Leaf> Read() const {
    const std::lock_guard guard(mutex_);
    std::vector<Leaf> leaves;
    for (size_t i = 0; i < used_; ++i) {
      const Place& place = places_[i];
      leaves.push_back({place.leaf, std::string(place.key_view()), place.samples * kMeanStep});
    }
    return leaves;
  }

 private:
  // Without memory of its own: operations allocate none.
  struct Place {
    RemotePtr leaf;
    uint64_t samples = 0;
    uint32_t key_bytes = 0;
    std::array<char, kKeyBytes> key;

    KeyView key_view() const { return {key.data(), key_bytes}; }
    void SetKey(KeyView bytes) {
      key_bytes = static_cast<uint32_t>(bytes.copy(key.data(), kKeyBytes));
    }
  };

  void Sample(RemotePtr leaf, KeyView key) {
    left_ = NextStep();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || leaf.is_null()) return;
    const auto used = std::span(places_).first(used_);
    const auto found = std::ranges::find(used, leaf, &Place::leaf);
    Place& place = found != used.end() ? *found : NewPlace(leaf);
    if (place.samples++ == 0 || found == used.end() || key.substr(0, kKeyBytes) < place.key_view())
      place.SetKey(key);
    if (++samples_ % kHalveAfter != 0) return;
    for (Place& one : places_) one.samples /= 2;
  }
  Place& NewPlace(RemotePtr leaf) {
    Place& place = used_ < kPlaces ? places_[used_++]
                                   : *std::ranges::min_element(places_, {}, &Place::samples);
    place.leaf = leaf;
    return place;
  }
  // Not a fixed one: batches may have a length of their own.
  uint32_t NextStep() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return 1 + static_cast<uint32_t>(random_ >> 33) % (2 * kMeanStep - 1);
  }

  uint32_t left_ = 1;  // uses until the next sample
  uint64_t random_ = 1;
  uint64_t samples_ = 0;
  mutable std::mutex mutex_;  // for what follows
  size_t used_ = 0;
  std::array<Place, kPlaces> places_;
};

// SessionFigures: what one session counts. SessionCounts: the figures of all sessions of a store,
// summed on request.
//
// Invariants: sums of counters never fall, as the counts of a session that ends are kept. No
// session waits for a reader, but when it begins and ends.
// Thread-safety: SessionFigures: one thread counts, any reads. SessionCounts: all calls from any
// thread.
// Cost: some 100 ns for each session and sum; some µs for each session and list of leaves.
struct SessionFigures {
  LiveCounters counters;
  LeafSketch leaves;
};

class SessionCounts {
 public:
  // Until Remove, `figures` must live.
  void Add(const SessionFigures& figures) {
    const std::lock_guard guard(mutex_);
    sessions_.push_back(&figures);
  }
  void Remove(const SessionFigures& figures) {
    const std::lock_guard guard(mutex_);
    ended_ += figures.counters.Read();
    std::erase(sessions_, &figures);
  }

  Counters Total() const {
    const std::lock_guard guard(mutex_);
    Counters total = ended_;
    for (const SessionFigures* const session : sessions_) total += session->counters.Read();
    return total;
  }
  // The leaves that open sessions use most, those first; at most `most`.
  std::vector<LeafSketch::Leaf> HotLeaves(size_t most) const {
    std::map<RemotePtr, LeafSketch::Leaf> sums;
    {
      const std::lock_guard guard(mutex_);
      for (const SessionFigures* const session : sessions_) {
        for (LeafSketch::Leaf& one : session->leaves.Read()) {
          const auto [place, is_new] = sums.try_emplace(one.leaf, one);
          if (is_new) continue;
          place->second.operations += one.operations;
          place->second.key = std::min(place->second.key, one.key);
        }
      }
    }
    std::vector<LeafSketch::Leaf> leaves;
    for (auto& [leaf, one] : sums) leaves.push_back(std::move(one));
    std::ranges::sort(leaves, std::greater(), &LeafSketch::Leaf::operations);
    leaves.resize(std::min(leaves.size(), most));
    return leaves;
  }
  size_t sessions() const {
    const std::lock_guard guard(mutex_);
    return sessions_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<const SessionFigures*> sessions_;
  Counters ended_;
};

}  // namespace gossamer
