// Exact cost of operations: round trips, verbs and bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gossamer {

// How an operation is classified after it ran. A Put is an update or an insert, by what it found.
// kMerge: the merges of nodes that lost entries, which the store does in the background.
enum class OperationClass : uint8_t {
  kRead,
  kUpdate,
  kInsert,
  kInsertSplit,
  kDelete,
  kScan,
  kMerge
};
inline constexpr size_t kOperationClasses = 7;

constexpr std::string_view OperationClassName(OperationClass operation) {
  constexpr std::array<std::string_view, kOperationClasses> kNames = {
      "read", "update", "insert", "insert_split", "delete", "scan", "merge"};
  return kNames[static_cast<size_t>(operation)];
}

// Verbs sent on the wire. `round_trips` counts the critical path: one for each post-and-wait,
// however many batches it posted. Behind the common pipeline, concurrent groups of one MultiPut,
// MultiDelete or LoadSorted count as the longest sequence of them. A round trip counts in the class
// of the operation that lengthened it.
struct WireCounts {
  uint64_t operations = 0;
  uint64_t round_trips = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;
  uint64_t atomics = 0;  // compare-and-swaps and fetch-adds
  uint64_t sends = 0;    // control messages
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;

  WireCounts& operator+=(const WireCounts& other) {
    operations += other.operations;
    round_trips += other.round_trips;
    reads += other.reads;
    writes += other.writes;
    atomics += other.atomics;
    sends += other.sends;
    bytes_read += other.bytes_read;
    bytes_written += other.bytes_written;
    return *this;
  }
  WireCounts& operator-=(const WireCounts& other) {
    operations -= other.operations;
    round_trips -= other.round_trips;
    reads -= other.reads;
    writes -= other.writes;
    atomics -= other.atomics;
    sends -= other.sends;
    bytes_read -= other.bytes_read;
    bytes_written -= other.bytes_written;
    return *this;
  }
};

struct CacheCounts {
  uint64_t bytes = 0;  // Gauge: bytes that the shared cache of the compute server holds now.
  uint64_t hits = 0;   // lookups that needed no READ of an internal node
  uint64_t misses = 0;
  // Times that a stale entry led to the wrong leaf; an operation may count several times.
  uint64_t stale = 0;
  uint64_t evictions = 0;  // nodes evicted to make room for what this session read
  // Internal nodes that this session READ before an operation asked for them, to fill a cold cache.
  uint64_t filled = 0;
  // Value blocks that were READ along with their keys' groups, where cached references led, and
  // those of them to which the groups referred.
  uint64_t along = 0;
  uint64_t along_right = 0;

  // All but `bytes`, which is a gauge.
  CacheCounts& operator+=(const CacheCounts& other) {
    hits += other.hits;
    misses += other.misses;
    stale += other.stale;
    evictions += other.evictions;
    filled += other.filled;
    along += other.along;
    along_right += other.along_right;
    return *this;
  }
  CacheCounts& operator-=(const CacheCounts& other) {
    hits -= other.hits;
    misses -= other.misses;
    stale -= other.stale;
    evictions -= other.evictions;
    filled -= other.filled;
    along -= other.along;
    along_right -= other.along_right;
    return *this;
  }
};

struct LockCounts {
  uint64_t acquired = 0;
  uint64_t handed_over = 0;
  uint64_t combined = 0;  // writes done together with another operation's write
  uint64_t remote_retries = 0;

  LockCounts& operator+=(const LockCounts& other) {
    acquired += other.acquired;
    handed_over += other.handed_over;
    combined += other.combined;
    remote_retries += other.remote_retries;
    return *this;
  }
  LockCounts& operator-=(const LockCounts& other) {
    acquired -= other.acquired;
    handed_over -= other.handed_over;
    combined -= other.combined;
    remote_retries -= other.remote_retries;
    return *this;
  }
};

// Counts since the session was created. Counters of several sessions can be added.
struct Counters {
  std::array<WireCounts, kOperationClasses> wire{};
  CacheCounts cache;
  LockCounts locks;
  uint64_t rereads = 0;  // units read again because they were torn or had changed
  uint64_t expired = 0;  // keys that sweeps deleted because they had expired

  WireCounts& of(OperationClass operation) { return wire[static_cast<size_t>(operation)]; }
  const WireCounts& of(OperationClass operation) const {
    return wire[static_cast<size_t>(operation)];
  }
  Counters& operator+=(const Counters& other) {
    for (size_t i = 0; i < kOperationClasses; ++i) wire[i] += other.wire[i];
    cache += other.cache;
    locks += other.locks;
    rereads += other.rereads;
    expired += other.expired;
    return *this;
  }
  Counters& operator-=(const Counters& other) {
    for (size_t i = 0; i < kOperationClasses; ++i) wire[i] -= other.wire[i];
    cache -= other.cache;
    locks -= other.locks;
    rereads -= other.rereads;
    expired -= other.expired;
    return *this;
  }
};

// The counts between two snapshots.
template <typename Counts>
Counts Since(const Counts& before, Counts now) {
  return now -= before;
}

}  // namespace gossamer
