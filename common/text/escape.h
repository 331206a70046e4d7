// Escapes: how any bytes are written on one line of text, and read back.
//
//   \t  TAB        \n  newline        \\  backslash        \xHH  the byte with these two hex digits
//
// `load` reads them, `dump` and `scan` write them, `--escaped` enables them on the command line.
// Writing escapes everything but printable ASCII and well-formed UTF-8 (controls, C1 controls,
// bytes that are not UTF-8), so that a line is safe to display. Reading rejects malformed escapes
// and takes all other bytes literally.
//
// Invariant: reading what was written gives the same bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer {

// Appends `bytes` to `text`, escaped.
void AppendEscaped(std::string_view bytes, std::string& text);
std::string Escaped(std::string_view bytes);
// The same in quotes and cut to a few dozen bytes, for messages.
std::string Quoted(std::string_view bytes);

// Returns the first `shown` of `bytes` in hexadecimal digits, and how many there are: "00ff… (8
// bytes)". For bytes that are not text, in messages.
std::string HexText(std::string_view bytes, size_t shown);

// An invalid escape.
struct EscapeError {
  size_t offset = 0;    // of the backslash
  std::string message;  // what is wrong and what to do: a sentence without its full stop
};

// Appends the bytes that `text` encodes. After an error `bytes` has those before it.
std::optional<EscapeError> AppendUnescaped(std::string_view text, std::string& bytes);

}  // namespace gossamer
