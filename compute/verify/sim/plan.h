// The plan of one run: all its parameters, drawn from its seed and from what the caller fixes.
//
// A seed determines a whole configuration, not only an order of events: sizes of nodes, caches and
// lock tables, numbers of sessions and coroutines, the mix of operations, how bad the network is. A
// profile narrows the draw to schedules in which some rule of the protocol matters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/random.h"
#include "common/status.h"
#include "compute/verify/history/history.h"
#include "compute/verify/sim/faults.h"
#include "proto/region.h"

namespace gossamer::simulator {

// What the caller fixes by flags.
struct RunOptions {
  uint32_t clients = 8;
  uint32_t servers = 2;
  uint32_t keys = 64;         // hot ones
  uint32_t operations = 500;  // of all clients together
  FaultSet faults = FaultSet::All();
  std::string profile = "any";  // a name in Profiles(), or "any"
};

// Which keys operations use.
enum class Skew : uint8_t {
  kUniform,
  kZipf,     // few keys get most operations
  kOneLeaf,  // mostly one of a few neighbours
  kAscend,   // a window that moves up over the keys
};

// One compute server.
struct ClientPlan {
  uint32_t sessions = 1;    // each as for one thread
  uint32_t coroutines = 1;  // of each session
  uint64_t cache_bytes = 0;
  uint32_t readers = 0;         // of the coroutines of each session: they only get
  uint32_t longest_nap_us = 0;  // 0: that of the work
  uint32_t beat_us = 0;  // operations begin at multiples of this, and so together; 0: at any time
};

// The operations of a run.
struct WorkPlan {
  static constexpr size_t kKinds = 8;
  std::array<uint32_t, kKinds> weights{};  // by history::OperationKind
  Skew skew = Skew::kUniform;
  uint32_t hot_keys = 64;
  uint32_t fillers = 0;          // keys between two hot ones: they make leaves split
  uint32_t filler_percent = 0;   // of writes: to fillers
  uint32_t far_percent = 50;     // of these: anywhere, not near a hot key
  uint32_t prefill_percent = 0;  // of all keys: put before the run
  uint32_t ordered_percent = 0;  // of writes: to the next keys of some series, in order
  uint32_t series = 1;           // of neighbouring keys; each has as many
  bool descends = false;         // their order
  uint32_t long_percent = 0;     // of values: longer than 16 bytes, so that they need blocks
  uint32_t longest_value = 17;
  uint32_t nap_percent = 0;  // of operations: the coroutine sleeps briefly before
  uint32_t longest_nap_us = 30;
  uint32_t scan_keys = 1;          // longest range of a scan
  uint32_t writers_at_once = 4;    // most writes of one key in flight
  uint32_t batch_percent = 0;      // of operations: so many are batches
  uint32_t longest_batch = 2;      // most keys of a batch
  uint32_t keys_only_percent = 0;  // of scans: without values
  uint32_t rest_percent = 0;       // of scans: the cursor rests now and then
  uint32_t longest_rest_us = 0;
  uint32_t erase_keys = 1;  // longest range of a DeleteRange
  // In each second of so many operations, deletes take the place of inserts and inserts that of
  // deletes: the tree shrinks where it grew. 0: never.
  uint32_t wave = 0;
  // Longest time between two sweeps of a client. 0: it sweeps never.
  uint32_t sweep_us = 0;
  uint32_t expiring_percent = 0;  // of puts and modifies: give the key a time
  uint32_t longest_life_ms = 1;
  // Longest time between two sweeps of a client for keys that have expired.
  uint32_t expire_us = 0;

  uint32_t keys() const { return hot_keys * (fillers + 1); }
};

struct Plan {
  std::string_view profile;
  uint64_t seed = 0;
  uint32_t servers = 1;
  uint32_t operations = 0;
  StoreParameters parameters;
  uint64_t memory_bytes = 0;  // of each server
  uint64_t chunk_bytes = 0;
  uint32_t chunks = 0;  // of each server, small ones; 0: not fixed
  // Of server 0, likewise. It has no room for long, so that internal nodes come to other servers.
  uint32_t chunks_of_first = 0;
  std::optional<uint64_t> bytes_of_first;  // nullopt: as of the others
  uint64_t lock_table_bytes = 0;
  bool on_chip_locks = true;
  uint32_t lease_ms = 0;
  uint32_t lock_timeout_ms = 0;
  FaultSet faults;
  std::vector<ClientPlan> clients;
  WorkPlan work;
  SimOptions network;  // how bad it is
  uint32_t kills = 0;  // how often a client dies; `pauses`: how often one stops
  uint32_t pauses = 0;
  uint32_t longest_pause_ms = 0;
  // A client stops only while an operation or a merge of its is under way.
  bool stops_at_work = false;
  // Sessions of a client that has stopped go on so much later than the others, at most.
  uint32_t longest_lag_us = 0;
  // The generation that all memory has been used under before. 0: none.
  uint8_t worn_generation = 0;
  // Clients go on after losing a memory server. Otherwise others replace them.
  bool clients_stay = false;
  // How often a client closes a session or the store, at any time, and reopens it; and the
  // percentage of losses of clients that stay after which that happens.
  uint32_t reopens = 0;
  uint32_t reopen_percent = 0;
  // How often a memory server dies with all its data, and the percentage of deaths after which a
  // server of another store takes its address. Clients stay.
  uint32_t deaths = 0;
  uint32_t successor_percent = 0;
  // Longest time between two tries of a client to repair the tree, once a memory server has died
  // that the record names no more. That is never server 0. 0: it never does.
  uint32_t repair_us = 0;
  // How often a memory server stops or becomes slow, and for how long at most.
  uint32_t stalls = 0;
  uint32_t longest_stall_ms = 0;
  // How often a memory server joins, the percentage of joins behind too low an MTU, and how often a
  // fault hits the store's record. Memory servers look at the record every `look_us`.
  uint32_t joins = 0;
  uint32_t low_mtu_percent = 0;
  uint32_t record_faults = 0;
  uint32_t look_us = 0;
  // How often memory servers are killed that come back with their memory, how long they are away at
  // most, and the percentage of returns after which the server is soon killed again.
  uint32_t returns = 0;
  uint32_t longest_absence_us = 0;
  uint32_t again_percent = 0;
  // How much faster the store's clock goes than that of the clients, in 10^-6; at most 500.
  int32_t clock_ppm = 0;
  // For so long clients wait for a server that is to come back.
  uint32_t reconnect_ms = 10'000;
  // Whether clients open the store through a record.
  bool has_record() const { return joins + record_faults + returns != 0; }
};

// Errors: InvalidArgument for an unknown profile and for numbers that make no run.
Status Validate(const RunOptions& options);
// Requires (unchecked): valid options.
Plan DrawPlan(const RunOptions& options, uint64_t seed);
// One line for people.
std::string ToString(const Plan& plan);

}  // namespace gossamer::simulator
