// SeparatorNode: sorted separators with a payload each, laid out for searching.
//
// Both kinds of node of the cache have this form: the nodes of its own index (payload: a node
// below), and the images of internal nodes of the tree (payload: a remote child, and for a leaf its
// hint). It is one block of cache lines:
//
//   | header | samples (wide nodes) | digests: 16 a line | payload | ends | prefix | suffixes |
//     tail |
//
// A *digest* is 31 bits of a key's difference from separator 1: of the 8 bytes of a key at
// `word_at`, as a big-endian integer, the difference is shifted right until the greatest fits. So
// digests order keys as keys do, except for ties. A search counts the digests that are at most the
// key's: first among the *dividers* (the first digest of each line but the first), then in one
// line. It touches the header, one line of digests and one of payload. Only if the key's digest
// equals the one found, and the node is not *lossless*, whole separators are compared.
//
// Separator 0 has the digest 0, and so has every key below separator 1: a search need not compare
// separator 0, since its keys are never below it. It may be the empty key, far from all others, and
// takes no part in the choice of digests.
//
// `word_at` is 0 if no other separator is longer than 8 bytes, else the length of the prefix that
// all of them share, so that long keys are told apart where they differ. A search compares that
// prefix only where the node's range has keys without it.
//
// A node of *pairs* holds 64-bit integers with their values: the payload is the integer itself and
// the value, and nothing else is kept of a separator. So a lookup ends in the line of the payload,
// whether digests tie or not.
//
// Everything but the payload is immutable, and payload words are atomics: readers need no lock and
// never see a node half-built. A change of separators makes a new node (see SeparatorIndex).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "compute/cache/node_arena.h"
#include "proto/key.h"

namespace gossamer {

// Separators in order, each with up to two payload words: what a node is made from.
class SeparatorList {
 public:
  struct Item {
    uint32_t at;
    uint32_t size;
    uint64_t payload[2];
  };

  void Clear() {
    bytes_.clear();
    items_.clear();
  }
  void Append(KeyView separator, uint64_t first, uint64_t second = 0) {
    items_.push_back(MakeItem({}, separator, first, second));
  }
  // Appends prefix + suffix.
  void Append(KeyView prefix, KeyView suffix, uint64_t first, uint64_t second) {
    items_.push_back(MakeItem(prefix, suffix, first, second));
  }
  void InsertAt(size_t index, KeyView separator, uint64_t first, uint64_t second = 0) {
    items_.insert(items_.begin() + static_cast<ptrdiff_t>(index),
                  MakeItem({}, separator, first, second));
  }
  void EraseAt(size_t index) { items_.erase(items_.begin() + static_cast<ptrdiff_t>(index)); }

  size_t size() const { return items_.size(); }
  KeyView separator(size_t i) const { return {bytes_.data() + items_[i].at, items_[i].size}; }
  uint64_t payload(size_t i, size_t word = 0) const { return items_[i].payload[word]; }

 private:
  Item MakeItem(KeyView prefix, KeyView suffix, uint64_t first, uint64_t second) {
    const auto at = static_cast<uint32_t>(bytes_.size());
    bytes_.append(prefix);
    bytes_.append(suffix);
    return {at, static_cast<uint32_t>(prefix.size() + suffix.size()), {first, second}};
  }

  std::string bytes_;
  std::vector<Item> items_;
};

class alignas(NodeArena::kLineBytes) SeparatorNode {
 public:
  static constexpr uint32_t kDigestsPerLine = 16;
  // A normal node has dividers for this many lines of digests; a wide node has samples instead.
  static constexpr uint32_t kDividers = 8;
  static constexpr uint32_t kMaxLines = 256;
  static constexpr uint32_t kMaxCount = kMaxLines * kDigestsPerLine;

  struct Shape {
    uint8_t payload_words = 1;  // of each separator: 1 or 2
    uint8_t height = 0;         // levels of the index below; 0: not a node of the index
    uint32_t tail_bytes = 0;    // for the owner, zeroed
    KeyView high = {};          // all keys that are searched are below; empty: no such key is known
  };

  // Makes a node of items [begin, end) of `list`. Requires: 1 to kMaxCount items.
  static SeparatorNode* Make(NodeArena& arena, const SeparatorList& list, size_t begin, size_t end,
                             Shape shape);
  // Makes a copy of this node with the items `added` from `index` on, and zeroes its tail. The
  // other items are not searched or encoded again: this is several times quicker than Make. Returns
  // null if their digests have to be made anew.
  // Requires: separator index - 1 is below those of `added`, separator `index` above; at least one
  // of them, and at most kMaxCount items with them; not a node of pairs.
  SeparatorNode* CopyWith(NodeArena& arena, uint32_t index, const SeparatorList& added,
                          uint32_t tail_bytes) const;
  struct Pair {
    uint64_t key;
    uint64_t value;
  };
  // Makes a node of ascending pairs whose least key may become `low`. Requires: 1 to kMaxCount
  // pairs, `low` at most the first one's key.
  static SeparatorNode* MakeOfPairs(NodeArena& arena, uint64_t low, std::span<const Pair> pairs);
  static void Free(NodeArena& arena, SeparatorNode* node) { arena.Free(node, node->bytes()); }

  // A word that points to a node, or to none: a gap, bit 0. Words with that bit set are gaps for a
  // traversal, whatever else they carry.
  static constexpr uint64_t kGap = 1;
  static constexpr bool IsGap(uint64_t word) { return (word & kGap) != 0; }
  // The node of a word; for a gap `Gap`, which has one separator.
  static const SeparatorNode* At(uint64_t word) {
    return IsGap(word) ? kGapNode : std::bit_cast<const SeparatorNode*>(word);
  }
  static const SeparatorNode* Gap() { return kGapNode; }

  uint32_t count() const { return count_; }
  uint32_t bytes() const { return lines_ * uint32_t{NodeArena::kLineBytes}; }
  uint32_t height() const { return height_; }
  // A number for the owner, beside what a search reads.
  uint32_t slot() const { return slot_; }
  void set_slot(uint32_t slot) { slot_ = slot; }
  bool is_wide() const { return sample_lines_ != 0; }

  // ---- Search. `key` is at least separator 0.

  // What a search compares: the digest of `key`. `word`: KeyPrefix(key).
  int32_t DigestOf(KeyView key, uint64_t word) const {
    if (word_at_ == 0) return Digest(word);
    if (!all_have_prefix_) return DigestBehindPrefix(key);
    assert(StartsWith(key, prefix()));
    return Digest(KeyPrefixBehind(key, prefix_bytes_));
  }
  // Of a wide node: the first digest of each line, in lines of their own.
  uint32_t sample_lines() const { return sample_lines_; }
  const int32_t* SampleLine(uint32_t line) const { return LineAt(1 + line); }
  // Of a normal node: the first digest of each line but the first.
  const int32_t* dividers() const { return dividers_; }
  // Where a normal node has its digests. Reads nothing.
  const int32_t* DigestLine0() const { return LineAt(1); }
  const int32_t* DigestLine(uint32_t line) const { return LineAt(1 + sample_lines_ + line); }
  // Digest `i` is the last that is at most `digest`, which is that of `key`. Returns the last
  // separator that is at most `key`.
  uint32_t Confirm(uint32_t i, int32_t digest, KeyView key) const {
    if (!is_lossless_ && this->digest(i) == digest) return ResolveTie(i, digest, key);
    return i;
  }
  int32_t digest(uint32_t i) const { return DigestLine(0)[i]; }

  // The last separator that is at most `key`.
  uint32_t ChildIndex(KeyView key) const;
  // The last separator below `bound`. Requires: separator 0 is below `bound`.
  uint32_t ChildIndexBelow(KeyView bound) const {
    assert(CompareSeparator(0, bound) < 0);
    const uint32_t index = ChildIndex(bound);
    return index != 0 && CompareSeparator(index, bound) == 0 ? index - 1 : index;
  }

  // ---- Nodes of pairs: only these, `payload` and FindPlacesBy (traversal-inl.h) are for them.

  uint64_t low() const { return base_; }
  uint64_t pair_key(uint32_t i) const { return payload(i).load(std::memory_order_relaxed); }
  std::atomic<uint64_t>& pair_value(uint32_t i) const { return payload(i, 1); }
  // Digest `i` is the last that is at most that of `key`. Returns the last pair whose key is at
  // most `key`; of none, the first.
  uint32_t ConfirmPair(uint32_t i, uint64_t key) const {
    while (i != 0 && pair_key(i) > key) --i;
    return i;
  }

  // ---- Contents

  std::atomic<uint64_t>& payload(uint32_t i, uint32_t word = 0) const {
    return payloads()[i * payload_words_ + word];
  }
  Key separator(uint32_t i) const;
  // <0, 0, >0: separator i is below, equal to or above `key`.
  int CompareSeparator(uint32_t i, KeyView key) const;
  // Appends separators [begin, end) with their payload.
  void AppendTo(SeparatorList& list, uint32_t begin, uint32_t end) const;
  std::byte* tail() const { return at(tail_at_); }
  uint32_t tail_bytes() const { return bytes() - tail_at_; }

 private:
  struct Layout {
    uint32_t sample_lines = 0;
    uint32_t payload_line = 0;
    size_t tail_at = 0;
    size_t bytes = 0;
  };

  static const SeparatorNode* const kGapNode;

  SeparatorNode() = default;

  // Of a node whose prefix and suffixes have `text_bytes`.
  static Layout LayoutFor(uint32_t count, size_t text_bytes, Shape shape);
  static SeparatorNode* MakeEmpty(NodeArena& arena, const Layout& layout, uint32_t count,
                                  Shape shape);
  // Whether the digest of `separator`, whose word is `word`, tells it from every lesser key.
  bool IsLossless(KeyView separator, uint64_t word) const;
  // Chooses shift_ and fills the lines of digests and what divides them. `word_of(i)`: of separator
  // i.
  template <typename WordOf>
  void FillDigests(const WordOf& word_of);
  // Pads the lines of digests, and fills what divides them.
  void FillDividers();
  int32_t Digest(uint64_t word) const {
    if (word < base_) return 0;
    const uint64_t difference = (word - base_) >> shift_;
    return static_cast<int32_t>(std::min<uint64_t>(difference, kGreatestDigest - 1)) + 1;
  }
  int32_t DigestBehindPrefix(KeyView key) const;
  uint32_t ResolveTie(uint32_t index, int32_t digest, KeyView key) const;

  std::byte* at(size_t offset) const {
    return reinterpret_cast<std::byte*>(const_cast<SeparatorNode*>(this)) + offset;
  }
  const int32_t* LineAt(size_t line) const {
    return reinterpret_cast<const int32_t*>(at(line * NodeArena::kLineBytes));
  }
  std::atomic<uint64_t>* payloads() const {
    return reinterpret_cast<std::atomic<uint64_t>*>(at(payload_line_ * NodeArena::kLineBytes));
  }
  const uint32_t* ends() const {
    return reinterpret_cast<const uint32_t*>(payloads() + size_t{count_} * payload_words_);
  }
  // The prefix, and the suffixes behind it. Separator 0 has no prefix.
  const char* text() const { return reinterpret_cast<const char*>(ends() + count_); }
  KeyView prefix() const { return {text(), prefix_bytes_}; }
  KeyView prefix_of(uint32_t i) const { return i == 0 ? KeyView() : prefix(); }
  KeyView suffix(uint32_t i) const {
    const uint32_t start = i == 0 ? 0 : ends()[i - 1];
    return {text() + prefix_bytes_ + start, ends()[i] - start};
  }

  // Above every digest, so that the padding of a line is never counted.
  static constexpr int32_t kPadding = std::numeric_limits<int32_t>::max();
  static constexpr int32_t kGreatestDigest = kPadding - 1;

  uint64_t base_ = 0;  // the word of separator 1; of a node of pairs, the least key
  uint32_t tail_at_ = 0;
  uint32_t slot_ = 0;
  uint16_t lines_ = 0;
  uint16_t payload_line_ = 0;
  uint16_t count_ = 0;
  uint16_t word_at_ = 0;
  uint16_t prefix_bytes_ = 0;
  uint8_t sample_lines_ = 0;
  uint8_t payload_words_ = 1;
  uint8_t shift_ = 0;
  uint8_t height_ = 0;
  bool is_lossless_ = false;      // equal digests mean that the key is at least the separator
  bool all_have_prefix_ = false;  // all keys that are searched
  alignas(8) int32_t dividers_[kDividers] = {};
};
static_assert(sizeof(SeparatorNode) == NodeArena::kLineBytes);

}  // namespace gossamer
