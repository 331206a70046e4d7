// EntrySorter: puts the entries of a leaf in the order of their keys.
//
// A leaf has its entries in the order of their groups. Comparing and moving them one by one costs
// mispredicted branches, more than all else that a scan does to an entry. So where 8 bytes tell the
// keys apart, each entry gets its place by counting how many are less, without a branch.
//
// Thread-safety: none. Cost: no allocation in the steady state.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gossamer/scan_cursor.h"
#include "proto/group.h"
#include "proto/key.h"
#include "proto/leaf.h"
#include "proto/value_block.h"

namespace gossamer {

// Whether a block has the value of `entry`, or a long key with its value, and was not read yet.
inline bool WantsBlock(const ScanEntry& entry) {
  return entry.kind == ScanEntry::Kind::kReference || entry.kind == ScanEntry::Kind::kLong;
}
// That block. Requires: WantsBlock.
inline BlockRef BlockOf(const ScanEntry& entry) {
  assert(WantsBlock(entry));
  BlockRef ref;
  std::memcpy(&ref, entry.bytes + entry.key_bytes, sizeof ref);
  return ref;
}

class EntrySorter {
 public:
  // Appends the leaf's entries to `sorted`, in the order of their keys, each key once (rule R6).
  // They are views into the bytes of `leaf`; into `arena` if the leaf has its keys without a
  // prefix. Returns their number. Long keys are in the place of their first bytes, which may not be
  // their own.
  size_t AppendSorted(const LeafView& leaf, KeyArena& arena, std::vector<ScanEntry>& sorted);
  // Whether the last leaf had long keys.
  bool has_long() const { return has_long_; }

 private:
  // Copies a group's entries to entries_ from number `at` on, and the first 8 bytes of their keys
  // to words_.
  void Copy(const GroupView& group, size_t at);
  // The same of a group with a prefix. `group` is followed by a word, at least.
  void CopyWhole(const GroupView& group, KeyArena& arena, size_t at);
  // Where the words tell all keys apart: sorts by them. Otherwise returns false.
  bool SortByRank(ScanEntry* sorted);
  // The same with the first 8 bytes behind the prefix that all keys have.
  bool SortBehindPrefix(ScanEntry* sorted);
  // By whole keys. Returns their number.
  size_t SortByComparison(ScanEntry* sorted);

  std::vector<ScanEntry> entries_;  // as in the leaf
  std::vector<uint64_t> words_;
  std::vector<uint32_t> order_;
  bool has_long_ = false;
};

}  // namespace gossamer
