#include "compute/bench/redis/reply.h"

#include <cassert>
#include <charconv>

namespace gossamer::bench {
namespace {

// No server sends so much at once; a greater number is that of another protocol.
constexpr int64_t kMostElements = int64_t{1} << 32;
constexpr int64_t kMostBulkBytes = int64_t{1} << 30;

std::optional<int64_t> Number(std::string_view text) {
  int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace

ReplyEnd FindReplyEnd(std::string_view bytes) {
  constexpr ReplyEnd kMore{ReplyEnd::Kind::kNeedMore};
  constexpr ReplyEnd kGarbled{ReplyEnd::Kind::kGarbled};
  size_t at = 0;
  // Elements of nested arrays are counted together.
  for (int64_t missing = 1; missing > 0; --missing) {
    if (at >= bytes.size()) return kMore;
    const size_t line_end = bytes.find("\r\n", at);
    if (line_end == std::string_view::npos) return kMore;
    const char type = bytes[at];
    const std::string_view line = bytes.substr(at + 1, line_end - at - 1);
    at = line_end + 2;
    if (type == '+' || type == '-' || type == ':') continue;
    const std::optional<int64_t> number = Number(line);
    if ((type != '$' && type != '*') || !number || *number < -1) return kGarbled;
    if (*number == -1) continue;
    if (type == '*') {
      if (*number > kMostElements) return kGarbled;
      missing += *number;
      continue;
    }
    if (*number > kMostBulkBytes) return kGarbled;
    const size_t end = at + static_cast<size_t>(*number) + 2;
    if (end > bytes.size()) return kMore;
    if (bytes.substr(end - 2, 2) != "\r\n") return kGarbled;
    at = end;
  }
  return {ReplyEnd::Kind::kWhole, at};
}

ReplyElement ReplyReader::Next() {
  assert(!rest_.empty());
  using Kind = ReplyElement::Kind;
  const size_t line_end = rest_.find("\r\n");
  const char type = rest_.front();
  const std::string_view line = rest_.substr(1, line_end - 1);
  rest_.remove_prefix(line_end + 2);
  if (type == '+') return {Kind::kText, line};
  if (type == '-') return {Kind::kError, line};
  const int64_t number = Number(line).value_or(0);
  if (type == ':') return {Kind::kInteger, {}, number};
  if (number < 0) return {Kind::kNull, {}};
  if (type == '*') return {Kind::kArray, {}, number};
  const std::string_view text = rest_.substr(0, static_cast<size_t>(number));
  rest_.remove_prefix(text.size() + 2);
  return {Kind::kText, text};
}

}  // namespace gossamer::bench
