// The one-sided verbs, one row each: all that fabrics and accounts know of a verb by its opcode.
//
// A new verb is a row here, a factory in struct Verb (verb.h), a case in verbs/endpoint.cc (its ibv opcode and
// operands) and a line of CONTRACT.md. The compiler refuses an opcode without that case, and a table of another size than
// kOpcodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gossamer {

enum class Opcode : uint8_t { kRead, kWrite, kCompareSwap, kFetchAdd };
inline constexpr size_t kOpcodes = 4;

// How a verb acts on remote memory: it copies bytes from there, copies bytes to there, or replaces one word.
enum class VerbClass : uint8_t { kRead, kWrite, kAtomic };

struct VerbTraits {
  Opcode opcode;
  std::string_view name;
  VerbClass verb_class;
  // kAtomic: the word that replaces `old`. `compare` and `operand` are Verb::compare and Verb::swap_or_add.
  uint64_t (*new_word)(uint64_t old, uint64_t compare, uint64_t operand) = nullptr;
  // kAtomic: replaces the word only if the word is equal to `compare`.
  bool is_conditional = false;
};

inline constexpr std::array<VerbTraits, kOpcodes> kVerbTable = {{
    {Opcode::kRead, "READ", VerbClass::kRead},
    {Opcode::kWrite, "WRITE", VerbClass::kWrite},
    {Opcode::kCompareSwap, "CAS", VerbClass::kAtomic,
     [](uint64_t old, uint64_t compare, uint64_t swap) { return old == compare ? swap : old; },
     true},
    {Opcode::kFetchAdd, "fetch-add", VerbClass::kAtomic,
     [](uint64_t old, uint64_t, uint64_t addend) { return old + addend; }},
}};

constexpr const VerbTraits& TraitsOf(Opcode opcode) {
  return kVerbTable[static_cast<size_t>(opcode)];
}

namespace internal {
constexpr bool IsInOrder() {
  for (size_t i = 0; i < kVerbTable.size(); ++i) {
    const VerbTraits& verb = kVerbTable[i];
    const bool has_word = verb.new_word != nullptr;
    if (verb.opcode != static_cast<Opcode>(i) ||
        has_word != (verb.verb_class == VerbClass::kAtomic)) {
      return false;
    }
  }
  return true;
}
static_assert(IsInOrder(), "each opcode has its row, and each atomic its new_word");
}  // namespace internal

}  // namespace gossamer
