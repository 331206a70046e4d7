// The order in which the load phase puts records.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/bench/keys.h"

namespace gossamer::bench {

enum class LoadOrder : uint8_t {
  kRandom,      // by id, so that keys come in random order
  kRuns,        // runs of records whose keys are neighbours; the runs in random order
  kSorted,      // by key, through Session::LoadSorted
  kAscending,   // by key
  kDescending,  // likewise, the greatest first
  kFile,        // as the lines of KeyForm::kLines stand in their file
};

// "random, runs, sorted, ascending, descending, file"
std::string LoadOrderNames();
std::optional<LoadOrder> ParseLoadOrder(std::string_view name);

// The ids below `records` in the order of loading, with runs of `run` records. Empty for kRandom:
// the ids themselves. Requires: KeyForm::kLines for kFile. Cost: 8 bytes a record, 16 for kRuns,
// and a sort.
std::vector<uint64_t> OrderOfIds(LoadOrder order, const KeyCodec& codec, uint64_t records,
                                 uint32_t run, uint64_t seed);

}  // namespace gossamer::bench
