// The options of a stress run.
#pragma once

#include <cstdint>
#include <string>

#include "compute/verify/history/data.h"
#include "gossamer/rdma_options.h"
#include "gossamer/store.h"
#include "proto/region.h"

namespace gossamer::stress {

using history::Event;
using history::HistoryReport;
using history::HistoryWriter;
using history::kAbsent;
using history::KeySpace;
using history::kMaxKeys;
using history::kNever;
using history::kPreloader;
using history::MakeValueId;
using history::OperationKind;
using history::Outcome;
using history::ValueId;
using history::ValueSpace;

// Eras share no values: sequence numbers of values begin with the era.
constexpr uint32_t FirstSequence(uint32_t era) { return era << 24; }
constexpr uint32_t EraOf(ValueId id) { return static_cast<uint32_t>(id) >> 24; }
// The value of a stable key.
constexpr ValueId StableValue(uint32_t key, uint32_t era) {
  return MakeValueId(key, kPreloader, FirstSequence(era) + 1);
}

struct StressOptions {
  // The cluster. Without servers: one process with its own memory server.
  uint32_t servers = 2;
  uint32_t clients = 4;     // processes
  uint32_t threads = 2;     // of each client
  uint32_t coroutines = 8;  // of each thread
  std::string fabric = "shm";
  std::string bootstrap =
      "dir";             // "dir", "memcached": made for the run; else where a store is found
  std::string listen;    // verbs: address of the memory servers
  uint16_t port = 7471;  // verbs: of the first memory server; each next server uses the next port
  RdmaOptions rdma = {};
  uint32_t connection_timeout_ms = 2000;
  std::string memory = "512MiB";  // of each server
  std::string memory_program;
  StoreParameters parameters;
  uint64_t cache_bytes = uint64_t{64} << 20;
  uint32_t lock_timeout_ms = 60'000;
  uint32_t reconnect_ms = 10'000;
  std::string chunk_bytes;  // empty: the memory server's default
  std::string lease_ms;     // empty: the memory server's default

  // The work.
  uint64_t operations = 3'000'000;  // of all clients together
  uint32_t hot_keys = 10'000;
  uint32_t long_percent = 10;  // values in blocks
  // Then clients stop, and the run fails if they have not done all operations.
  uint32_t max_seconds = 240;
  uint32_t pause_ms = 0;  // longest time for which the run stops a client; 0: never
  // Kills of random clients at random moments; others replace them. Only kills of clients that had
  // done something count. 0: none.
  uint32_t kills = 0;
  uint32_t kill_ms = 400;  // longest time between faults
  // Restarts of memory servers at the same address. A server's data is lost, so that each restart
  // of server 0 begins another era (campaign.h).
  uint32_t restarts = 0;
  // Kills of memory servers whose memory outlives them. They come back with it after up to
  // `absence_ms`.
  uint32_t returns = 0;
  uint32_t absence_ms = 200;
  std::string region_directory = "/dev/shm";  // where that memory is
  uint32_t witness_ms = 3000;  // how long clients go on with the rest of a store after a restart
  uint32_t flushes = 0;        // memcached forgets: it is flushed, or dies and returns
  uint32_t stops = 0;          // a memory server stops (SIGSTOP) and resumes later
  uint32_t stop_ms = 3000;     // at most; longer than a lease
  bool reopen = false;         // clients close sessions and stores, and open them again
  uint32_t loss_ms = 0;        // longest time between a client's lost connections; 0: none
  // After this many operations in an era, a thread pauses between operations if the run is paced.
  // Otherwise histories would grow while faults wait for each other.
  uint64_t full_speed_operations = 40'000;
  uint64_t seed = 1;

  // The run lasts as long as its faults, not its operations.
  bool is_paced() const { return restarts + returns + flushes + stops + loss_ms != 0; }
  bool is_campaign() const {
    return kills + restarts + returns + flushes + stops != 0 || loss_ms != 0;
  }

  // Every life of a client is a separate client. As many as the kills may end before doing
  // anything.
  uint32_t lives() const { return clients + 2 * kills; }
  // For the store of the run, where servers and clients meet at `place`.
  OpenOptions Opening(const std::string& place) const {
    OpenOptions open;
    open.bootstrap = place;
    open.fabric = fabric;
    open.rdma = rdma;
    open.connection_timeout_ms = connection_timeout_ms;
    open.reconnect_ms = reconnect_ms;
    return open;
  }
  KeySpace keys() const { return {hot_keys, parameters.max_key_bytes, seed}; }
  ValueSpace values() const { return ValueSpace(long_percent); }
};

}  // namespace gossamer::stress
