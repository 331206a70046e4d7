// EvictingStore: a store whose sessions note which keys are used, and make room before they write.
//
// All that a gateway does with keys goes through sessions. So nothing else in it knows of
// evictions, and without --evict it uses the store itself.
//
// Thread-safety: as of Store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compute/gateway/eviction/evictor.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class EvictingStore final : public Store {
 public:
  // `store` and `figures` must outlive it. Errors: those of Evictor::Start.
  static Result<std::unique_ptr<EvictingStore>> Open(Store& store, EvictionFigures& figures);

  Result<std::unique_ptr<Session>> NewSession() override;
  Evictor& evictor() { return *evictor_; }

  const StoreParameters& parameters() const override { return store_.parameters(); }
  Counters counters() const override { return store_.counters(); }
  size_t sessions() const override { return store_.sessions(); }
  std::vector<HotLeaf> HotLeaves(size_t most) const override { return store_.HotLeaves(most); }
  DeviceStat Device() const override { return store_.Device(); }
  Result<StoreStat> Stat() override { return store_.Stat(); }
  Result<StoreUse> MeasureMemory(const std::function<void(uint64_t)>& progress) override {
    return store_.MeasureMemory(progress);
  }
  Result<CheckReport> Check(const std::function<void(uint64_t)>& progress) override {
    return store_.Check(progress);
  }
  Result<SweepReport> Sweep(const std::function<bool(const SweepProgress&)>& progress) override {
    return store_.Sweep(progress);
  }
  Result<bool> NeedsSweep() override { return store_.NeedsSweep(); }
  Result<std::optional<SweepReport>> SweepIfNeeded(
      const std::function<bool(const SweepProgress&)>& progress) override {
    return store_.SweepIfNeeded(progress);
  }
  Result<RepairReport> Repair(bool dry_run,
                              const std::function<bool(uint64_t)>& progress) override {
    return store_.Repair(dry_run, progress);
  }

 private:
  EvictingStore(Store& store, std::unique_ptr<Evictor> evictor)
      : store_(store), evictor_(std::move(evictor)) {}

  Store& store_;
  const std::unique_ptr<Evictor> evictor_;
};

}  // namespace gossamer::gateway
