#include "compute/cli/load_line.h"

#include <fmt/core.h>

#include "common/text/escape.h"
#include "common/text/human.h"

namespace gossamer::cli {
namespace {

Error BadEscape(const EscapeError& error, size_t field_at) {
  return MakeError(Code::kInvalidArgument,
                   fmt::format("byte {}: {}", field_at + error.offset + 1, error.message));
}

Status Decode(std::string_view text, const StoreParameters& parameters, LoadBatch::Line& line,
              std::string& bytes) {
  const size_t tab = text.find('\t');
  if (const auto error = AppendUnescaped(text.substr(0, tab), bytes)) return BadEscape(*error, 0);
  line.key_bytes = bytes.size() - line.at;
  if (line.key_bytes > parameters.max_key_bytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a key of {} B is too long: this store takes up to {} B",
                                 line.key_bytes, parameters.max_key_bytes));
  }
  if (tab == std::string_view::npos) return Ok();
  if (const auto error = AppendUnescaped(text.substr(tab + 1), bytes)) {
    return BadEscape(*error, tab + 1);
  }
  line.value_bytes = bytes.size() - line.at - line.key_bytes;
  if (line.value_bytes > kMaxValueBytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a value of {} B is too long: a store takes up to {} B ({})",
                                 HumanCount(line.value_bytes), HumanCount(kMaxValueBytes),
                                 ExactBytes(kMaxValueBytes)));
  }
  return Ok();
}

}  // namespace

Result<LoadBatch::Line> DecodeLine(std::string_view text, const StoreParameters& parameters,
                                   std::string& bytes) {
  LoadBatch::Line line;
  line.at = bytes.size();
  const Status status = Decode(text, parameters, line, bytes);
  if (status) return line;
  bytes.resize(line.at);
  return status.error();
}

}  // namespace gossamer::cli
