// The rules of the protocol that a memory server keeps, each as a function, as in
// compute/rules/rules.h: no other file of this folder knows that gossamer-sim-mutants breaks one of
// them (common/mutants.h).
//
// Only sources include this file, because each such source is compiled a second time for that
// program.
//
// Thread-safety: thread-safe. Cost: inline; that of the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/mutants.h"
#include "proto/control.h"

namespace gossamer::rules {

// R1: memory that was used has the next generation when it is handed out again. Returns what is
// counted of its last use.
inline control::Range LastUse(control::Range range) {
  if (IsBroken(Mutant::kR1Grant)) range.past = control::Past::kUnused;
  return range;
}

// M1: memory has one owner. Returns where an extent begins that is granted at `offset`.
inline uint64_t GrantedAt(uint64_t offset, uint64_t bytes, uint64_t heap_offset) {
  return IsBroken(Mutant::kM1) && offset >= heap_offset + bytes ? offset - bytes : offset;
}
// M1: nobody but the owner decides about memory while the owner's lease is in force.
inline bool IsOwned(bool is_in_force) { return is_in_force && !IsBroken(Mutant::kM1Live); }

// G1: of an offer, an owner gives up only what has waited ever since. Returns whether memory leaves
// the offer as soon as it does not wait any more.
inline bool EndsOffer() { return !IsBroken(Mutant::kG1); }

// M2: memory whose generations of nodes are used up waits for an epoch. Returns the next
// generation, as told apart from
// `most`: all are used up.
inline uint16_t NextOfNodes(uint16_t next, uint16_t most) {
  return IsBroken(Mutant::kM2) && next == most ? static_cast<uint16_t>(most - 1) : next;
}

// A restart finds the map of the heap as the last store to it has left it (HeapMap). What a test
// does after each of them; in what ships, nothing asks for it.
inline void (*after_map_store)() = nullptr;
inline void MapIsStored() {
  if constexpr (kHasMutants) {
    if (after_map_store != nullptr) after_map_store();
  }
}

// B3: memory is shown as handed out before its owner learns of it. What the map would lack of a
// server that granted before it stored: the last grant, the word of its run and what that was.
inline uint32_t* granted_last = nullptr;
inline uint32_t granted_was = 0;
inline void Grants(uint32_t& word) {
  if (!IsBroken(Mutant::kB3)) return;
  granted_last = &word;
  granted_was = word;
}
// B3: nothing is missing in the map of `memory`, which a process before has left.
inline void ForgetUnstored(std::span<std::byte> memory) {
  if (!IsBroken(Mutant::kB3) || granted_last == nullptr) return;
  const auto* const at = reinterpret_cast<std::byte*>(granted_last);
  if (at >= memory.data() && at < memory.data() + memory.size()) *granted_last = granted_was;
  granted_last = nullptr;
}

// B4: the leases of former processes, whose incarnations are at most `given`, have ended.
inline bool HasEnded(uint32_t incarnation, uint32_t given) {
  return !IsBroken(Mutant::kB4) || incarnation > given;
}
// B4: no lease, and no epoch, gets a number that a former process has given.
inline bool GoesOnCounting() { return !IsBroken(Mutant::kB4Numbers); }

}  // namespace gossamer::rules
