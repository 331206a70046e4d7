// How much memory a store needs for records of given sizes, and which parameters suit them.
//
// Nothing here repeats the layout: each choice of parameters is measured on a sample
// (size_sample.h), and multiplied. Thread-safety: none needed; functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compute/cli/size_sample.h"
#include "gossamer/status.h"
#include "gossamer/store_parameters.h"

namespace gossamer::cli {

struct SizeOptions {
  uint64_t records = 0;  // 0: as many as the file has
  // What the records are like: a file that has them, or some of them, or the lengths of keys and
  // values.
  std::string keys_file;
  LineForm form = LineForm::kEscaped;  // of the lines of the file
  std::optional<uint32_t> key_bytes;
  std::optional<uint32_t> value_bytes;  // with a file: in place of what its lines say
  bool consecutive_keys = false;        // as in RecordShape
  std::string
      order;  // random, ascending, descending, sorted or file; empty: random, or sorted if `sorted`
  bool sorted = false;
  double fill = 1;  // of leaves, if the order is sorted
  // Parameters of the store. What is not given is compared; but max_key_bytes costs no memory.
  uint32_t max_key_bytes = StoreParameters().max_key_bytes;
  std::optional<uint32_t> inline_value_bytes;
  std::optional<uint32_t> node_bytes;
};

// The part of the memory that freshly put records leave free. Where records come and go all the
// time, leaves get emptier, and the records take up to a fifth more (docs/sizing.md has the
// measurement): 0.9 of the memory instead of 0.75. The other tenth is for chunks that clients have
// not used up. A client has up to two at a time, one of nodes and one of blocks, and half of them
// is left on average. A chunk is at most 1/64 of the memory, if that is 16 MiB or more: so the
// tenth does for six clients.
inline constexpr double kHeadroom = 0.25;

// Parameters of a store, and what the records take there.
struct SizeChoice {
  StoreParameters parameters;
  bool is_inline = true;  // the values are in the leaves
  RecordBytes record;
  uint64_t used_bytes = 0;          // by all records
  uint64_t client_cache_bytes = 0;  // of a client that caches all internal nodes
  uint32_t servers = 1;             // memory servers, because one has at most kMostMemoryBytes
  uint64_t memory_bytes = 0;        // of each memory server, with headroom
  double get_round_trips = 1;       // on average, by a client that caches the internal nodes
  uint32_t put_round_trips = 2;     // likewise; a split takes more
};

struct Sizing {
  uint64_t records = 0;
  uint64_t measured_records = 0;  // for each choice
  double key_bytes = 0;           // on average of those
  double value_bytes = 0;         // likewise
  Arrival arrival = Arrival::kRandom;
  std::vector<SizeChoice> choices;
  size_t recommended = 0;  // of choices
  std::string refused;     // why values cannot be in the leaves, if they would be short enough
};

// Compares the choices that `options` leaves open.
// Errors: InvalidArgument, with a sentence for the user; as of SampleOfFile and MeasureRecords.
// Cost: at most about 2 s and 200 MiB, however many records there are. With a file: to read it
// twice, and 10 s.
Result<Sizing> Size(const SizeOptions& options);

// The choice with the fewest round trips of a get among those that take at most 1.5 times the least
// memory. Among these the one with nodes of the default size, unless others save a tenth of its
// memory.
size_t Recommend(const std::vector<SizeChoice>& choices);

}  // namespace gossamer::cli
