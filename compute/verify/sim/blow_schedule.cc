#include "compute/verify/sim/blow_schedule.h"

#include <algorithm>

namespace gossamer::simulator {

void BlowSchedule::Draw(const Plan& plan, Random& random) {
  constexpr uint64_t kStepsOfAnOperation = 40;
  const auto draw = [&](uint32_t count, Blow::Kind kind) {
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t at = random.Below(plan.operations);
      blows_.push_back({at, random.Below(kStepsOfAnOperation), kind});
    }
  };
  draw(plan.kills, Blow::Kind::kKill);
  draw(plan.pauses, Blow::Kind::kPause);
  draw(plan.reopens, Blow::Kind::kLeave);
  draw(plan.deaths, Blow::Kind::kDeath);
  draw(plan.stalls, Blow::Kind::kStall);
  draw(plan.joins, Blow::Kind::kJoin);
  draw(plan.record_faults, Blow::Kind::kRecord);
  draw(plan.returns, Blow::Kind::kReturn);
  std::stable_sort(blows_.begin(), blows_.end(), [](const Blow& a, const Blow& b) {
    return a.at_operation > b.at_operation;  // the next one last
  });
}

std::optional<Blow::Kind> BlowSchedule::Take(uint64_t begun) {
  if (blows_.empty() || begun < blows_.back().at_operation) return std::nullopt;
  if (blows_.back().steps_later != 0) {
    --blows_.back().steps_later;
    return std::nullopt;
  }
  const Blow::Kind kind = blows_.back().kind;
  blows_.pop_back();
  return kind;
}

}  // namespace gossamer::simulator
