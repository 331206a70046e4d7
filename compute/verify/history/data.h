// The keys and values of a stress run. They follow from a few numbers known to all its processes,
// so that each process can check every byte it reads by itself.
//
// Keys are numbered in their order. Every fourth key is stable: written before the run and then
// left alone, so that a scan must see all stable keys. The others are hot. A value's name states
// its key, its writer and its place among the writer's values. Its length and bytes follow from the
// name.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compute/verify/history/history.h"
#include "compute/verify/history/key_clusters.h"

namespace gossamer::history {

class KeySpace {
 public:
  static constexpr uint32_t kStableEvery = 4;
  // Spaces of longer keys are clustered (key_clusters.h). Others are as they were before such keys
  // existed.
  static constexpr uint32_t kLongestLoose = 32;

  // `seed` chooses among clustered spaces.
  KeySpace(uint32_t hot_keys, uint32_t max_key_bytes, uint64_t seed = 0);

  uint32_t hot_keys() const { return hot_keys_; }
  uint32_t size() const {
    return HotKey(hot_keys_ - 1) / kStableEvery * kStableEvery + kStableEvery;
  }
  static bool IsStable(uint32_t key) { return key % kStableEvery == kStableEvery - 1; }
  // The number of the i-th hot key.
  static uint32_t HotKey(uint32_t i) {
    return i / (kStableEvery - 1) * kStableEvery + i % (kStableEvery - 1);
  }
  uint32_t stable_keys() const { return size() / kStableEvery; }
  // Some places of hot keys are unused if the number of hot keys is no multiple of three.
  bool IsUsed(uint32_t key) const { return IsStable(key) || key <= HotKey(hot_keys_ - 1); }

  // Loose: 4 bytes in key order, and up to max_key_bytes - 4 more. Clustered: 4 to max_key_bytes.
  // Less than five bytes 0xff.
  // Cost: one allocation.
  std::string Text(uint32_t key) const;
  // The key with this text, if any. Cost: at most five texts.
  std::optional<uint32_t> Number(std::string_view text) const;

  // The keys whose texts start with `prefix`: [first, last). Cost: some texts for each doubling of
  // the number of keys.
  struct Range {
    uint32_t first = 0;
    uint32_t last = 0;
  };
  Range WithPrefix(std::string_view prefix) const;

 private:
  uint32_t hot_keys_;
  uint32_t max_key_bytes_;
  std::optional<KeyClusters> clusters_;
};

// A value's name: key 20 bits, writer 12, sequence 32.
inline constexpr uint32_t kMaxKeys = 1 << 20;
inline constexpr uint32_t kMaxWriters = 1 << 12;
// The writer of the stable keys.
inline constexpr uint32_t kPreloader = kMaxWriters - 1;

// Requires: `sequence` >= 1.
constexpr ValueId MakeValueId(uint32_t key, uint32_t writer, uint32_t sequence) {
  assert(sequence != 0);
  return uint64_t{key} << 44 | uint64_t{writer} << 32 | sequence;
}
constexpr uint32_t KeyOf(ValueId id) { return static_cast<uint32_t>(id >> 44); }

class ValueSpace {
 public:
  // `long_percent` of the values have 17 to `longest` bytes. Of the others, a quarter have 9 to 16
  // bytes, and the rest 8.
  explicit ValueSpace(uint32_t long_percent, uint32_t longest = 2000)
      : long_percent_(long_percent), longest_(longest) {}

  std::string Bytes(ValueId id) const;
  // The value's name if every byte is as written.
  std::optional<ValueId> Id(std::string_view bytes) const;

 private:
  size_t Length(ValueId id) const;

  uint32_t long_percent_;
  uint32_t longest_;
};

}  // namespace gossamer::history
