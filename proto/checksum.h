// Checksum: the 8 bytes that prove that a unit in remote memory is that of one write to one place.
//
// Two CRC32C of the same 8-byte words w: one of w from the first to the last, one of w ^ (w >> 32)
// from the last to the first. Each alone misses one in 2^32 of the changes that are not short.
// Together they miss one in 2^64, and none that lies within one word (LAYOUT.md, "Checksums").
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "proto/crc32c.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct Checksum {
  uint32_t words = 0;
  uint32_t folded = 0;  // of w ^ (w >> 32), backwards

  friend bool operator==(const Checksum&, const Checksum&) = default;
};
static_assert(sizeof(Checksum) == 8);

// A checksum of words in pairs. The instruction for one word takes three cycles but starts in each:
// so the first and the second words of the pairs have CRCs of their own, which are combined at the
// end.
class PairSum {
 public:
  constexpr PairSum() = default;

  void Add(uint64_t first, uint64_t second) {
    AddWords(first, second);
    AddFolded(second, first);
  }
  // The last pair is filled up with zeros.
  void Add(std::span<const std::byte> bytes) {
    PairSum sum = *this;  // in registers: the bytes might be its own
    const std::byte* front = bytes.data();
    const size_t rest = bytes.size() % kPair;
    const std::byte* back = front + (bytes.size() - rest);
    const std::array<uint64_t, 2> last = LoadRest(back, rest);
    if (rest != 0) sum.AddFolded(last[1], last[0]);
    for (size_t pairs = bytes.size() / kPair; pairs != 0; --pairs, front += kPair) {
      back -= kPair;
      sum.AddWords(Load(front), Load(front + kWord));
      sum.AddFolded(Load(back + kWord), Load(back));
    }
    if (rest != 0) sum.AddWords(last[0], last[1]);
    *this = sum;
  }
  Checksum End() const {
    return {Join(first_.words, second_.words), Join(first_.folded, second_.folded)};
  }

  // By what the checksum of `bytes` bytes changes if their words from 2 * `pair` on change by
  // `changes` (XOR), an even number. CRCs are linear: the seed and the other words do not matter.
  static Checksum ChangeBy(std::span<const uint64_t> changes, size_t pair, size_t bytes) {
    PairSum sum;
    sum.first_ = sum.second_ = {0, 0};
    for (size_t i = 0; i < changes.size(); i += 2) sum.AddWords(changes[i], changes[i + 1]);
    const size_t pairs = (bytes + kPair - 1) / kPair;
    for (size_t i = pair + changes.size() / 2; i < pairs; ++i) sum.AddWords(0, 0);
    for (size_t i = changes.size(); i != 0; i -= 2) sum.AddFolded(changes[i - 1], changes[i - 2]);
    for (size_t i = 0; i < pair; ++i) sum.AddFolded(0, 0);
    return sum.End();
  }

 private:
  static constexpr size_t kWord = sizeof(uint64_t);
  static constexpr size_t kPair = 2 * kWord;

  // The second one goes to the word's second half. In the first half it would only be added to the
  // CRC: a change in a first word would look as the same one in the second word.
  static uint32_t Join(uint64_t first, uint64_t second) {
    return static_cast<uint32_t>(internal::Crc32cStep(first, second << 32));
  }
  static uint64_t Load(const std::byte* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  // Up to 15 bytes as two words, padded with zeros.
  static std::array<uint64_t, 2> LoadRest(const std::byte* at, size_t bytes) {
    const KeyView rest(reinterpret_cast<const char*>(at), bytes);
    if (bytes < kWord) return {FirstBytes(rest), 0};
    return {Load(at), FirstBytesBehind(rest, kWord)};
  }
  void AddWords(uint64_t first, uint64_t second) {
    first_.words = internal::Crc32cStep(first_.words, first);
    second_.words = internal::Crc32cStep(second_.words, second);
  }
  void AddFolded(uint64_t first, uint64_t second) {
    first_.folded = internal::Crc32cStep(first_.folded, first ^ (first >> 32));
    second_.folded = internal::Crc32cStep(second_.folded, second ^ (second >> 32));
  }

  struct Lane {
    uint64_t words;  // CRCs
    uint64_t folded;
  };
  Lane first_{0x47534d52u, 0x33746166u};
  Lane second_{0x53657250u, 0x726f4d65u};
};

namespace internal {
// Out of line: with it UnitSeed would be a call for the many short prefixes too.
[[gnu::noinline]] inline void AddRestOfPrefix(PairSum& sum, KeyView rest) {
  sum.Add(std::as_bytes(std::span(rest)));
}
}  // namespace internal

// What the checksum of a unit begins with: the pointer to its node, with the generation, the unit's
// number and the prefix that all keys in the unit share (rule R1). The prefix is that of `within`,
// as far as that has so many bytes.
// Requires: `unit` < 256, and the prefix has fewer than 256 bytes.
[[gnu::always_inline]] inline PairSum UnitSeed(RemotePtr node, uint32_t unit, KeyView within = {},
                                               size_t prefix_bytes = 0) {
  constexpr size_t kBeside = 6;  // bytes of the prefix that share a word with the number
  const size_t length = std::min(prefix_bytes, within.size());
  assert(unit < 256 && length < 256);
  PairSum sum;
  const uint64_t begin = FirstBytesOf(within, std::min(length, kBeside));
  sum.Add(node.word(), begin << 16 | uint64_t{length} << 8 | unit);
  if (length > kBeside) [[unlikely]]
    internal::AddRestOfPrefix(sum, within.substr(kBeside, length - kBeside));
  return sum;
}

// The checksum of a piece that starts with its checksum.
inline Checksum ChecksumOf(PairSum&& seed, std::span<const std::byte> piece) {
  seed.Add(piece.subspan(sizeof(Checksum)));
  return seed.End();
}

// Writes the checksum of `piece` to its start.
inline void Seal(PairSum&& seed, std::span<std::byte> piece) {
  seed.Add(piece.subspan(sizeof(Checksum)));
  const Checksum sum = seed.End();
  std::memcpy(piece.data(), &sum, sizeof sum);
}

// Overwrites the bytes of `piece` from `at` on, and keeps its checksum right if it was. Of few
// bytes, at a fraction of the cost of Seal; of more, returns false and does nothing. Requires: `at`
// is behind the checksum, and the bytes are in the piece.
inline bool OverwriteSealed(std::span<std::byte> piece, size_t at, std::string_view fresh) {
  constexpr size_t kWord = sizeof(uint64_t);
  constexpr size_t kMostPairs = 3;
  assert(at >= sizeof(Checksum) && at + fresh.size() <= piece.size());
  const size_t offset = at - sizeof(Checksum);
  const size_t pair = offset / (2 * kWord);
  const size_t words = 2 * ((offset + fresh.size() + 2 * kWord - 1) / (2 * kWord) - pair);
  if (words > 2 * kMostPairs) return false;
  char* const old = reinterpret_cast<char*>(piece.data()) + at;
  // From the values, not from the words of the piece: to load what has just been stored in parts
  // stalls.
  std::array<uint64_t, 2 * kMostPairs + 1> changes{};
  uint64_t* word = &changes[offset / kWord % 2];
  const size_t shift = 8 * (offset % kWord);
  for (size_t i = 0; i < fresh.size(); i += kWord, ++word) {
    const size_t count = std::min(fresh.size() - i, kWord);
    const uint64_t change = FirstBytes({old + i, count}) ^ FirstBytes(fresh.substr(i, count));
    word[0] ^= change << shift;
    if (shift != 0) word[1] ^= change >> (64 - shift);
  }
  fresh.copy(old, fresh.size());
  const Checksum change =
      PairSum::ChangeBy(std::span(changes).first(words), pair, piece.size() - sizeof(Checksum));
  Checksum sum;
  std::memcpy(&sum, piece.data(), sizeof sum);
  sum = {sum.words ^ change.words, sum.folded ^ change.folded};
  std::memcpy(piece.data(), &sum, sizeof sum);
  return true;
}

}  // namespace gossamer
