// The plan of one run: everything that it is made of, drawn from its seed and from what the caller fixes.
//
// A seed stands for a whole configuration, not for an order of events alone: sizes of nodes, caches and lock tables,
// numbers of sessions and coroutines, the mix of operations, how bad the network is. A profile narrows what is drawn
// to schedules in which some rule of the protocol matters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/random.h"
#include "common/status.h"
#include "compute/verify/history/history.h"
#include "compute/verify/sim/faults.h"
#include "compute/verify/sim/technique_set.h"
#include "proto/region.h"

namespace gossamer::simulator {

// What the caller fixes, by flags.
struct RunOptions {
  uint32_t clients = 8;
  uint32_t servers = 2;
  uint32_t keys = 64;         // hot ones
  uint32_t operations = 500;  // of all clients together
  FaultSet faults = FaultSet::All();
  std::string profile = "any";             // of a name in Profiles(), or any
  std::optional<TechniqueSet> techniques;  // of everybody; none: drawn
};

// Which keys operations go to.
enum class Skew : uint8_t {
  kUniform,
  kZipf,     // few keys get most
  kOneLeaf,  // mostly one of a few neighbours
  kAscend,   // a window that moves up over the keys
};

// One compute server.
struct ClientPlan {
  uint32_t sessions = 1;    // each what a thread would have
  uint32_t coroutines = 1;  // of each session
  uint64_t cache_bytes = 0;
  Techniques techniques{};
  uint32_t readers = 0;  // of the coroutines of each session: they only get
};

// What the operations are.
struct WorkPlan {
  static constexpr size_t kKinds = 6;
  std::array<uint32_t, kKinds> weights{};  // by history::OperationKind
  Skew skew = Skew::kUniform;
  uint32_t hot_keys = 64;
  uint32_t fillers = 0;          // keys between two hot ones: they make leaves split
  uint32_t filler_percent = 0;   // of the writes that go to one of those
  uint32_t far_percent = 50;     // of these: which go anywhere, and not near a hot key
  uint32_t prefill_percent = 0;  // of all keys: put before the run
  uint32_t long_percent = 0;     // of values: longer than 16 bytes, so in blocks
  uint32_t longest_value = 17;
  uint32_t nap_percent = 0;  // of operations: before which a coroutine sleeps a little
  uint32_t longest_nap_us = 30;
  uint32_t scan_keys = 1;        // longest range of a scan
  uint32_t writers_at_once = 4;  // writes of one key under way

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
  uint64_t lock_table_bytes = 0;
  bool on_chip_locks = true;
  uint32_t lease_ms = 0;
  uint32_t lock_timeout_ms = 0;
  FaultSet faults;
  std::vector<ClientPlan> clients;
  WorkPlan work;
  SimOptions network;  // how bad it is
  uint32_t kills = 0;  // how often a client dies, and how often one stops
  uint32_t pauses = 0;
  uint32_t longest_pause_ms = 0;
  // Clients go on after they have lost a memory server; else others come in their place.
  bool clients_stay = false;
  // How often a client closes a session, or the store, at any time, and opens it again; and of the losses of those that
  // stay, how many in a hundred are followed by that.
  uint32_t reopens = 0;
  uint32_t reopen_percent = 0;
  // How often a memory server dies for good, with all that it has, and how many in a hundred of them are followed by
  // another one, of another store, at the same address. Clients stay.
  uint32_t deaths = 0;
  uint32_t successor_percent = 0;
  // How often one stops or goes slow, and for how long at most.
  uint32_t stalls = 0;
  uint32_t longest_stall_ms = 0;
  // How often another memory server joins, how many in a hundred of them behind too low an MTU, and how often something
  // happens to the store's record. Memory servers look at it each `look_us`.
  uint32_t joins = 0;
  uint32_t low_mtu_percent = 0;
  uint32_t record_faults = 0;
  uint32_t look_us = 0;
  // Whether there is a record that clients open the store by.
  bool has_record() const { return joins + record_faults != 0; }
};

struct Profile {
  std::string_view name;
  std::string_view what;
  void (*narrow)(Random& random, Plan& plan);  // called when everything else is drawn
};

std::span<const Profile> Profiles();

// InvalidArgument for a profile that is none, and for numbers that make no run.
Status Validate(const RunOptions& options);
// The options must be valid.
Plan DrawPlan(const RunOptions& options, uint64_t seed);
// One line for people.
std::string ToString(const Plan& plan);

}  // namespace gossamer::simulator
