// ScanPage: the entries that a scan has read and not passed yet, in the order of the scan.
//
// Keys and values are views into the images of leaves and blocks as they were read. A LeafRun holds
// the images of its leaves; the page holds all others, and the entries that a leaf has without a
// prefix.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "compute/leaf/entry_sorter.h"
#include "compute/node/session_clock.h"
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
  enum class Wanted : uint8_t {
    kAlive,     // what has expired is removed on the way (rule X1)
    kProbable,  // the same without removing it
    kAll,       // also what has expired
    kExpired,   // what may have expired, and nothing else
  };
  Wanted wanted = Wanted::kAlive;

  bool removes_expired() const;

  bool Wants(bool is_alive) const {
    return wanted == Wanted::kAll || is_alive == (wanted != Wanted::kExpired);
  }
};

// The keys in [from, to) that start with `prefix`. Returns nullopt if there cannot be any.
std::optional<ScanRange> RangeOf(std::string from, std::optional<std::string> to,
                                 const std::string& prefix);

// The position of a scan: what it has not seen yet.
struct ScanPosition {
  Key from;         // forward: the next key is not below this
  HighFence below;  // reverse: the next key is below this
  bool done = false;

  friend bool operator==(const ScanPosition&, const ScanPosition&) = default;
};

// Where the keys start that a scan at `position` wants, and whether `key` is before their end.
inline KeyView StartOf(const ScanRange& range, const ScanPosition& position) {
  return std::max(position.from.view(), KeyView(range.from));
}
inline bool IsBeforeEnd(KeyView key, const ScanRange& range, const ScanPosition& position) {
  return position.below.Admits(key) && (!range.to || key < KeyView(*range.to));
}

struct ScanPage {
  // A long key, of which the first bytes are known, comes before all keys in the order of the scan
  // that begin with them. It gets its place once it is known whole.
  std::vector<ScanEntry> entries;
  // The values of the first so many entries are there.
  size_t ready = 0;
  // What the scan has not passed: behind the entries that were taken.
  ScanPosition start;
  // The same when the leaf of an entry of a long key was added: `length` of the entry is its
  // number.
  std::vector<ScanPosition> positions;
  // What the entries point into, beside the images of a LeafRun.
  std::vector<BufferLease> leaves;
  KeyArena whole;
  std::vector<BufferLease> blocks;
  std::deque<std::string> values;
  std::vector<std::string_view> away;   // values that were in blocks
  std::vector<uint64_t> away_expiries;  // when those keys expire; 0: never

  void Clear();
  // Adds a leaf's entries, as far as they are inside the range and the scan has not passed them.
  // `reaches_below`, `reaches_above`: whether the leaf may have others, before or behind these in
  // the order of keys. Returns how many entries the leaf has.
  size_t Add(const LeafView& leaf, EntrySorter& sorter, const ScanRange& range,
             const ScanPosition& position, bool reaches_below, bool reaches_above);
  // The scan has taken the entries up to `key`.
  void Pass(KeyView key, bool reverse);
  uint64_t ExpiryOf(const ScanEntry& entry) const { return entry.ExpiresAt(away_expiries.data()); }
  // Moves `ready` on, and drops what `range` does not want. Stops at an entry that has expired and
  // has to be removed.
  void FindReady(const ScanRange& range, const SessionClock& clock);
  // The keys that have to be removed before the next entry is ready, if that is one of them; others
  // behind it, too. Then the leaves have to be read again.
  std::vector<KeyView> ExpiredNext(const ScanRange& range, const SessionClock& clock) const;
  // The end of the entries whose order depends on that of number `first`, a long key.
  size_t EndOfTie(size_t first) const;
  // Puts the entries [first, end), of which all keys are known, in the order of the scan, each key
  // once (rule R6).
  void Sort(size_t first, size_t end, bool reverse);
  // `value` is that of `entry`, which expires then, and stays as long as the page.
  void SetValue(ScanEntry& entry, std::string_view value, uint64_t expires_at) {
    entry.kind = ScanEntry::Kind::kAway;
    entry.length = static_cast<uint32_t>(away.size());
    away.push_back(value);
    away_expiries.push_back(expires_at);
  }

 private:
  // The rest of Add for a leaf with long keys.
  void AddLong(size_t first, const ScanRange& range, const ScanPosition& position);
  void DropValues(size_t first);
};

}  // namespace gossamer
