// ReplyWriter: appends replies of the Redis protocol, RESP2 or RESP3, to a buffer.
//
// Thread-safety: none. Cost: no allocation once the buffer has grown.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer::gateway {

class ReplyWriter {
 public:
  // `out` outlives the writer.
  ReplyWriter(std::string& out, bool is_resp3) : out_(out), is_resp3_(is_resp3) {}

  void Ok() { out_ += "+OK\r\n"; }
  // A whole reply.
  void Raw(std::string_view reply) { out_ += reply; }
  // A line without line breaks.
  void Simple(std::string_view line) {
    out_ += '+';
    Line(line);
  }
  // "ERR syntax error": a code in capitals, then a sentence. Line breaks become blanks.
  void Error(std::string_view line) {
    out_ += '-';
    for (const char c : line) out_ += c == '\r' || c == '\n' ? ' ' : c;
    out_ += "\r\n";
  }
  void Integer(int64_t number) { Header(':', number); }
  void Bulk(std::string_view bytes) {
    // A buffer that is to hold one long value does not double for its last two bytes.
    if (bytes.size() > kLongBytes) out_.reserve(out_.size() + bytes.size() + kFrameBytes);
    Header('$', static_cast<int64_t>(bytes.size()));
    Line(bytes);
  }
  // Null in place of nothing.
  void BulkOrNull(std::optional<std::string_view> bytes) { bytes ? Bulk(*bytes) : Null(); }
  // Lines of text for people; of RESP3, marked as such.
  void Verbatim(std::string_view text) {
    if (!is_resp3_) return Bulk(text);
    constexpr std::string_view kFormat = "txt:";
    Header('=', static_cast<int64_t>(kFormat.size() + text.size()));
    out_ += kFormat;
    Line(text);
  }
  // A field of a map.
  void Pair(std::string_view name, std::string_view value) {
    Bulk(name);
    Bulk(value);
  }
  void Null() { out_ += is_resp3_ ? "_\r\n" : "$-1\r\n"; }
  // In place of an array.
  void NullArray() { out_ += is_resp3_ ? "_\r\n" : "*-1\r\n"; }
  // `size` replies follow.
  void Array(size_t size) { Header('*', static_cast<int64_t>(size)); }
  // Likewise, in any order.
  void Set(size_t size) { Header(is_resp3_ ? '~' : '*', static_cast<int64_t>(size)); }
  // Likewise, as a message that no request has asked for.
  void Push(size_t size) { Header(is_resp3_ ? '>' : '*', static_cast<int64_t>(size)); }
  // `size` pairs of replies follow.
  void Map(size_t size) {
    if (is_resp3_) {
      Header('%', static_cast<int64_t>(size));
    } else {
      Array(2 * size);
    }
  }

 private:
  static constexpr size_t kLongBytes = 64 * 1024;
  static constexpr size_t kFrameBytes = 32;

  void Line(std::string_view bytes) {
    out_ += bytes;
    out_ += "\r\n";
  }
  void Header(char type, int64_t number) {
    std::array<char, 24> text;
    text[0] = type;
    char* const end = std::to_chars(text.data() + 1, text.data() + text.size(), number).ptr;
    end[0] = '\r';
    end[1] = '\n';
    out_.append(text.data(), static_cast<size_t>(end + 2 - text.data()));
  }

  std::string& out_;
  bool is_resp3_;
};

}  // namespace gossamer::gateway
