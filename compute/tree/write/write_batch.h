// WriteBatch: the writes of one MultiPut, MultiDelete, MultiModify, LoadSorted or group of
// GatheredPuts, in order of their keys.
//
// Writes of equal keys keep the caller's order. A position counts in the order of the keys, an
// index in the caller's.
//
// Thread-safety: none. Cost: a sort; no allocation once the scratch vectors have grown.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/leaf/key_order.h"
#include "compute/leaf/leaf_editor.h"
#include "compute/leaf/modification.h"
#include "compute/node/store_state.h"
#include "gossamer/store.h"
#include "proto/key.h"

namespace gossamer {

class WriteBatch {
 public:
  // `results`, in the caller's order, get the result of each write; with none, only the first
  // failure is kept. They are Ok until something else is known.
  // Requires (unchecked): the pairs' keys ascend (equal neighbours are allowed), or Sort() follows.
  WriteBatch(WriteMode mode, std::span<const KeyValueView> pairs, std::span<Status> results)
      : mode_(mode), pairs_(pairs), results_(results), first_failed_(pairs.size()) {
    for (Status& result : results_) {
      if (!result) result = Ok();
    }
  }

  // The positions [first, end).
  struct Range {
    size_t first = 0;
    size_t end = 0;
  };

  // Sorts by key. `order` outlives the batch.
  void Sort(KeyOrder& order);
  // How full new leaves get that a split makes, as a part of what fits into them; 0: as after a
  // single write's split.
  void set_fill(double fill) { fill_ = fill; }

  // With kModify: what becomes of each key, in the caller's order.
  void set_modifications(std::span<Modification> modifications) { modifications_ = modifications; }
  Modification* modification(size_t position) const {
    return modifications_.empty() ? nullptr : &modifications_[IndexOf(position)];
  }
  WriteMode mode() const { return mode_; }
  double fill() const { return fill_; }
  size_t size() const { return pairs_.size(); }
  // A longer value is worth a write by itself.
  static constexpr size_t kLongestTogether = size_t{16} << 10;
  // Whether any leaf can store the write's key, and its value or the reference to a block.
  bool IsShort(size_t position, const InlineLimits& limits) const {
    return key(position).size() <= limits.KeyBytes(MayExpire(position)) &&
           value(position).size() <= kLongestTogether;
  }
  // Whether a leaf can that begins at `low` or some writes before this one, of those from `first`
  // on: its keys share what its low fence does. So a key that shares much with few others only is a
  // long one, for which no leaf is cut.
  bool IsShortBehind(size_t first, size_t position, KeyView low, const InlineLimits& limits) const {
    constexpr size_t kBehind = 8;
    const KeyView own = key(position);
    const size_t key_bytes = limits.KeyBytes(MayExpire(position));
    if (own.size() > key_bytes) {
      size_t shared = CommonBytes(low, own);
      if (position - first >= kBehind) {
        shared = std::max(shared, CommonBytes(key(position - kBehind), own));
      }
      if (own.size() > key_bytes + shared) return false;
    }
    return value(position).size() <= kLongestTogether;
  }
  size_t IndexOf(size_t position) const {
    return order_.empty() ? position : order_[position].index;
  }
  KeyView key(size_t position) const { return pairs_[IndexOf(position)].key; }
  std::string_view value(size_t position) const { return pairs_[IndexOf(position)].value; }
  Expiry expiry(size_t position) const { return pairs_[IndexOf(position)].expiry; }
  // Of a modification, that is not known before it is done.
  bool MayExpire(size_t position) const {
    return mode_ == WriteMode::kModify || expiry(position).is_stored();
  }
  // What a leaf stores for the write: the value, or the reference to its block. Without the time
  // when it expires.
  Entry entry(size_t position) const {
    if (!has_block(position)) return {key(position), value(position)};
    return {key(position),
            {reinterpret_cast<const char*>(blocks_[position]), sizeof(BlockRef)},
            Entry::Kind::kBlock};
  }
  bool has_block(size_t position) const { return !blocks_.empty() && blocks_[position] != nullptr; }
  // The value is in `block`, which outlives its use; null: it is not, any more.
  void SetBlock(size_t position, const BlockRef* block) {
    if (blocks_.empty()) blocks_.resize(size());
    blocks_[position] = block;
  }
  // The first position behind `position` with another key.
  size_t EndOfKey(size_t position) const {
    size_t end = position + 1;
    while (end < size() && AreEqual(key(end), key(position))) ++end;
    return end;
  }

  // Whether no other write has its key.
  bool IsAlone(size_t position) const {
    return EndOfKey(position) == position + 1 &&
           (position == 0 || !AreEqual(key(position - 1), key(position)));
  }

  bool keeps_results() const { return !results_.empty(); }
  // Requires: keeps_results().
  const Status& result(size_t position) const {
    assert(keeps_results());
    return results_[IndexOf(position)];
  }
  // The write was applied to its leaf's image. `status`: NotFound, say.
  void NoteApplied(size_t position, const Status& status) {
    // No leaf refuses a put: its result is Ok already. To look at it would bring its line into the
    // cache.
    if (mode_ == WriteMode::kPut || results_.empty()) return;
    Status& result = results_[IndexOf(position)];
    if (!result || !status) result = status;
  }
  void SetResult(size_t position, const Status& status);
  // The positions [first, end) all have this result.
  void SetResults(size_t first, size_t end, const Status& status);

  // The index of the first write that failed, and its error; size() if none did.
  size_t first_failed() const { return first_failed_; }
  // How many failed.
  size_t failed() const { return failed_; }
  const Error& first_error() const { return first_error_; }

 private:
  const WriteMode mode_;
  const std::span<const KeyValueView> pairs_;
  const std::span<Status> results_;
  std::span<Modification> modifications_;
  std::span<const KeyOrder::Place> order_;  // empty: the caller's order is that of the keys
  std::vector<const BlockRef*> blocks_;     // by position; empty: no value is in a block
  double fill_ = 0;
  size_t first_failed_;
  size_t failed_ = 0;
  Error first_error_{Code::kNotFound, {}};
};

}  // namespace gossamer
