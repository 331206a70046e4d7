// ScanPage: the entries that a scan has read and not passed yet, in the order of the scan.
//
// Keys and values are views into the images of leaves and blocks as they were read. A LeafRun holds
// the images of its leaves; the page holds all others, and the entries that a leaf has without a prefix.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "compute/tree/entry_sorter.h"
#include "proto/group.h"
#include "proto/leaf.h"

namespace gossamer {

// The least key above all keys that start with `prefix`; nullopt if there is none.
std::optional<std::string> PrefixEnd(std::string prefix);

// The keys that a scan wants. The bounds may be longer than any key.
struct ScanRange {
  std::string from;               // inclusive
  std::optional<std::string> to;  // exclusive
  bool reverse = false;
  bool keys_only = false;  // values are not read, and empty
};

// The keys in [from, to) that start with `prefix`. Returns nullopt if there cannot be any.
std::optional<ScanRange> RangeOf(std::string from, std::optional<std::string> to,
                                 const std::string& prefix);

// The position of a scan: what it has not seen yet.
struct ScanPosition {
  Key from;         // forward: the next key is not below this
  HighFence below;  // reverse: the next key is below this
  bool done = false;
};

struct ScanPage {
  std::vector<ScanEntry> entries;
  // The values of the first so many entries are there.
  size_t ready = 0;
  // What the entries point into, beside the images of a LeafRun.
  std::vector<BufferLease> leaves;
  KeyArena whole;
  std::vector<BufferLease> blocks;
  std::deque<std::string> values;
  std::vector<std::string_view> away;  // values that were in blocks

  void Clear();
  // Adds a leaf's entries, as far as they are inside the range and the scan has not passed them.
  // `reaches_below`, `reaches_above`: whether the leaf may have others, before or behind these in the
  // order of keys. Returns how many entries the leaf has.
  size_t Add(const LeafView& leaf, EntrySorter& sorter, const ScanRange& range,
             const ScanPosition& position, bool reaches_below, bool reaches_above);
  void FindReady();
  // `value` is that of `entry`, and stays as long as the page.
  void SetValue(ScanEntry& entry, std::string_view value) {
    entry.kind = ScanEntry::Kind::kAway;
    entry.length = static_cast<uint32_t>(away.size());
    away.push_back(value);
  }
};

}  // namespace gossamer
