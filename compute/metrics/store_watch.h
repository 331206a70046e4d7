// StoreWatch: the description of a store, for /state: read by a thread of its own.
//
// Invariants: `State` never waits for a memory server. What it returns is of the last description that was read: at once, then every
// kInterval while somebody asks for it, and every kIdleInterval if nobody does.
// Thread-safety: `State` by any thread. Cost: that of Store::Stat, as often.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/status.h"
#include "gossamer/store.h"

namespace gossamer {

class StoreWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{2'000};
  static constexpr std::chrono::milliseconds kIdleInterval{10'000};

  // `store` must outlive the watch. Errors: Unsupported if there is no thread.
  static Result<std::unique_ptr<StoreWatch>> Start(Store& store);
  // Waits for a description that is being read: for the connection timeout if a memory server is silent.
  ~StoreWatch();
  StoreWatch(const StoreWatch&) = delete;
  StoreWatch& operator=(const StoreWatch&) = delete;

  // The fields store, fabric and servers of /state; none before the first description is there.
  nlohmann::ordered_json State();

 private:
  explicit StoreWatch(Store& store) : store_(store) {}
  void Run();

  Store& store_;
  std::mutex mutex_;  // for what follows
  std::condition_variable changed_;
  nlohmann::ordered_json state_ = nlohmann::ordered_json::object();
  bool is_asked_for_ = true;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace gossamer
