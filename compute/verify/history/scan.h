// What a scan returned, turned into what it says of each key.
//
// A scan is no moment: what it says of a key holds at some moment between its start and the return of that key, or of
// the first key beyond. So each key that it returned is a read of that value, and each key that it passed over a read
// of absence, and the history of every key decides whether these are possible: a key that was there throughout may not
// be missing (completeness), a key or a value that was never there meanwhile may not be returned (no phantom). Order,
// range and limit are the scan's own and judged here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compute/verify/history/history.h"

namespace gossamer::history {

struct ScanRow {
  uint32_t key = 0;
  ValueId value = kAbsent;
  int64_t time = 0;  // at which it was returned
};

struct Scan {
  // The keys asked for: [first, last). All numbers between are keys of the store.
  uint32_t first = 0;
  uint32_t last = 0;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  bool reverse = false;
  uint16_t client = 0;
  int64_t start = 0;
  int64_t end = 0;
  // It failed, or its client died: it says nothing of the keys behind the last one that it returned.
  bool broken = false;
  std::vector<ScanRow> rows;  // in the order returned
};

// The sentence that says what is wrong with the scan by itself: out of order, twice, out of range, more than its
// limit. If nothing is, appends one kScan event for each key of which it says something.
std::optional<std::string> ExpandScan(const Scan& scan, std::vector<Event>& events);

}  // namespace gossamer::history
