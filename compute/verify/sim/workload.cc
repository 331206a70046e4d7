#include "compute/verify/sim/workload.h"

#include <algorithm>
#include <numeric>

namespace gossamer::simulator {

using history::OperationKind;

namespace {

ValueModifier::Kind DrawChange(Random& random) {
  const uint64_t dice = random.Below(8);
  return dice < 6    ? ValueModifier::Kind::kPut
         : dice == 6 ? ValueModifier::Kind::kDelete
                     : ValueModifier::Kind::kKeep;
}

}  // namespace

Workload::Workload(const Plan& plan)
    : work_(plan.work),
      operations_(plan.operations),
      keys_(plan.work.keys(), plan.parameters.max_key_bytes, plan.seed),
      values_(plan.work.long_percent, plan.work.longest_value),
      being_written_(plan.work.keys()),
      unknown_(plan.work.keys()) {}

bool Workload::Take() {
  if (begun_ == operations_) return false;
  ++begun_;
  return true;
}

history::ValueId Workload::NewValue(uint32_t key, uint32_t client) {
  return history::MakeValueId(key, client, ++sequence_);
}

OperationKind Workload::InWave(OperationKind kind) const {
  const bool is_turned = work_.wave != 0 && begun_ / work_.wave % 2 != 0;
  if (is_turned && kind == OperationKind::kInsert) return OperationKind::kDelete;
  const bool deletes = kind == OperationKind::kDelete || kind == OperationKind::kErase;
  if (is_turned && deletes) return OperationKind::kInsert;
  return kind;
}

OperationKind Workload::DrawKind(Random& random) const {
  const uint32_t all = std::accumulate(work_.weights.begin(), work_.weights.end(), 0u);
  uint64_t dice = random.Below(all);
  size_t kind = 0;
  while (dice >= work_.weights[kind]) dice -= work_.weights[kind++];
  return InWave(static_cast<OperationKind>(kind));
}

uint32_t Workload::DrawHot(Random& random) const {
  const uint32_t all = work_.hot_keys;
  switch (work_.skew) {
    case Skew::kUniform: break;
    case Skew::kZipf: {
      const double unit = random.Unit();
      return static_cast<uint32_t>(unit * unit * unit * all);
    }
    case Skew::kOneLeaf: {
      constexpr uint32_t kNeighbours = 4;
      if (random.Below(10) < 3) break;
      return std::min(all - 1, all / 3 + static_cast<uint32_t>(random.Below(kNeighbours)));
    }
    case Skew::kAscend: {
      constexpr uint32_t kWindow = 6;
      const uint64_t first = uint64_t{all} * begun_ / (operations_ + 1);
      return static_cast<uint32_t>(std::min<uint64_t>(all - 1, first + random.Below(kWindow)));
    }
  }
  return static_cast<uint32_t>(random.Below(all));
}

uint32_t Workload::NextOfSeries() const {
  const uint64_t length = std::max(1u, work_.keys() / work_.series);
  const uint64_t rank = begun_ / work_.series % length;
  const uint64_t at = work_.descends ? length - 1 - rank : rank;
  return static_cast<uint32_t>(begun_ % work_.series * length + at);
}

uint32_t Workload::DrawKey(Random& random, bool is_write) const {
  if (is_write && work_.ordered_percent != 0 && random.Below(100) < work_.ordered_percent) {
    return NextOfSeries();
  }
  // Reads concentrate on the contended keys.
  const uint32_t filler_percent = is_write ? work_.filler_percent : work_.filler_percent / 4;
  const uint32_t hot = DrawHot(random) * (work_.fillers + 1);
  if (work_.fillers == 0 || random.Below(100) >= filler_percent) return hot;
  // Near a hot key, so that its leaf splits; or anywhere.
  if (random.Below(100) < work_.far_percent) {
    return static_cast<uint32_t>(random.Below(work_.keys()));
  }
  const uint64_t reach = std::min<uint32_t>(work_.fillers, 24);
  const uint64_t key = hot + random.Below(2 * reach + 1);
  return static_cast<uint32_t>(std::min<uint64_t>(std::max(key, reach) - reach, work_.keys() - 1));
}

PlannedOperation Workload::DrawScan(Random& random) const {
  PlannedOperation scan;
  scan.kind = OperationKind::kScan;
  scan.reverse = random.Below(2) == 0;
  const uint32_t keys = work_.keys();
  const bool everything = random.Below(4) == 0;
  const auto length = static_cast<uint32_t>(random.Below(work_.scan_keys) + 1);
  scan.key = everything ? 0 : DrawKey(random, false);
  scan.last = everything ? keys : std::min(keys, scan.key + length);
  scan.limit = random.Below(3) == 0 ? random.Below(work_.scan_keys) + 1
                                    : std::numeric_limits<uint64_t>::max();
  const auto chance = [&random](uint32_t percent) {
    return percent != 0 && random.Below(100) < percent;
  };
  scan.keys_only = chance(work_.keys_only_percent);
  scan.rests = chance(work_.rest_percent);
  return scan;
}

PlannedOperation Workload::DrawErase(Random& random) {
  PlannedOperation erase;
  erase.key = DrawKey(random, true);
  const auto length = static_cast<uint32_t>(random.Below(work_.erase_keys) + 1);
  const uint32_t most = std::min(work_.keys(), erase.key + length);
  erase.last = erase.key;
  while (erase.last < most && MayWrite(erase.last)) ++being_written_[erase.last++];
  if (erase.last != erase.key) erase.kind = OperationKind::kErase;
  return erase;
}

void Workload::DrawLife(Random& random, PlannedOperation& write) const {
  if (work_.expiring_percent == 0) return;
  const bool may_keep = write.kind == OperationKind::kModify;
  if (may_keep && random.Below(2) == 0) {
    write.life_ms = PlannedOperation::kKeepsTime;
  } else if (random.Below(100) < work_.expiring_percent) {
    write.life_ms = static_cast<uint32_t>(1 + random.Below(work_.longest_life_ms));
  }
}

PlannedOperation Workload::DrawGet(Random& random) const {
  PlannedOperation drawn;
  drawn.key = DrawKey(random, false);
  return drawn;
}

PlannedOperation Workload::Draw(Random& random, uint32_t client) {
  PlannedOperation drawn;
  drawn.kind = DrawKind(random);
  if (drawn.kind == OperationKind::kScan) return DrawScan(random);
  if (drawn.kind == OperationKind::kErase) return DrawErase(random);
  drawn.key = DrawKey(random, drawn.kind != OperationKind::kGet);
  if (drawn.kind == OperationKind::kGet) return drawn;
  if (!MayWrite(drawn.key)) {
    drawn.kind = OperationKind::kGet;
    return drawn;
  }
  ++being_written_[drawn.key];
  if (drawn.kind == OperationKind::kModify) {
    drawn.change = DrawChange(random);
  } else if (drawn.kind != OperationKind::kDelete) {
    drawn.value = NewValue(drawn.key, client);
  }
  DrawLife(random, drawn);
  return drawn;
}

bool Workload::DrawsBatch(Random& random) const {
  return work_.batch_percent != 0 && random.Below(100) < work_.batch_percent;
}

PlannedBatch::Kind Workload::DrawBatchKind(Random& random) const {
  using Kind = PlannedBatch::Kind;
  const uint64_t dice = random.Below(20);
  const bool may_modify = work_.weights[static_cast<size_t>(OperationKind::kModify)] != 0;
  if (may_modify && random.Below(3) == 0) return Kind::kModify;
  return dice < 5 ? Kind::kPut : dice < 7 ? Kind::kDelete : dice < 10 ? Kind::kLoad : Kind::kGet;
}

PlannedBatch Workload::DrawBatch(Random& random, uint32_t client) {
  PlannedBatch batch;
  batch.kind = DrawBatchKind(random);
  batch.fill = random.Below(2) == 0 ? 1.0 : 0.5;
  const uint64_t count = 1 + random.Below(work_.longest_batch);
  // Neighbours, with some keys more than once, or keys from anywhere.
  const bool are_neighbours = random.Below(3) != 0;
  const uint64_t reach = 1 + random.Below(2 * count);
  const uint32_t first = DrawKey(random, true);
  for (uint64_t i = 0; i < count; ++i) {
    PlannedOperation operation;
    const uint64_t near = std::min<uint64_t>(first + random.Below(reach), work_.keys() - 1);
    operation.key = are_neighbours ? static_cast<uint32_t>(near) : DrawKey(random, true);
    const bool writes = batch.kind != PlannedBatch::Kind::kGet;
    if (writes && !MayWrite(operation.key)) continue;
    if (!batch.operations.empty() && !Take()) break;
    if (writes) {
      ++being_written_[operation.key];
      if (batch.kind == PlannedBatch::Kind::kDelete) {
        operation.kind = OperationKind::kDelete;
      } else if (batch.kind == PlannedBatch::Kind::kModify) {
        operation.kind = OperationKind::kModify;
        operation.change = DrawChange(random);
      } else {
        operation.kind = OperationKind::kPut;
        operation.value = NewValue(operation.key, client);
      }
      DrawLife(random, operation);
    }
    batch.operations.push_back(operation);
  }
  if (batch.kind == PlannedBatch::Kind::kLoad) {
    std::ranges::stable_sort(batch.operations, {}, &PlannedOperation::key);
  }
  return batch;
}

}  // namespace gossamer::simulator
