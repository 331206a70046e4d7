// StoreWatch: the description of a store, for /state, and whether its memory servers can be
// reached, for /readyz: read by a thread of its own. It logs each memory server that cannot be
// reached any more, and each that can be reached again.
//
// Invariants: `State` and `Readiness` never wait for a memory server. What they return is of the
// last description that was read: at once, then every kInterval while somebody asks for it or the
// root cannot be read, and every kIdleInterval otherwise.
// Thread-safety: `State` and `Readiness` by any thread. Cost: that of Store::Stat, as often.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "common/admin/metrics.h"
#include "common/status.h"
#include "gossamer/store.h"

namespace gossamer {

// The field hot_leaves of /state, which takes no time.
nlohmann::ordered_json HotLeavesState(const Store& store);
// The figures of the store's RDMA device; none without one.
void AddDeviceOf(const Store& store, Families& families);
// The fields store, fabric and servers of /state (docs/metrics.md).
nlohmann::ordered_json StatState(const StoreStat& stat);

class StoreWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{2'000};
  static constexpr std::chrono::milliseconds kIdleInterval{10'000};

  // `store` must outlive the watch. `if_gone`: what happens then, or is to be done, in the sentence
  // that says that the store is gone and another one has its name: "restart this program to use
  // that one".
  // Errors: Unsupported if there is no thread.
  static Result<std::unique_ptr<StoreWatch>> Start(Store& store, std::string if_gone);
  // Waits for a description that is being read: for the connection timeout if a memory server is
  // silent.
  ~StoreWatch();
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  // The fields store, fabric and servers of /state, and device where there is one; none before the
  // first description is there.
  nlohmann::ordered_json State();
  // Errors: NodeUnreachable, a sentence that says why the RDMA device cannot be used, names a memory
  // server that cannot be reached, or says that the store is gone.
  Status Readiness();
  // Whether the store is gone and another one has its name (Store::Stat). It stays so.
  bool IsGone() const { return is_gone_; }

 private:
  // By id, each with the sentence that says why it cannot be reached.
  using Troubles = std::map<uint16_t, std::string>;

  StoreWatch(Store& store, std::string if_gone) : store_(store), if_gone_(std::move(if_gone)) {}
  void Run();
  // After `before`.
  Troubles TroublesOf(const Result<StoreStat>& stat, const Troubles& before) const;
  // Has the next description be read soon. Requires (unchecked): the mutex.
  void Ask();

  Store& store_;
  const std::string if_gone_;
  std::atomic<bool> is_gone_ = false;
  std::mutex mutex_;  // for what follows
  std::condition_variable changed_;
  nlohmann::ordered_json state_ = nlohmann::ordered_json::object();
  Troubles troubles_;
  bool is_asked_for_ = true;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gossamer
