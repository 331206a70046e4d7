#include "compute/verify/sim/recorded_modifier.h"

namespace gossamer::simulator {

using history::kAbsent;
using history::ValueId;

ValueModifier::Change RecordedModifier::Modify(std::optional<std::string_view> value) {
  if (client_.is_dead()) return {};
  Scene& scene = client_.scene_;
  const ValueId seen = value ? client_.Verify(operation_.key, *value) : kAbsent;
  switch (operation_.change) {
    case Kind::kKeep: scene.recorder.Modifies(lane_, seen, seen); break;
    case Kind::kDelete: scene.recorder.Modifies(lane_, seen, kAbsent); break;
    case Kind::kPut: {
      const ValueId put = scene.workload.NewValue(operation_.key, client_.number());
      bytes_ = scene.workload.values().Bytes(put);
      scene.recorder.Modifies(lane_, seen, put);
      break;
    }
  }
  return {operation_.change, bytes_};
}

}  // namespace gossamer::simulator
