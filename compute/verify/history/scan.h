// What a scan's result says about each key.
//
// A scan is not atomic. What it says about a key holds at some moment between its start and the
// return of that key or of the first key beyond it. So each returned key is a read of that value,
// and each skipped key a read of absence. The history of every key decides whether these reads are
// possible: a key present throughout may not be missing (completeness), and a key or value that was
// never present meanwhile may not be returned (no phantom). Order, range and limit concern the scan
// alone and are judged here.
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
  int64_t time = 0;  // when the row was returned
};

struct Scan {
  // The requested keys: [first, last). Every number in between is a key of the store.
  uint32_t first = 0;
  uint32_t last = 0;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  bool reverse = false;
  uint16_t client = 0;
  int64_t start = 0;
  int64_t end = 0;
  // The scan failed or its client died: it says nothing about keys behind the last one returned.
  bool broken = false;
  std::vector<ScanRow> rows;  // in the order returned
};

// Returns a sentence if the scan by itself is wrong: out of order, a key twice, out of range, above
// its limit. Otherwise appends one kScan event for each key that it says something about.
std::optional<std::string> ExpandScan(const Scan& scan, std::vector<Event>& events);

}  // namespace gossamer::history
