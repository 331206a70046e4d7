#include "compute/gateway/attended_store.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/admin/metrics.h"
#include "compute/metrics/store_watch.h"

namespace gossamer::gateway {

Status Attend(AttendedStore& attended, std::chrono::seconds sweep_after) {
  if (sweep_after.count() != 0) {
    BOOST_OUTCOME_TRY(sweeper, AutoSweeper::Start(*attended.store, sweep_after));
    attended.sweeper = std::move(sweeper);
  }
  BOOST_OUTCOME_TRY(watch,
                    StoreWatch::Start(*attended.store, "this compute server opens that one"));
  attended.watch = std::move(watch);
  return Ok();
}

ProgramAdmin::Served ServedBy(const AttendedStore& attended, const Gateway& gateway) {
  const Store& store = *attended.store;
  StoreWatch& watch = *attended.watch;
  const AutoSweeper* const sweeper = attended.sweeper.get();
  return {.families =
              [metrics = gateway.metrics(), &memory = gateway.memory(), sweeper] {
                Families families;
                metrics->AddTo(families);
                memory.AddTo(families);
                if (sweeper != nullptr) sweeper->AddTo(families);
                return families.Take();
              },
          .state =
              [&store, metrics = gateway.metrics(), &watch, sweeper] {
                nlohmann::ordered_json state = watch.State();
                state.update(metrics->State());
                state["hot_leaves"] = HotLeavesState(store);
                if (sweeper != nullptr) state["sweeps"] = sweeper->State();
                return state;
              },
          .readiness = [&watch] { return watch.Readiness(); }};
}

}  // namespace gossamer::gateway
