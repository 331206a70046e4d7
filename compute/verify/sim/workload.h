// The operations of a run: how many are left, and the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "common/random.h"
#include "compute/verify/history/data.h"
#include "compute/verify/sim/plan.h"
#include "gossamer/store.h"

namespace gossamer::simulator {

struct PlannedOperation {
  history::OperationKind kind = history::OperationKind::kGet;
  uint32_t key = 0;                           // of a scan or erase: the lowest of its range
  history::ValueId value = history::kAbsent;  // what a write writes; a modify draws it later
  uint32_t last = 0;                          // scan, erase: the first key beyond its range
  uint64_t limit = 0;                         // scan
  bool reverse = false;                       // scan
  bool keys_only = false;                     // scan
  bool rests = false;                         // scan: its cursor pauses now and then
  ValueModifier::Kind change{};               // modify: what becomes of the key
  // Puts and modifies: how long the key lives. 0: for ever; kKeepsTime: as it would have, which only
  // modifies do.
  uint32_t life_ms = 0;
  static constexpr uint32_t kKeepsTime = ~uint32_t{0};
};

// What one MultiPut, MultiDelete, LoadSorted, MultiGet or MultiModify does together.
struct PlannedBatch {
  enum class Kind : uint8_t { kPut, kDelete, kLoad, kGet, kModify };
  Kind kind = Kind::kPut;
  std::vector<PlannedOperation> operations;
  double fill = 1;  // of a load
};

class Workload {
 public:
  explicit Workload(const Plan& plan);

  const history::KeySpace& keys() const { return keys_; }
  const history::ValueSpace& values() const { return values_; }
  uint64_t begun() const { return begun_; }
  // Claims one more operation. Returns false if none is left.
  bool Take();
  // `client` will run the operation.
  PlannedOperation Draw(Random& random, uint32_t client);
  PlannedOperation DrawGet(Random& random) const;
  // Whether a batch begins instead of one operation.
  bool DrawsBatch(Random& random) const;
  // Takes further operations for the batch. It may have fewer than drawn, or none.
  PlannedBatch DrawBatch(Random& random, uint32_t client);
  // A value of that key that was never written.
  history::ValueId NewValue(uint32_t key, uint32_t client);
  // A write that was not drawn begins.
  void WriteBegins(uint32_t key) { ++being_written_[key]; }
  // A write has ended, perhaps without being known to have happened.
  void WriteEnded(uint32_t key, bool is_unknown) {
    --being_written_[key];
    if (is_unknown) ++unknown_[key];
  }

 private:
  history::OperationKind DrawKind(Random& random) const;
  void DrawLife(Random& random, PlannedOperation& write) const;
  // A history is harder to check the more writes of one key overlap. One whose outcome is unknown
  // overlaps all that follow.
  bool MayWrite(uint32_t key) const {
    constexpr uint32_t kMostUnknown = 3;
    return being_written_[key] < work_.writers_at_once && unknown_[key] < kMostUnknown;
  }
  // What takes the place of `kind` at this time.
  history::OperationKind InWave(history::OperationKind kind) const;
  uint32_t DrawHot(Random& random) const;
  uint32_t NextOfSeries() const;
  uint32_t DrawKey(Random& random, bool is_write) const;
  PlannedOperation DrawScan(Random& random) const;
  // Deletes nothing, and is a get instead, where the first key may not be written.
  PlannedOperation DrawErase(Random& random);
  PlannedBatch::Kind DrawBatchKind(Random& random) const;

  const WorkPlan work_;
  const uint64_t operations_;
  const history::KeySpace keys_;
  const history::ValueSpace values_;
  uint64_t begun_ = 0;
  uint32_t sequence_ = 0;
  std::vector<uint32_t> being_written_;  // by key: writes in flight
  std::vector<uint32_t> unknown_;        // by key: writes of unknown outcome
};

}  // namespace gossamer::simulator
