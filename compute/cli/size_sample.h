// What records cost, measured: a sample of them is put into a store in this process, and counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/cli/load_line.h"
#include "gossamer/status.h"
#include "gossamer/store_parameters.h"

namespace gossamer::cli {

// The order in which records come.
enum class Arrival : uint8_t {
  kRandom,
  kAscending,   // of their keys
  kDescending,  // likewise
  kSorted,      // the same as kAscending, by Session::LoadSorted
  kFile,        // as in the file of the keys
};
inline constexpr std::array<std::string_view, 5> kArrivalNames = {"random", "ascending",
                                                                  "descending", "sorted", "file"};

// One of the records of a sample. Its value counts by its length alone.
struct SampleRecord {
  std::string key;
  size_t value_bytes = 0;
};

// Records that stand for `all_records`, in the order in which they come.
struct Sample {
  std::vector<SampleRecord> records;
  uint64_t all_records = 0;
  size_t longest_value = 0;  // of all records
};

// Records that are described: keys of one length, and values of one length.
struct RecordShape {
  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  // Consecutive decimal numbers behind a common prefix, which leaves do not store. Otherwise the
  // keys differ from their first bytes on, as hashes do: that is the costly case.
  bool consecutive_keys = false;
};

// Returns how many different keys of this shape there are, at most 2^63.
uint64_t KeysOf(const RecordShape& shape);

// Returns `records` records of a store that holds `all_records`. They are as near each other as
// those: how many bytes the keys of a leaf share depends on that.
// Requires: 1 <= records <= all_records <= KeysOf(shape); not Arrival::kFile.
Sample SampleOf(const RecordShape& shape, uint64_t records, uint64_t all_records, Arrival arrival);

// Returns about `records` records of the lines of a file, or all if there are no more: all that lie
// in some ranges of keys, which are spread evenly. So they are as near each other as in the file.
// `name`: a regular file, as it is read twice. `value_bytes`: of each value, in place of what the
// lines say.
// Errors: NotFound and InvalidArgument, with a sentence that names the line.
// Cost: reads the file twice; memory for 65,536 keys and the result. Shows progress on stderr.
Result<Sample> SampleOfFile(const std::string& name, LineForm form, uint32_t max_key_bytes,
                            std::optional<uint32_t> value_bytes, uint64_t records, Arrival arrival);

// Bytes of a record, on average.
struct RecordBytes {
  double leaves = 0;
  double blocks = 0;
  double internal_nodes = 0;
  double client_cache = 0;  // of a client that caches all internal nodes
  double with_block = 0;    // the part of the records that have a block

  double memory() const { return leaves + blocks + internal_nodes; }
};

// Puts the records, one by one, into a new store of these parameters. `sorted_fill`: builds leaves
// that get so full instead. The result is nearly the same each time: internal nodes may split in
// another order.
// Requires: there are records; with `sorted_fill`, their keys ascend.
// Errors: as of Store::OpenLocal and of puts; Corruption if the store's check finds a problem.
// Cost: 1 to 5 us for each record, and the memory of the records.
Result<RecordBytes> MeasureRecords(const StoreParameters& parameters,
                                   const std::vector<SampleRecord>& records,
                                   std::optional<double> sorted_fill);

}  // namespace gossamer::cli
