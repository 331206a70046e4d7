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
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "gossamer/counters.h"

namespace gossamer {

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

  LiveWireCounts& of(OperationClass operation) { return wire[static_cast<size_t>(operation)]; }
  Counters Read() const {
    Counters counters;
    for (size_t i = 0; i < kOperationClasses; ++i) counters.wire[i] = wire[i].Read();
    counters.cache = cache.Read();
    counters.locks = locks.Read();
    counters.rereads = rereads.Read();
    return counters;
  }
};

// A field of Counters that is missing here. `bytes` of the cache is.
static_assert(sizeof(LiveCounters) == sizeof(Counters) - sizeof(uint64_t));

}  // namespace gossamer
