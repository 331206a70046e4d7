// One one-sided verb: what it does to which memory, and how it ended. verb_table.h has a row for
// each opcode.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/verb_table.h"

namespace gossamer {

// The memory of a memory server that an offset counts from.
enum class Space : uint8_t { kRegion, kLockTable };

enum class VerbStatus : uint8_t {
  kPending,
  kSuccess,
  kRemoteAccess,  // Out of bounds, misaligned atomic, wrong key: not applied.
  // Not applied: behind a verb that was kRemoteAccess, or posted without a working queue pair.
  kFlushed,
  kUnknown,  // Peer lost: applied, not applied, or still in flight.
};

constexpr std::string_view VerbStatusName(VerbStatus status) {
  switch (status) {
    case VerbStatus::kPending: return "pending";
    case VerbStatus::kSuccess: return "success";
    case VerbStatus::kRemoteAccess: return "remote access error";
    case VerbStatus::kFlushed: return "flushed";
    case VerbStatus::kUnknown: return "peer lost";
  }
  return "invalid";
}

// One one-sided operation. `local` lies in a buffer of the posting endpoint, is disjoint from that
// of every other verb in flight, and stays untouched until the batch completes. `length` is in
// bytes. An atomic has length 8 and a remote offset that is a multiple of 8; it stores the old
// value at `local` (8-byte aligned). A verb of length 0 moves nothing and succeeds at any offset
// inside the space or at its end.
struct Verb {
  Opcode opcode = Opcode::kRead;
  Space space = Space::kRegion;
  // Starts only after the READs and atomics before it on this queue pair have ended.
  bool fence = false;
  VerbStatus status = VerbStatus::kPending;
  uint32_t length = 0;
  uint64_t remote_offset = 0;
  LocalAddress local;
  uint64_t compare = 0;      // of a conditional atomic
  uint64_t swap_or_add = 0;  // CAS: new value; fetch-add: addend

  static Verb Read(uint64_t offset, uint32_t length, LocalAddress into,
                   Space space = Space::kRegion) {
    return {.space = space, .length = length, .remote_offset = offset, .local = into};
  }
  static Verb Write(uint64_t offset, uint32_t length, LocalAddress from,
                    Space space = Space::kRegion) {
    Verb verb = Read(offset, length, from, space);
    verb.opcode = Opcode::kWrite;
    return verb;
  }
  static Verb CompareSwap(Space space, uint64_t offset, uint64_t compare, uint64_t swap,
                          LocalAddress old_value) {
    Verb verb = Read(offset, 8, old_value, space);
    verb.opcode = Opcode::kCompareSwap;
    verb.compare = compare;
    verb.swap_or_add = swap;
    return verb;
  }
  static Verb FetchAdd(Space space, uint64_t offset, uint64_t addend, LocalAddress old_value) {
    Verb verb = Read(offset, 8, old_value, space);
    verb.opcode = Opcode::kFetchAdd;
    verb.swap_or_add = addend;
    return verb;
  }

  bool is_read() const { return TraitsOf(opcode).verb_class == VerbClass::kRead; }
  bool is_write() const { return TraitsOf(opcode).verb_class == VerbClass::kWrite; }
  bool is_atomic() const { return TraitsOf(opcode).verb_class == VerbClass::kAtomic; }
  // An atomic that replaces the word only if it is equal to `compare`.
  bool is_conditional() const { return TraitsOf(opcode).is_conditional; }
  // Returns: the value before the atomic, or the one read, if the verb has succeeded. Requires: an
  // atomic, or a READ of 8 bytes.
  uint64_t old_value() const {
    assert(is_atomic() || (is_read() && length == sizeof(uint64_t)));
    uint64_t value;
    std::memcpy(&value, local.data, sizeof value);
    return value;
  }
};

}  // namespace gossamer
