// What records cost, measured: a sample of them is put into a store in this process, and counted.
//
// The keys of a sample have one length, as do its values: then a leaf does not store the lengths.
#pragma once

#include <cstdint>
#include <optional>

#include "gossamer/status.h"
#include "gossamer/store_parameters.h"

namespace gossamer::cli {

// The records. They are put in random order, or in the order of their keys.
struct RecordShape {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  // Consecutive decimal numbers behind a common prefix, which leaves do not store. Otherwise the keys differ from their
  // first bytes on, as hashes do: that is the costly case.
  bool consecutive_keys = false;
  std::optional<double> sorted_fill;  // loaded in the order of their keys: how full leaves get
};

// Bytes of a record, on average.
struct RecordBytes {
  double leaves = 0;
  double blocks = 0;
  double internal_nodes = 0;
  double client_cache = 0;  // of a client that caches all internal nodes

  double memory() const { return leaves + blocks + internal_nodes; }
};

// Returns how many different keys of this shape there are, at most 2^63.
uint64_t KeysOf(const RecordShape& shape);

// Puts `records` records into a new store of these parameters. Their keys are as near each other as those of a store that
// holds `all_records`: how many bytes the keys of a leaf share depends on that. The result is nearly the same each time: internal nodes may
// split in another order.
// Requires: 1 <= records <= all_records <= KeysOf(shape).
// Errors: as of Store::OpenLocal and of puts; Corruption if the store's check finds a problem.
// Cost: 1 to 5 us for each record, and the memory of the records.
Result<RecordBytes> MeasureRecords(const StoreParameters& parameters, const RecordShape& shape,
                                   uint64_t records, uint64_t all_records);

}  // namespace gossamer::cli
