// Escapes: how any bytes are written on one line of text, and read back.
//
//   \t  TAB        \n  newline        \\  backslash        \xHH  the byte with these two hex digits
//
// `load` reads them, `dump` and `scan` write them, `--escaped` asks for them on the command line.
// Writing leaves printable ASCII and well-formed UTF-8 as they are and escapes all else (controls,
// C1 controls, bytes that are no UTF-8), so that a line is safe to look at. Reading is strict about
// escapes and takes every other byte as it stands.
//
// Invariant: reading what was written gives the same bytes, whatever they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gossamer::cli {

// Appends `bytes` to `text`, escaped.
void AppendEscaped(std::string_view bytes, std::string& text);
std::string Escaped(std::string_view bytes);
// The same in quotes and cut to a few dozen bytes: for messages.
std::string Quoted(std::string_view bytes);

// An escape that cannot be read.
struct EscapeError {
  size_t offset = 0;    // of the backslash
  std::string message;  // a sentence without its end: what is wrong and what to do
};

// Appends what `text` stands for to `bytes`. On an error `bytes` has what came before it.
std::optional<EscapeError> AppendUnescaped(std::string_view text, std::string& bytes);

}  // namespace gossamer::cli
