#include "compute/metrics/counters_metrics.h"

#include <nlohmann/json.hpp>
#include <string>

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

void AddWire(const Counters& counters, Families& families) {
  const auto each = [&](MetricFamilyBuilder family, auto add) {
    for (size_t i = 0; i < kOperationClasses; ++i) {
      add(family, OperationClassName(static_cast<OperationClass>(i)), counters.wire[i]);
    }
  };
  each(families.Counter("gossamer_operations_total",
                        "Operations that ended, by what they proved to be."),
       [](auto& family, auto name, const WireCounts& wire) {
         family.Add({{"class", name}}, wire.operations);
       });
  each(families.Counter("gossamer_round_trips_total",
                        "Round trips to memory servers, one for each post-and-wait."),
       [](auto& family, auto name, const WireCounts& wire) {
         family.Add({{"class", name}}, wire.round_trips);
       });
  each(families.Counter("gossamer_verbs_total", "RDMA verbs posted."),
       [](auto& family, auto name, const WireCounts& wire) {
         family.Add({{"class", name}, {"verb", "read"}}, wire.reads)
             .Add({{"class", name}, {"verb", "write"}}, wire.writes)
             .Add({{"class", name}, {"verb", "atomic"}}, wire.atomics)
             .Add({{"class", name}, {"verb", "send"}}, wire.sends);
       });
  each(families.Counter("gossamer_verb_bytes_total", "Bytes that RDMA verbs read and wrote."),
       [](auto& family, auto name, const WireCounts& wire) {
         family.Add({{"class", name}, {"direction", "read"}}, wire.bytes_read)
             .Add({{"class", name}, {"direction", "written"}}, wire.bytes_written);
       });
}

void AddCache(const CacheCounts& cache, Families& families) {
  families.Gauge("gossamer_cache_bytes", "Memory of the cache of internal nodes.", cache.bytes);
  families
      .Counter("gossamer_cache_lookups_total",
               "Lookups in the cache; a hit needs no READ of an internal node.")
      .Add({{"result", "hit"}}, cache.hits)
      .Add({{"result", "miss"}}, cache.misses);
  families.Counter("gossamer_cache_stale_total", "Times that a stale entry led to the wrong leaf.",
                   cache.stale);
  families.Counter("gossamer_cache_evictions_total", "Nodes evicted to make room.",
                   cache.evictions);
  families.Counter("gossamer_cache_fills_total",
                   "Internal nodes that were READ ahead to fill a cold cache.", cache.filled);
  families
      .Counter("gossamer_cache_blocks_total",
               "Value blocks that were READ along with their keys' groups, where cached references "
               "led; a right one saved a round trip.")
      .Add({{"result", "right"}}, cache.along_right)
      .Add({{"result", "wrong"}}, cache.along - cache.along_right);
}

void AddLocks(const LockCounts& locks, Families& families) {
  families.Counter("gossamer_locks_acquired_total", "Locks of nodes that were taken.",
                   locks.acquired);
  families.Counter("gossamer_locks_handed_over_total",
                   "Locks that were taken from a waiter of this process without a round trip.",
                   locks.handed_over);
  families.Counter("gossamer_locks_combined_writes_total",
                   "Writes that were done together with another operation's write.",
                   locks.combined);
  families.Counter("gossamer_lock_retries_total",
                   "Tries that found a lock taken by another compute server.",
                   locks.remote_retries);
}

}  // namespace

void AddCounters(const Counters& counters, Families& families) {
  AddWire(counters, families);
  AddCache(counters.cache, families);
  AddLocks(counters.locks, families);
  families.Counter("gossamer_rereads_total",
                   "Parts of nodes that were READ again because they were torn or had changed.",
                   counters.rereads);
  families.Counter("gossamer_expired_keys_total",
                   "Keys that had expired, and that this compute server deleted.",
                   counters.expired);
}

Json CountersState(const Counters& counters) {
  Json operations = Json::object();
  for (size_t i = 0; i < kOperationClasses; ++i) {
    const WireCounts& wire = counters.wire[i];
    operations[std::string(OperationClassName(static_cast<OperationClass>(i)))] = {
        {"operations", wire.operations}, {"round_trips", wire.round_trips},
        {"reads", wire.reads},           {"writes", wire.writes},
        {"atomics", wire.atomics},       {"sends", wire.sends},
        {"bytes_read", wire.bytes_read}, {"bytes_written", wire.bytes_written}};
  }
  return {{"operations", std::move(operations)},
          {"cache",
           {{"bytes", counters.cache.bytes},
            {"hits", counters.cache.hits},
            {"misses", counters.cache.misses},
            {"stale", counters.cache.stale},
            {"evictions", counters.cache.evictions},
            {"filled", counters.cache.filled},
            {"along", counters.cache.along},
            {"along_right", counters.cache.along_right}}},
          {"locks",
           {{"acquired", counters.locks.acquired},
            {"handed_over", counters.locks.handed_over},
            {"combined", counters.locks.combined},
            {"remote_retries", counters.locks.remote_retries}}},
          {"rereads", counters.rereads},
          {"expired", counters.expired}};
}

}  // namespace gossamer
