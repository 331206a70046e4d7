// OpenSession: a thread's coroutines over its own endpoint.
#pragma once

#include <cassert>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/scheduler.h"
#include "compute/node/store_state.h"
#include "gossamer/store.h"

namespace gossamer {

class Tree;
class TreeCursor;

class OpenSession final : public Session {
 public:
  OpenSession(StoreState& shared, std::unique_ptr<Endpoint> endpoint);
  // Waits for spawned tasks: an abandoned coroutine could hold a lock.
  ~OpenSession() override;

  Result<std::string> Get(std::string_view key) override;
  Status Put(std::string_view key, std::string_view value) override;
  Status Insert(std::string_view key, std::string_view value) override;
  Status Update(std::string_view key, std::string_view value) override;
  Status Modify(std::string_view key, ValueModifier& modifier) override;
  Status Delete(std::string_view key) override;
  std::vector<Result<std::string>> MultiGet(std::span<const std::string_view> keys) override;
  void MultiGet(std::span<const std::string_view> keys, Values& values) override {
    RunToEnd(AsyncMultiGet(keys, values));
  }
  std::vector<Status> MultiPut(std::span<const KeyValue> pairs) override;
  std::vector<Status> MultiDelete(std::span<const std::string_view> keys) override;
  void MultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override {
    assert(results.size() == pairs.size());
    RunToEnd(AsyncMultiPut(pairs, results));
  }
  void MultiDelete(std::span<const std::string_view> keys, std::span<Status> results) override {
    RunToEnd(AsyncMultiDelete(keys, results));
  }
  void MultiModify(std::span<const KeyModifier> modifiers, std::span<Status> results) override {
    assert(results.size() == modifiers.size());
    RunToEnd(AsyncMultiModify(modifiers, results));
  }
  SortedLoad LoadSorted(std::span<const KeyValueView> pairs, double fill) override {
    return RunToEnd(AsyncLoadSorted(pairs, fill));
  }
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;
  RangeDeletion DeleteRange(const KeyRange& range,
                            const std::function<bool(uint64_t deleted)>& progress) override {
    return RunToEnd(AsyncDeleteRange(range, progress));
  }

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  Task<Status> AsyncPut(std::string_view key, std::string_view value) override;
  Task<Status> AsyncInsert(std::string_view key, std::string_view value) override;
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value) override;
  Task<Status> AsyncDelete(std::string_view key) override;
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

  void Spawn(Task<void> task) override { scheduler_.Spawn(std::move(task)); }
  size_t Poll() override;
  void WaitAll() override { scheduler_.RunUntil(0); }
  Counters counters() const override;

  Tree& tree() { return *tree_; }
  Scheduler& scheduler() { return scheduler_; }
  // Cursors of this session, which it ends when it ends itself.
  void Add(TreeCursor& cursor) { cursors_.push_back(&cursor); }
  void Remove(TreeCursor& cursor) { std::erase(cursors_, &cursor); }
  // Runs a task and the repairs it leaves behind: no lock may stay held while the caller is
  // elsewhere.
  template <typename T>
  T RunToEnd(Task<T> task) {
    if (!shared_.orphans.empty()) shared_.orphans.Tend();
    T value = scheduler_.Run(std::move(task));
    scheduler_.RunWhile([this] { return HasBackground(); });
    return value;
  }
  void RunToEnd(Task<void> task) {
    RunToEnd([](Task<void> inner) -> Task<Status> {
      co_await inner;
      co_return Ok();
    }(std::move(task)))
        .value();
  }

 private:
  // Whether repairs, merges, or what gives memory back run.
  bool HasBackground() const;

  StoreState& shared_;
  std::unique_ptr<Endpoint> endpoint_;
  Scheduler scheduler_;
  std::unique_ptr<Tree> tree_;  // apart: who includes this file need not know all of the tree
  std::vector<TreeCursor*> cursors_;
};

}  // namespace gossamer
