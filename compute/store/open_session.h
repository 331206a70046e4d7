// OpenSession: a thread's coroutines over its own endpoint.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/random.h"
#include "compute/node/store_state.h"
#include "gossamer/store.h"

namespace gossamer {

class Tree;
class TreeCursor;
enum class WriteMode : uint8_t;

class OpenSession final : public Session {
 public:
  OpenSession(StoreState& shared, std::unique_ptr<Endpoint> endpoint);
  // Waits for spawned tasks: an abandoned coroutine could hold a lock.
  ~OpenSession() override;

  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  Task<Result<ExpiringValue>> AsyncGetWithExpiry(std::string_view key) override;
  using Session::AsyncInsert, Session::AsyncPut, Session::AsyncUpdate;
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncInsert(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncDelete(std::string_view key) override;
  // Each of the four: without `value` for a delete.
  Task<Status> AsyncWrite(std::string_view key, std::string_view value, WriteMode mode,
                          Expiry expiry = {});
  Task<Status> AsyncModify(std::string_view key, ValueModifier& modifier) override;
  Task<void> AsyncMultiModify(std::span<const KeyModifier> modifiers,
                              std::span<Status> results) override;
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override;
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override;
  Task<void> AsyncMultiDelete(std::span<const std::string_view> keys,
                              std::span<Status> results) override;
  Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView> pairs, double fill) override;
  Task<RangeDeletion> AsyncDeleteRange(KeyRange range,
                                       std::function<bool(uint64_t deleted)> progress) override;
  Task<RangeDeletion> AsyncDeleteExpired(std::function<bool(uint64_t deleted)> progress) override;
  Task<Result<EvictedKeys>> AsyncEvict(EvictionChoice& choice) override;
  Task<Result<MemoryLevel>> AsyncMemoryLevel() override;
  Task<void> AsyncGiveBackMemory() override;
  Task<void> AsyncSleep(std::chrono::microseconds time) override;

  void Spawn(Task<void> task) override { scheduler_.Spawn(std::move(task)); }
  size_t Poll() override;
  void WaitAll() override { scheduler_.RunUntil(0); }
  Counters counters() const override;
  uint64_t StoreTimeMs() const override;

  Tree& tree() { return *tree_; }
  Scheduler& scheduler() { return scheduler_; }
  // Cursors of this session, which it ends when it ends itself.
  void Add(TreeCursor& cursor) { cursors_.push_back(&cursor); }
  void Remove(TreeCursor& cursor) { std::erase(cursors_, &cursor); }
  using Session::RunToEnd;  // also for tasks of the tree

 private:
  // In the background are repairs, merges, and what gives memory back: no lock may stay held while
  // the caller is elsewhere.
  void RunUntilDone(std::coroutine_handle<> task) override;

  StoreState& shared_;
  std::unique_ptr<Endpoint> endpoint_;
  Scheduler scheduler_;
  std::unique_ptr<Tree> tree_;  // apart: who includes this file need not know all of the tree
  std::vector<TreeCursor*> cursors_;
  Random random_;  // which leaves it draws
};

}  // namespace gossamer
