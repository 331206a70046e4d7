#include "common/text/escape.h"

#include <fmt/core.h>

#include <cstdint>

#include "common/text/utf8.h"

namespace gossamer {
namespace {

constexpr size_t kQuotedBytes = 48;

// A table, not fmt: `dump` comes here with each byte of a binary value, for 5 ns instead of 48.
void AppendHex(uint8_t byte, std::string& text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  text += kDigits[byte >> 4];
  text += kDigits[byte & 15];
}

int HexValue(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

bool IsPlain(uint8_t byte) { return byte >= 0x20 && byte < 0x7f && byte != '\\'; }

// U+0080 to U+009F: well-formed UTF-8, but a terminal may obey it.
bool IsC1Control(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xc2' && static_cast<uint8_t>(sequence[1]) < 0xa0;
}

// Appends the unit at `bytes[at]` and returns its length.
size_t AppendUnit(std::string_view bytes, size_t at, std::string& text) {
  const char byte = bytes[at];
  switch (byte) {
    case '\t': text += "\\t"; return 1;
    case '\n': text += "\\n"; return 1;
    case '\\': text += "\\\\"; return 1;
    default: break;
  }
  const auto value = static_cast<uint8_t>(byte);
  if (value >= 0x80) {
    const std::string_view sequence = bytes.substr(at, Utf8Length(bytes, at));
    if (!sequence.empty() && !IsC1Control(sequence)) {
      text += sequence;
      return sequence.size();
    }
  }
  text += "\\x";
  AppendHex(value, text);
  return 1;
}

EscapeError Dangling(std::string_view text, size_t at) {
  return {at, fmt::format("the text ends inside the escape \"{}\": it may be cut off here",
                          text.substr(at))};
}

EscapeError Unknown(std::string_view text, size_t at, size_t length) {
  return {at, fmt::format("\"\\{}\" is no escape: write \\t, \\n, \\\\ or \\xHH, and \\\\ for a "
                          "backslash itself",
                          Escaped(text.substr(at + 1, length - 1)))};
}

}  // namespace

void AppendEscaped(std::string_view bytes, std::string& text) {
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    while (end < bytes.size() && IsPlain(static_cast<uint8_t>(bytes[end]))) ++end;
    text += bytes.substr(at, end - at);
    at = end;
    if (at < bytes.size()) at += AppendUnit(bytes, at, text);
  }
}

std::string Escaped(std::string_view bytes) {
  std::string text;
  AppendEscaped(bytes, text);
  return text;
}

std::string Quoted(std::string_view bytes) {
  std::string text = "\"";
  size_t at = 0;
  while (at < bytes.size() && text.size() <= kQuotedBytes) {
    if (IsPlain(static_cast<uint8_t>(bytes[at]))) {
      text += bytes[at++];
    } else {
      at += AppendUnit(bytes, at, text);
    }
  }
  return text + (at < bytes.size() ? "…\"" : "\"");
}

std::string HexText(std::string_view bytes, size_t shown) {
  std::string text;
  for (const char byte : bytes.substr(0, shown)) AppendHex(static_cast<uint8_t>(byte), text);
  return fmt::format("{}{} ({} bytes)", text, bytes.size() > shown ? "…" : "", bytes.size());
}

std::optional<EscapeError> AppendUnescaped(std::string_view text, std::string& bytes) {
  for (size_t at = 0;;) {
    const size_t backslash = text.find('\\', at);
    bytes += text.substr(at, backslash - at);
    if (backslash == std::string_view::npos) return std::nullopt;
    if (backslash + 1 == text.size()) return Dangling(text, backslash);
    at = backslash + 2;
    switch (text[backslash + 1]) {
      case 't': bytes += '\t'; continue;
      case 'n': bytes += '\n'; continue;
      case '\\': bytes += '\\'; continue;
      case 'x': break;
      default: return Unknown(text, backslash, 2);
    }
    int value = 0;
    for (size_t digit = 0; digit < 2; ++digit, ++at) {
      if (at == text.size()) return Dangling(text, backslash);
      const int nibble = HexValue(text[at]);
      if (nibble < 0) return Unknown(text, backslash, at - backslash + 1);
      value = value * 16 + nibble;
    }
    bytes += static_cast<char>(value);
  }
}

}  // namespace gossamer
