#include "compute/tree/tree_context.h"

#include <fmt/core.h>

#include <chrono>

namespace gossamer {

TreeContext::TreeContext(StoreState& store_state, Scheduler& scheduler, TreeEvents& tree_events)
    : store(store_state),
      running(store_state.running),
      pauses(scheduler, store.seeds.fetch_add(2, std::memory_order_relaxed) | 1),
      clock(store.clock, scheduler),
      links(scheduler, pauses, store.servers,
            {[this](ServerId server, const Registration& registration) {
               if (server == ServerId{0}) store.clock.Learn(registration.clock);
               // After a new lease, memory granted under the one before is not used (rule U4).
               return store.allocator.Registered(server, registration);
             },
             [this](ServerId server, Links::Clock::time_point now) {
               store.allocator.Lost(server, now);
             },
             [this](ServerSearch& search) { return store.events.FindServer(search); },
             &store.allocator.leases(), &store.cache.flushes(),
             std::chrono::milliseconds(store_state.options.reconnect_ms), &store.return_waits}),
      cache(store.cache, counters.cache, figures.leaves),
      memory(links, store.allocator),
      locks{links,         pauses, store.locks,    store.orphans,
            store.leases,  memory, store.geometry, store.options.lock_timeout_ms,
            counters.locks},
      nodes(store, links, pauses, locks, cache, counters.rereads),
      blocks(links),
      guesses(store.references, blocks, scheduler.endpoint().limits(), counters.cache),
      events(tree_events),
      descent(nodes, cache, events) {}

Status TreeContext::CheckKey(KeyView key) const {
  if (key.size() > store.parameters.max_key_bytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a key of {} bytes: this store takes at most {}", key.size(),
                                 store.parameters.max_key_bytes));
  }
  return Ok();
}

}  // namespace gossamer
