#include "common/fabric/fabric.h"

#include <string>

namespace gossamer {

Result<FabricKind> ParseFabricKind(std::string_view name) {
  if (name == "shm") return FabricKind::kShm;
  if (name == "verbs") return FabricKind::kVerbs;
  return MakeError(Code::kInvalidArgument,
                   "fabric '" + std::string(name) + "': give --fabric=shm or --fabric=verbs");
}

std::string_view FabricKindName(FabricKind kind) {
  switch (kind) {
    case FabricKind::kShm: return "shm";
    case FabricKind::kVerbs: return "verbs";
    case FabricKind::kSim: return "sim";
  }
  return "invalid";
}

}  // namespace gossamer
