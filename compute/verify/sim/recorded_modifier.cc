#include "compute/verify/sim/recorded_modifier.h"

namespace gossamer::simulator {

using history::kAbsent;
using history::ValueId;

ValueModifier::Change RecordedModifier::Modify(std::optional<std::string_view> value,
                                               Expiry expiry) {
  if (client_.is_dead()) return {};
  Scene& scene = client_.scene_;
  const ValueId seen = value ? client_.Verify(operation_.key, *value) : kAbsent;
  switch (operation_.change) {
    case Kind::kKeep:
    case Kind::kTouch: scene.recorder.Modifies(lane_, seen, seen); break;
    case Kind::kDelete: scene.recorder.Modifies(lane_, seen, kAbsent); break;
    case Kind::kPut: {
      const ValueId put = scene.workload.NewValue(operation_.key, client_.number());
      bytes_ = scene.workload.values().Bytes(put);
      scene.recorder.Modifies(lane_, seen, put);
      const Expiry after = NewExpiry(expiry);
      if (!after.is_never()) {
        scene.recorder.Expires(lane_, put, scene.clock.TimeOf(after.at_ms()));
      }
      const bool keeps = operation_.life_ms == PlannedOperation::kKeepsTime;
      return {Kind::kPut, bytes_, keeps ? Expiry::Keep() : after};
    }
  }
  return {operation_.change, bytes_};
}

Expiry RecordedModifier::NewExpiry(Expiry before) const {
  if (operation_.life_ms == 0) return Expiry::Never();
  if (operation_.life_ms == PlannedOperation::kKeepsTime) return before;
  return Expiry::At(session_.StoreTimeMs() + operation_.life_ms);
}

}  // namespace gossamer::simulator
