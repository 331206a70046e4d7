// One line of a load file: `key<TAB>value`, or a key alone, with an empty value. The first TAB
// separates; further ones belong to the value. A key that expires has \@ and the time behind it, in
// milliseconds since 1970: `key\@1800000000000<TAB>value`; a composite value has `:composite` behind
// that: `key\@1800000000000:composite<TAB>value`, or `key\@:composite<TAB>value` of one that never expires.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "gossamer/expiry.h"
#include "proto/region.h"

namespace gossamer::cli {

// Lines on their way to a worker. `bytes` holds their decoded keys and values in sequence.
struct LoadBatch {
  struct Line {
    uint64_t number = 0;
    size_t at = 0;
    size_t key_bytes = 0;
    size_t value_bytes = 0;
    Expiry expiry = {};
  };

  std::string bytes;
  std::vector<Line> lines;
  bool is_sorted = true;  // no key is less than the one before

  std::string_view key(const Line& line) const {
    return std::string_view(bytes).substr(line.at, line.key_bytes);
  }
  std::string_view value(const Line& line) const {
    return std::string_view(bytes).substr(line.at + line.key_bytes, line.value_bytes);
  }
};

// Appends what follows the key in a line; nothing if it never expires.
void AppendExpiry(Expiry expiry, std::string& line);

// Whether a backslash in a line begins an escape of escape.h, or a time, or stands for itself.
enum class LineForm { kEscaped, kRaw };

// The longest line accepted: a key and a value of maximum length, fully escaped.
size_t MaxLineBytes(const StoreParameters& parameters);

// Decodes `text`, appends key and value to `bytes`, and returns their location. Does not set the
// number.
// Errors: InvalidArgument for a bad escape or if a limit of the store is exceeded. `bytes` is then
// unchanged.
Result<LoadBatch::Line> DecodeLine(std::string_view text, LineForm form,
                                   const StoreParameters& parameters, std::string& bytes);

}  // namespace gossamer::cli
