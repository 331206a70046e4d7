// What Store::Repair and Store::Salvage report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/status.h"

namespace gossamer {

// Keys in [from, to) that start with `prefix`. The defaults are all keys.
struct KeyRange {
  // Constructors, because g++ 12 destroys temporaries of aggregates twice where they are awaited.
  KeyRange() = default;
  KeyRange(std::string first, std::optional<std::string> end, std::string start = {})
      : from(std::move(first)), to(std::move(end)), prefix(std::move(start)) {}

  std::string from;
  std::optional<std::string> to;
  std::string prefix;
};

// What was lost with memory servers that the store's record does not name any more.
struct RepairReport {
  bool was_stopped = false;  // as `progress` asked; then there may be more
  std::vector<uint32_t> lost_servers;
  std::vector<KeyRange> ranges;  // in order: what lost nodes covered
  uint64_t lost_leaves = 0;      // of a lost internal node that stays, none are counted
  uint64_t lost_internal_nodes = 0;
  uint64_t lost_keys = 0;    // in lost leaves, if these had as many as the others have on average
  uint64_t lost_values = 0;  // keys of other leaves whose value, or rest of the key, is lost
  uint64_t lost_bytes = 0;   // of lost leaves and lost values
  uint64_t keys = 0;         // that are left
};

// What `Store::Salvage` has found.
struct SalvageReport {
  uint64_t keys = 0;            // handed over
  uint64_t leaves = 0;          // that had them
  uint64_t old_leaves = 0;      // left out, as others have their keys in a later state
  uint64_t unknown_leaves = 0;  // left out, as nothing tells where they start
  uint64_t lost_values = 0;     // keys left out, as the value or the rest of the key cannot be read
  std::map<uint32_t, Error> unreachable;  // servers, and why
};

}  // namespace gossamer
