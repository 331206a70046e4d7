#include "compute/gateway/protocol/request_parser.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char Unescaped(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

// Appends the quoted part that starts at `line[at]`. Returns what is behind its closing quote;
// nullopt if there is none.
std::optional<size_t> AppendQuoted(std::string_view line, size_t at, std::string& word) {
  const char quote = line[at++];
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (c == quote) return at + 1;
    if (c != '\\' || at + 1 == line.size()) {
      word += c;
    } else if (quote == '\'') {
      if (line[at + 1] == '\'') ++at;
      word += line[at];
    } else if (line[at + 1] == 'x' && at + 3 < line.size() && HexDigit(line[at + 2]) >= 0 &&
               HexDigit(line[at + 3]) >= 0) {
      word += static_cast<char>(HexDigit(line[at + 2]) * 16 + HexDigit(line[at + 3]));
      at += 3;
    } else {
      word += Unescaped(line[++at]);
    }
  }
  return std::nullopt;
}

// Splits a line into words. Returns false if a quote is not closed, or not followed by a blank.
bool SplitWords(std::string_view line, std::vector<std::string>& words) {
  size_t at = 0;
  for (;;) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at == line.size()) return true;
    std::string word;
    while (at < line.size() && !IsBlank(line[at])) {
      if (line[at] != '"' && line[at] != '\'') {
        word += line[at++];
        continue;
      }
      const std::optional<size_t> behind = AppendQuoted(line, at, word);
      if (!behind || (*behind < line.size() && !IsBlank(line[*behind]))) return false;
      at = *behind;
    }
    words.push_back(std::move(word));
  }
}

// The number of a line that starts at `at`. Returns what is behind the line; null if the number is
// not short, or no number, or the line has not arrived whole.
inline const char* TakeShortNumber(const char* at, const char* end, size_t& number) {
  constexpr ptrdiff_t kMostDigits = 7;
  const char* const last = at + std::min(end - at, kMostDigits);
  const char* digit = at;
  number = 0;
  for (; digit != last && *digit >= '0' && *digit <= '9'; ++digit) {
    number = 10 * number + static_cast<size_t>(*digit - '0');
  }
  const bool is_number = digit != at && (*at != '0' || digit == at + 1);
  return is_number && end - digit >= 2 && *digit == '\r' ? digit + 2 : nullptr;
}

}  // namespace

RequestParser::Outcome RequestParser::Next(std::string_view bytes) {
  wanted_ = 0;
  if (bytes.empty()) {
    GiveBack();
    return Outcome::kNeedMore;
  }
  return in_array_ || bytes.front() == '*' ? NextArray(bytes) : NextLine(bytes);
}

// A client that is idle keeps no memory of a request of many words. There may be thousands of
// clients.
void RequestParser::GiveBack() {
  constexpr size_t kKeptWords = 1024;
  if (pieces_.capacity() > kKeptWords) std::vector<Piece>().swap(pieces_);
  if (arguments_.capacity() > kKeptWords) std::vector<std::string_view>().swap(arguments_);
  if (own_.capacity() > kKeptWords) std::vector<std::string>().swap(own_);
}

RequestParser::Outcome RequestParser::Fail(std::string sentence) {
  error_ = "Protocol error: " + std::move(sentence);
  return Outcome::kError;
}

// Requests that have arrived whole, of short words, are nearly all of them.
bool RequestParser::TakeWhole(std::string_view bytes) {
  const char* at = bytes.data() + 1;
  const char* const end = bytes.data() + bytes.size();
  size_t count = 0;
  at = TakeShortNumber(at, end, count);
  if (at == nullptr || count > limits_.arguments) return false;
  arguments_.resize(count);
  for (std::string_view& argument : arguments_) {
    if (at == end || *at != '$') return false;
    size_t size = 0;
    at = TakeShortNumber(at + 1, end, size);
    if (at == nullptr || size > limits_.argument_bytes) return false;
    if (static_cast<size_t>(end - at) < size + 2) return false;
    argument = {at, size};
    at += size + 2;
  }
  at_ = static_cast<size_t>(at - bytes.data());
  return true;
}

std::optional<RequestParser::Outcome> RequestParser::TakeLength(std::string_view bytes,
                                                                size_t start, const Length& what,
                                                                int64_t& length) {
  const size_t end = std::min(bytes.find('\r', std::max(start, scanned_)), bytes.size());
  scanned_ = end;
  // Asked of the line alone: however its bytes arrive, the answer is the same.
  if (end - start > limits_.line_bytes) {
    return Fail("too big " + std::string(what.line) + " count string");
  }
  // The newline behind it is taken for granted once it has arrived, as Redis does.
  if (end + 1 >= bytes.size()) return Outcome::kNeedMore;
  const std::optional<int64_t> number = ParseInteger(bytes.substr(start, end - start));
  const auto fail = [&](std::string_view how) {
    return Fail(std::string(how) + " " + std::string(what.name) + " length");
  };
  if (!number || *number < what.least) return fail("invalid");
  if (*number > static_cast<int64_t>(what.most)) return fail(limits_.breach);
  at_ = end + 2;
  length = *number;
  return std::nullopt;
}

RequestParser::Outcome RequestParser::NextArray(std::string_view bytes) {
  is_line_ = false;
  if (!in_array_ && TakeWhole(bytes)) {
    Finish();
    return Outcome::kRequest;
  }
  int64_t length = 0;
  if (!in_array_) {
    const Length count{"mbulk", "multibulk", std::numeric_limits<int64_t>::min(),
                       limits_.arguments};
    if (const auto outcome = TakeLength(bytes, 1, count, length)) return *outcome;
    expected_ = static_cast<uint64_t>(std::max<int64_t>(length, 0));
    pieces_.clear();
    in_array_ = true;
  }
  const Length size{"bulk", "bulk", 0, limits_.argument_bytes};
  while (pieces_.size() < expected_) {
    const size_t start = at_;
    if (start == bytes.size()) return Outcome::kNeedMore;
    if (bytes[start] != '$') {
      return Fail("expected '$', got '" + std::string(1, bytes[start]) + "'");
    }
    if (const auto outcome = TakeLength(bytes, start + 1, size, length)) return *outcome;
    const auto piece_bytes = static_cast<size_t>(length);
    if (bytes.size() - at_ < piece_bytes + 2) {
      wanted_ = at_ + piece_bytes + 2;
      at_ = start;
      scanned_ = start;
      return Outcome::kNeedMore;
    }
    pieces_.push_back({at_, piece_bytes});
    at_ += piece_bytes + 2;
  }
  arguments_.resize(pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    arguments_[i] = bytes.substr(pieces_[i].at, pieces_[i].size);
  }
  Finish();
  return Outcome::kRequest;
}

RequestParser::Outcome RequestParser::NextLine(std::string_view bytes) {
  const size_t end = bytes.find('\n', scanned_);
  if (end == std::string_view::npos) {
    scanned_ = bytes.size();
    return bytes.size() > limits_.line_bytes ? Fail("too big inline request") : Outcome::kNeedMore;
  }
  if (end > limits_.line_bytes) return Fail("too big inline request");
  own_.clear();
  if (!SplitWords(bytes.substr(0, end), own_)) return Fail("unbalanced quotes in request");
  at_ = end + 1;
  arguments_.assign(own_.begin(), own_.end());
  is_line_ = true;
  Finish();
  return Outcome::kRequest;
}

void RequestParser::Finish() {
  consumed_ = at_;
  at_ = 0;
  scanned_ = 0;
  in_array_ = false;
}

}  // namespace gossamer::gateway
