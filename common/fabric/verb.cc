#include "common/fabric/verb.h"

namespace gossamer {

std::string_view VerbStatusName(VerbStatus status) {
  switch (status) {
    case VerbStatus::kPending: return "pending";
    case VerbStatus::kSuccess: return "success";
    case VerbStatus::kRemoteAccess: return "remote access error";
    case VerbStatus::kFlushed: return "flushed";
    case VerbStatus::kUnknown: return "peer lost";
  }
  return "invalid";
}

}  // namespace gossamer
