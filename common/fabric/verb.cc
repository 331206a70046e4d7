#include "common/fabric/verb.h"

#include <cstring>

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

Verb Verb::Read(uint64_t offset, uint32_t length, LocalAddress into, Space space) {
  Verb verb;
  verb.space = space;
  verb.length = length;
  verb.remote_offset = offset;
  verb.local = into;
  return verb;
}

Verb Verb::Write(uint64_t offset, uint32_t length, LocalAddress from, Space space) {
  Verb verb = Read(offset, length, from, space);
  verb.opcode = Opcode::kWrite;
  return verb;
}

Verb Verb::CompareSwap(Space space, uint64_t offset, uint64_t compare, uint64_t swap,
                       LocalAddress old_value) {
  Verb verb = Read(offset, 8, old_value, space);
  verb.opcode = Opcode::kCompareSwap;
  verb.compare = compare;
  verb.swap_or_add = swap;
  return verb;
}

Verb Verb::FetchAdd(Space space, uint64_t offset, uint64_t addend, LocalAddress old_value) {
  Verb verb = Read(offset, 8, old_value, space);
  verb.opcode = Opcode::kFetchAdd;
  verb.swap_or_add = addend;
  return verb;
}

uint64_t Verb::old_value() const {
  uint64_t value;
  std::memcpy(&value, local.data, sizeof value);
  return value;
}

}  // namespace gossamer
