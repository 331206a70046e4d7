// What a simulated network is to do, and what it has done: faults, options, counters.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/fabric/sim/costs.h"
#include "common/status.h"

namespace gossamer {

// The misbehaviour of the network. All off: ideal, but with latencies. The table of CONTRACT.md
// says which of its lines each fault tries.
struct SimFaults {
  // READs and WRITEs take effect byte by byte (tear.h).
  bool tear = false;
  // Any verb, answer or message may be slow: mostly little, rarely `SimOptions::longest_delay`.
  bool delay = false;
  // Verbs that CONTRACT.md leaves unordered overtake each other.
  bool reorder = false;
  // An atomic writes its word later than it reads it.
  bool write_back = false;
  // Queue pairs break at any verb.
  bool break_queue_pairs = false;
  // Links are down for a while, and may soon go down again.
  bool partition = false;
  // Control calls or their answers are lost while the queue pair lives.
  bool lose_calls = false;
  // A client dies between two WRITEs of one batch: the first took effect; nothing behind it ever
  // does, here or on the client's other queue pairs. `TakeKilledInBatch` tells the driver which
  // client.
  bool cut = false;
  // A client's process stops behind some of its WRITEs (`SimOptions::batches_per_stop`). The driver
  // stops clients at other times, too, by `PauseClient`.
  bool pause = false;
  // For the driver, which calls `KillClient`; the network ignores it.
  bool kill = false;
};

// Parses "none", "all", or a comma-separated list of tear, delay, reorder, write_back, break,
// partition, calls, cut, kill, pause.
Result<SimFaults> ParseSimFaults(std::string_view list);
std::string SimFaultsText(const SimFaults& faults);  // inverse of ParseSimFaults

struct SimOptions {
  uint64_t seed = 1;
  SimFaults faults{};
  SimCosts costs{};
  uint32_t path_mtu = 4096;  // bytes
  uint32_t max_outstanding_verbs = 128;
  // *_per_*: one in so many; 0: never. most_*: at most so many.
  uint32_t verbs_per_break = 1000;
  uint32_t verbs_per_partition = 1000;
  uint32_t most_partitions = 16;
  uint32_t calls_per_loss = 20;
  uint32_t late_call_percent = 0;  // of lost calls: handled after the caller has given up
  uint32_t writes_per_cut = 8;     // of WRITEs behind another one in their batch
  uint32_t most_cuts = 4;
  uint32_t verbs_per_long_delay = 16;
  // Of control calls, if not 0: those that arrive late, by up to longest_late_call, behind what
  // other queue pairs carry.
  uint32_t calls_per_late_call = 0;
  std::chrono::nanoseconds longest_late_call{};
  uint32_t writes_per_long_sight = 4;  // of clean WRITEs (tear.h): those seen in part for longer
  uint32_t reads_per_seam = 0;  // of READs that meet a clean WRITE: those with a seam (tear.h)
  // Under `delay`, one in so many batches that release a lock behind a WRITE arrives late, by half
  // of `longest_lag` to all of it; none if this is 0. What is posted behind it on its queue pair is
  // late as well, control calls are not. Under `partition`, the client reaches no other memory
  // server for a part of that time, or all of it. A client has one such batch at a time.
  uint32_t batches_per_lag = 0;
  uint64_t lag_bits = 0;  // if not 0: the lock's word has one of these bits
  std::chrono::nanoseconds longest_lag{};
  // Of batches that release a lock behind `stop_writes` WRITEs, or more, of at least `stop_bytes`:
  // those behind which the client stops, or only the thread that posted the batch, for up to
  // `longest_stop`. It learns then that the batch has ended.
  uint32_t batches_per_stop = 0;
  uint32_t stop_writes = 1;
  uint32_t stop_bytes = 0;
  bool stops_thread = false;
  std::chrono::nanoseconds longest_stop{};
  std::chrono::nanoseconds longest_delay = std::chrono::milliseconds(1);
  // The latest landing of a packet of a broken queue pair that is neither replaced nor fenced.
  std::chrono::nanoseconds latest_packet = std::chrono::milliseconds(100);
  // The latest time at which a client learns that its queue pair is broken.
  std::chrono::nanoseconds latest_notice = std::chrono::milliseconds(1);
  // The longest time that a link is down.
  std::chrono::nanoseconds longest_partition = std::chrono::milliseconds(10);
  // The time for which a `QueuePairRequest` tries while the link is down.
  std::chrono::nanoseconds connection_timeout = std::chrono::milliseconds(1);
  // Memory servers observe the death of a client, as in shm, after up to this time. 0: they do not,
  // and its lease expires.
  std::chrono::nanoseconds observes_death{0};
};

// For tests that faults do occur.
struct SimCounters {
  uint64_t events = 0;
  uint64_t verbs = 0;               // that took effect
  uint64_t calls = 0;               // that a memory server answered
  uint64_t lost_calls = 0;          // while their queue pair stayed usable
  uint64_t late_calls = 0;          // of these, handled later
  uint64_t torn_reads = 0;          // that took their bytes at more than one time
  uint64_t torn_writes = 0;         // likewise
  uint64_t overtaken = 0;           // verbs that began before an earlier one of their queue pair
  uint64_t long_delays = 0;         // of verbs, answers and messages
  uint64_t written_back = 0;        // CASes that failed and wrote the old value back
  uint64_t lost_to_write_back = 0;  // atomics that overwrote what a WRITE had stored meanwhile
  uint64_t broken_queue_pairs = 0;  // at random
  uint64_t late_packets = 0;        // verbs that took effect after their queue pair had broken
  uint64_t dropped_packets = 0;     // verbs that never did
  uint64_t partitions = 0;          // links that were down
  uint64_t failed_connects = 0;     // `QueuePairRequest`s while a link was down
  uint64_t unheard_farewells = 0;   // queue pairs whose endpoint was destroyed while they were lost
  uint64_t killed_clients = 0;
  uint64_t cuts = 0;  // of these: clients that died between two WRITEs
  uint64_t fenced_clients = 0;
  uint64_t stopped_servers = 0;
  uint64_t slow_servers = 0;
};

}  // namespace gossamer
