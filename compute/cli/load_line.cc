#include "compute/cli/load_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "common/text/escape.h"
#include "common/text/human.h"

namespace gossamer::cli {
namespace {

constexpr std::string_view kExpiryMark = "\\@";
constexpr std::string_view kCompositeMark = ":composite";

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

// Takes the time off the end of `key`, if it has one. Of a key that has a backslash there, which is
// written as \\, the number of backslashes before the @ is even.
Status TakeExpiry(std::string_view& key, Expiry& expiry) {
  const size_t at = key.rfind(kExpiryMark);
  if (at == std::string_view::npos) return Ok();
  size_t backslashes = 1;
  while (backslashes <= at && key[at - backslashes] == '\\') ++backslashes;
  if (backslashes % 2 == 0) return Ok();
  std::string_view digits = key.substr(at + kExpiryMark.size());
  const bool is_composite = digits.ends_with(kCompositeMark);
  if (is_composite) digits.remove_suffix(kCompositeMark.size());
  if (is_composite && digits.empty()) {
    expiry = Expiry::Never().OfComposite();
    key = key.substr(0, at);
    return Ok();
  }
  uint64_t ms = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ms);
  if (error != std::errc() || end != digits.data() + digits.size() || ms == 0) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("byte {}: behind \\@ stands the time when the key expires, in "
                                 "milliseconds since 1970, and nothing else but :composite",
                                 at + 1));
  }
  expiry = is_composite ? Expiry::At(ms).OfComposite() : Expiry::At(ms);
  key = key.substr(0, at);
  return Ok();
}

Status Decode(std::string_view text, LineForm form, const StoreParameters& parameters,
              LoadBatch::Line& line, std::string& bytes) {
  const size_t tab = std::min(text.find('\t'), text.size());
  std::string_view key = text.substr(0, tab);
  if (form == LineForm::kEscaped) {
    BOOST_OUTCOME_TRYV(TakeExpiry(key, line.expiry));
  }
  BOOST_OUTCOME_TRYV(AppendField(text, 0, key.size(), form, bytes));
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

void AppendExpiry(Expiry expiry, std::string& line) {
  if (!expiry.is_stored()) return;
  line += kExpiryMark;
  if (!expiry.is_never()) fmt::format_to(std::back_inserter(line), "{}", expiry.at_ms());
  if (expiry.is_composite()) line += kCompositeMark;
}

size_t MaxLineBytes(const StoreParameters& parameters) {
  constexpr size_t kEscapedByte = 4;  // \xHH
  constexpr size_t kExpiryBytes = 32;
  return kEscapedByte * (parameters.max_key_bytes + size_t{kMaxValueBytes} + 1) + kExpiryBytes;
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
