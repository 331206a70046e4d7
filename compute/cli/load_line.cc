#include "compute/cli/load_line.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/text/escape.h"
#include "common/text/human.h"

namespace gossamer::cli {
namespace {

// Appends the bytes that `text`, from `begin` to before `end`, stands for.
Status AppendField(std::string_view text, size_t begin, size_t end, LineForm form,
                   std::string& bytes) {
  const std::string_view field = text.substr(begin, end - begin);
  if (form == LineForm::kRaw) {
    bytes += field;
  } else if (const auto error = AppendUnescaped(field, bytes)) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("byte {}: {}", begin + error->offset + 1, error->message));
  }
  return Ok();
}

Status Decode(std::string_view text, LineForm form, const StoreParameters& parameters,
              LoadBatch::Line& line, std::string& bytes) {
  const size_t tab = std::min(text.find('\t'), text.size());
  BOOST_OUTCOME_TRYV(AppendField(text, 0, tab, form, bytes));
  line.key_bytes = bytes.size() - line.at;
  if (line.key_bytes > parameters.max_key_bytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a key of {} B is too long: this store takes up to {} B",
                                 line.key_bytes, parameters.max_key_bytes));
  }
  if (tab == text.size()) return Ok();
  BOOST_OUTCOME_TRYV(AppendField(text, tab + 1, text.size(), form, bytes));
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

size_t MaxLineBytes(const StoreParameters& parameters) {
  constexpr size_t kEscapedByte = 4;  // \xHH
  return kEscapedByte * (parameters.max_key_bytes + size_t{kMaxValueBytes} + 1);
}

Result<LoadBatch::Line> DecodeLine(std::string_view text, LineForm form,
                                   const StoreParameters& parameters, std::string& bytes) {
  LoadBatch::Line line;
  line.at = bytes.size();
  const Status status = Decode(text, form, parameters, line, bytes);
  if (status) return line;
  bytes.resize(line.at);
  return status.error();
}

}  // namespace gossamer::cli
