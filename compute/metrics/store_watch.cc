#include "compute/metrics/store_watch.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <utility>

#include "common/admin/device_state.h"
#include "common/start_thread.h"
#include "common/text/escape.h"

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint16_t kRootServer = 0;

// `is_gone`: whether the store is, in `now`.
void LogChanges(const std::map<uint16_t, std::string>& before,
                const std::map<uint16_t, std::string>& now, bool is_gone) {
  for (const auto& [server, why] : now) {
    const auto known = before.find(server);
    const bool is_news = known == before.end() || (is_gone && known->second != why);
    if (is_news) LOG(WARNING) << "not ready: " << why;
  }
  for (const auto& [server, why] : before) {
    if (!now.contains(server)) LOG(INFO) << "memory server " << server << " can be reached again";
  }
}

}  // namespace

Json HotLeavesState(const Store& store) {
  constexpr size_t kMost = 10;
  auto leaves = Json::array();
  for (const HotLeaf& leaf : store.HotLeaves(kMost)) {
    leaves.push_back({{"leaf", fmt::format("{}:{:#x}", leaf.server_id, leaf.offset)},
                      {"first_key", Quoted(leaf.key)},
                      {"operations", leaf.operations}});
  }
  return leaves;
}

void AddDeviceOf(const Store& store, Families& families) { AddDevice(store.Device(), families); }

Json StatState(const StoreStat& stat) {
  Json servers = Json::array();
  for (const ServerStat& server : stat.servers) {
    Json entry = {{"id", server.server_id}, {"address", server.address}};
    if (server.unreachable.empty()) {
      entry.update({{"heap_bytes", server.heap_bytes},
                    {"free_bytes", server.free_bytes},
                    {"node_bytes", server.node_extent_bytes},
                    {"block_bytes", server.block_extent_bytes},
                    {"waiting_bytes", server.waiting_bytes},
                    {"orphaned_bytes", server.orphaned_bytes},
                    {"compute_servers", server.compute_servers},
                    {"lock_table", server.locks_on_chip ? "device" : "dram"},
                    {"lock_table_bytes", server.lock_table_bytes}});
      if (!server.lock_table_why.empty()) entry["lock_table_why"] = server.lock_table_why;
    } else {
      entry["unreachable"] = server.unreachable;
    }
    servers.push_back(std::move(entry));
  }
  return {{"store", stat.store}, {"fabric", stat.fabric}, {"servers", std::move(servers)}};
}

Result<std::unique_ptr<StoreWatch>> StoreWatch::Start(Store& store, std::string if_gone) {
  std::unique_ptr<StoreWatch> watch(new StoreWatch(store, std::move(if_gone)));
  BOOST_OUTCOME_TRY(thread, StartThread("describe the store", [&watch = *watch] { watch.Run(); }));
  watch->thread_ = std::move(thread);
  return watch;
}

StoreWatch::~StoreWatch() {
  {
    const std::lock_guard guard(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Json StoreWatch::State() {
  const std::lock_guard guard(mutex_);
  Ask();
  Json state = state_;
  const DeviceStat device = store_.Device();
  if (!state.empty() && !device.facts.empty()) state["device"] = DeviceState(device);
  return state;
}

Status StoreWatch::Readiness() {
  const std::lock_guard guard(mutex_);
  Ask();
  BOOST_OUTCOME_TRYV(DeviceReadiness(store_.Device()));
  if (troubles_.empty()) return Ok();
  return MakeError(Code::kNodeUnreachable, troubles_.begin()->second);
}

void StoreWatch::Ask() {
  if (!std::exchange(is_asked_for_, true)) changed_.notify_all();
}

StoreWatch::Troubles StoreWatch::TroublesOf(const Result<StoreStat>& stat,
                                            const Troubles& before) const {
  if (stat) {
    Troubles troubles;
    for (const ServerStat& server : stat.value().servers) {
      if (!server.unreachable.empty()) troubles[server.server_id] = server.unreachable;
    }
    return troubles;
  }
  // Of the others nothing is known.
  Troubles troubles = before;
  if (stat.error().code == Code::kNodeUnreachable) troubles[kRootServer] = stat.error().message;
  if (stat.error().code == Code::kNotFound) {
    troubles[kRootServer] = stat.error().message + ": " + if_gone_;
  }
  return troubles;
}

void StoreWatch::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, kIdleInterval - kInterval, [this] {
      return is_asked_for_ || is_stopping_ || troubles_.contains(kRootServer);
    });
    if (is_stopping_) return;
    lock.unlock();
    const Result<StoreStat> stat = store_.Stat();
    // Only this thread changes it.
    Troubles troubles = TroublesOf(stat, troubles_);
    LogChanges(troubles_, troubles, !stat && stat.error().code == Code::kNotFound);
    Json state = stat ? StatState(stat.value()) : Json();
    lock.lock();
    if (!stat && stat.error().code == Code::kNotFound) is_gone_ = true;
    // Without the memory server that has the root nothing is known: what was known before says
    // more.
    if (stat) state_ = std::move(state);
    troubles_ = std::move(troubles);
    is_asked_for_ = false;
    if (changed_.wait_for(lock, kInterval, [this] { return is_stopping_; })) return;
  }
}

}  // namespace gossamer
