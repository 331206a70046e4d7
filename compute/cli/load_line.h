// One line of a load file: `key<TAB>value`, or a lone key, which has an empty value. The first TAB
// separates; a further one belongs to the value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "proto/region.h"

namespace gossamer::cli {

// Lines on their way to a worker: their keys and values, decoded, one after the other in `bytes`.
struct LoadBatch {
  struct Line {
    uint64_t number = 0;
    uint64_t key_hash = 0;
    size_t at = 0;
    size_t key_bytes = 0;
    size_t value_bytes = 0;
  };

  std::string bytes;
  std::vector<Line> lines;

  std::string_view key(const Line& line) const {
    return std::string_view(bytes).substr(line.at, line.key_bytes);
  }
  std::string_view value(const Line& line) const {
    return std::string_view(bytes).substr(line.at + line.key_bytes, line.value_bytes);
  }
};

// Decodes `text` into `bytes` (key, then value) and returns where they are, without number and
// hash. InvalidArgument, `bytes` as before, on a bad escape or where a limit of the store is
// exceeded.
Result<LoadBatch::Line> DecodeLine(std::string_view text, const StoreParameters& parameters,
                                   std::string& bytes);

}  // namespace gossamer::cli
