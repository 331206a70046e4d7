#include "compute/verify/sim/last_sweep.h"

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/fabric/open/open_port.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"

namespace gossamer::simulator {
namespace {

Result<CheckReport> SweepAndCheck(Scene& scene, uint32_t number) {
  ComputePortOptions port_options;
  port_options.client_uuid = number;
  port_options.network = &scene.network;
  port_options.least_path_mtu = scene.plan.parameters.node_bytes;
  BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kSim, port_options));
  BOOST_OUTCOME_TRY(record, scene.FindRecord());
  std::shared_ptr<Bootstrap> bootstrap;
  if (scene.membership != nullptr) bootstrap = scene.membership->bootstrap();
  TreeOptions tree;
  tree.seed = number;
  BOOST_OUTCOME_TRY(store, OpenStore::OpenOn(std::move(port), record, tree, std::move(bootstrap)));
  BOOST_OUTCOME_TRY(session, store->NewOpenSession());
  // Rule G3: if no client has left memory behind, none is lost.
  BOOST_OUTCOME_TRY(is_needed, store->NeedsSweep());
  if (!is_needed) {
    BOOST_OUTCOME_TRY(report, store->Check({}));
    for (const auto& [server, memory] : report.memory) {
      if (memory.lost_bytes == 0) continue;
      scene.verdict.Wrong(fmt::format("{} bytes of server {} are lost, and no sweep is asked for",
                                      memory.lost_bytes, server));
    }
  }
  // Its own acknowledgement is all that the sweep waits for.
  Scheduler& scheduler = session->scheduler();
  session->Spawn(store->KeepLeases(scheduler));
  const Result<SweepReport> swept = session->RunToEnd(store->SweepOver(scheduler));
  store->StopKeepingLeases();
  session->WaitAll();
  if (!swept) return swept.error();
  return store->Check({});
}

}  // namespace

void SweepAtEnd(Scene& scene, uint32_t number) {
  const Result<CheckReport> report = SweepAndCheck(scene, number);
  if (!report) {
    scene.verdict.Wrong("the last sweep fails: " + report.error().ToString());
    return;
  }
  for (const std::string& problem : report.value().problems) {
    scene.verdict.Wrong("check behind the last sweep: " + problem);
  }
  for (const auto& [server, memory] : report.value().memory) {
    if (memory.lost_bytes != 0) {
      scene.verdict.Wrong(fmt::format("{} bytes of server {} are lost behind the last sweep",
                                      memory.lost_bytes, server));
    }
    // Leases other than the sweeper's have ended, and it has allocated nothing.
    if (memory.kept_bytes + memory.waiting_bytes != 0) {
      scene.verdict.Wrong(fmt::format("{} bytes of server {} are kept by somebody, and {} wait",
                                      memory.kept_bytes, server, memory.waiting_bytes));
    }
    const uint64_t known =
        memory.live_bytes + memory.free_bytes + memory.waiting_bytes + memory.kept_bytes;
    if (memory.lost_bytes == 0 && known != memory.heap_bytes) {
      scene.verdict.Wrong(
          fmt::format("of {} bytes of server {}, {} are live, free, waiting or kept",
                      memory.heap_bytes, server, known));
    }
  }
}

bool RepairAtEnd(Scene& scene, uint32_t number,
                 const std::function<void(const std::function<bool()>&)>& run_until) {
  SimulatedClient repairer(scene, number, {});
  const Status opened = repairer.Open();
  if (!opened) {
    scene.verdict.Wrong("a client cannot open the store to repair it: " +
                        opened.error().ToString());
    return false;
  }
  std::optional<Result<RepairReport>> ended;
  repairer.StartRepair(ended);
  run_until([&ended] { return ended.has_value(); });
  if (!ended) {
    scene.verdict.Wrong("the last repair does not end");
    return false;
  }
  const Result<RepairReport>& report = *ended;
  if (report) return true;
  // The root may have been on another server than server 0, if that was full.
  const Code code = report.error().code;
  const bool is_explained = code == Code::kNodeUnreachable ||
                            (code == Code::kExhausted && scene.plan.faults.has(Fault::kExhaust));
  if (!is_explained) {
    scene.verdict.Wrong("the last repair fails: " + report.error().ToString());
  }
  return false;
}

}  // namespace gossamer::simulator
