#include "common/fabric/work_request.h"

namespace gossamer {

VerbStatus Batch::status() const {
  for (const Verb& verb : verbs()) {
    if (verb.status != VerbStatus::kSuccess) return verb.status;
  }
  return VerbStatus::kSuccess;
}

}  // namespace gossamer
