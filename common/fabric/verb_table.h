// The one-sided verbs, one row each: all that fabrics and accounts know of a verb by its opcode.
//
// A new verb is an Opcode and its row. The compiler then refuses each file that does not know the
// verb and has to: see "What a change touches" in docs/architecture.md.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gossamer {

enum class Opcode : uint8_t { kRead, kWrite, kCompareSwap, kFetchAdd };

// How a verb acts on remote memory: it copies bytes from there, copies bytes to there, or replaces
// one word.
enum class VerbClass : uint8_t { kRead, kWrite, kAtomic };

struct VerbTraits {
  Opcode opcode = Opcode::kRead;
  std::string_view name;
  VerbClass verb_class = VerbClass::kRead;
  // kAtomic: the word that replaces `old`. `compare` and `operand` are Verb::compare and
  // Verb::swap_or_add.
  uint64_t (*new_word)(uint64_t old, uint64_t compare, uint64_t operand) = nullptr;
  // kAtomic: replaces the word only if the word is equal to `compare`.
  bool is_conditional = false;
};

namespace internal {

// The row of a verb. Behind the last opcode: a row without a name. The compiler refuses an opcode
// without a case.
constexpr VerbTraits RowOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRead: return {opcode, "READ", VerbClass::kRead};
    case Opcode::kWrite: return {opcode, "WRITE", VerbClass::kWrite};
    case Opcode::kCompareSwap:
      return {
          opcode, "CAS", VerbClass::kAtomic,
          [](uint64_t old, uint64_t compare, uint64_t swap) { return old == compare ? swap : old; },
          true};
    case Opcode::kFetchAdd:
      return {opcode, "fetch-add", VerbClass::kAtomic,
              [](uint64_t old, uint64_t, uint64_t addend) { return old + addend; }};
  }
  return {};
}

constexpr size_t CountRows() {
  size_t rows = 0;
  while (!RowOf(static_cast<Opcode>(rows)).name.empty()) ++rows;
  return rows;
}

constexpr bool IsValid(const VerbTraits& verb) {
  const bool has_word = verb.new_word != nullptr;
  return has_word == (verb.verb_class == VerbClass::kAtomic) && (has_word || !verb.is_conditional);
}

}  // namespace internal

inline constexpr size_t kOpcodes = internal::CountRows();

// By opcode.
inline constexpr std::array<VerbTraits, kOpcodes> kVerbTable = [] {
  std::array<VerbTraits, kOpcodes> rows;
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = internal::RowOf(static_cast<Opcode>(i));
  return rows;
}();
static_assert(std::ranges::all_of(kVerbTable, internal::IsValid),
              "each atomic has its new_word, and only an atomic is conditional");

constexpr const VerbTraits& TraitsOf(Opcode opcode) {
  return kVerbTable[static_cast<size_t>(opcode)];
}

}  // namespace gossamer
