// Bases for stores that do only what the benchmarks need: whatever they do not override is
// Unsupported, with a sentence that names them.
//
// Thread-safety: as in gossamer/store.h.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/store.h"

namespace gossamer {

class PartialStore : public Store {
 public:
  // `name`: what the sentence names, such as "Sherman's client".
  explicit PartialStore(std::string_view name) : name_(name) {}

  Counters counters() const override { return {}; }
  size_t sessions() const override { return 0; }
  std::vector<HotLeaf> HotLeaves(size_t) const override { return {}; }
  Result<StoreStat> Stat() override { return Absent(); }
  Result<StoreUse> MeasureMemory(const std::function<void(uint64_t)>&) override { return Absent(); }
  Result<CheckReport> Check(const std::function<void(uint64_t)>&) override { return Absent(); }
  Result<SweepReport> Sweep(const std::function<bool(const SweepProgress&)>&) override {
    return Absent();
  }
  Result<bool> NeedsSweep() override { return Absent(); }
  Result<RepairReport> Repair(bool, const std::function<bool(uint64_t)>&) override {
    return Absent();
  }
  Result<std::optional<SweepReport>> SweepIfNeeded(
      const std::function<bool(const SweepProgress&)>&) override {
    return Absent();
  }

 private:
  Error Absent() const {
    return MakeError(Code::kUnsupported, std::string(name_) + " does not tell that");
  }

  const std::string_view name_;
};

class PartialSession : public Session {
 public:
  explicit PartialSession(std::string_view name) : name_(name) {}

  using Session::AsyncInsert, Session::AsyncPut, Session::AsyncUpdate;
  Task<Result<ExpiringValue>> AsyncGetWithExpiry(std::string_view) override { co_return Absent(); }
  Task<Status> AsyncInsert(std::string_view, std::string_view, Expiry) override {
    co_return Absent();
  }
  Task<Status> AsyncUpdate(std::string_view, std::string_view, Expiry) override {
    co_return Absent();
  }
  uint64_t StoreTimeMs() const override { return 0; }
  Task<Status> AsyncModify(std::string_view, ValueModifier&) override { co_return Absent(); }
  Task<Status> AsyncDelete(std::string_view) override { co_return Absent(); }
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override {
    SetAbsent(keys.size(), values);
    co_return;
  }
  Task<void> AsyncMultiPut(std::span<const KeyValueView>, std::span<Status> results) override {
    SetAbsent(results);
    co_return;
  }
  Task<void> AsyncMultiDelete(std::span<const std::string_view>,
                              std::span<Status> results) override {
    SetAbsent(results);
    co_return;
  }
  Task<void> AsyncMultiModify(std::span<const KeyModifier>, std::span<Status> results) override {
    SetAbsent(results);
    co_return;
  }
  Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView>, double) override {
    co_return SortedLoad{0, Absent()};
  }
  Task<RangeDeletion> AsyncDeleteRange(KeyRange, std::function<bool(uint64_t)>) override {
    co_return RangeDeletion{0, Absent()};
  }
  Task<RangeDeletion> AsyncDeleteExpired(std::function<bool(uint64_t)>) override {
    co_return RangeDeletion{0, Absent()};
  }
  Task<Result<EvictedKeys>> AsyncEvict(EvictionChoice&) override { co_return Absent(); }
  Task<Result<MemoryLevel>> AsyncMemoryLevel() override { co_return Absent(); }
  Task<void> AsyncGiveBackMemory() override { co_return; }
  Task<void> AsyncSleep(std::chrono::microseconds) override { co_return; }

 protected:
  Error Absent() const {
    return MakeError(Code::kUnsupported, std::string(name_) + " does not do that");
  }

 private:
  void SetAbsent(std::span<Status> results) const { std::ranges::fill(results, Status(Absent())); }
  void SetAbsent(size_t keys, Values& values) const {
    values.Reset(keys);
    for (size_t i = 0; i < keys; ++i) values.Set(i, Result<std::string>(Absent()));
  }

  const std::string_view name_;
};

}  // namespace gossamer
