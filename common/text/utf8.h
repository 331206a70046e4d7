// The part of UTF-8 needed to tell text from other bytes.
#pragma once

#include <boost/locale/utf.hpp>
#include <cstddef>
#include <string_view>

namespace gossamer {

// The length (1 to 4) of the well-formed UTF-8 sequence at `text[at]`, or 0 if there is none.
// Overlong forms, surrogates and values above U+10FFFF are not well-formed.
inline size_t Utf8Length(std::string_view text, size_t at) {
  namespace utf = boost::locale::utf;
  const char* end = text.data() + at;
  const utf::code_point point = utf::utf_traits<char>::decode(end, text.data() + text.size());
  if (point == utf::illegal || point == utf::incomplete) return 0;
  return static_cast<size_t>(end - text.data()) - at;
}

inline bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace gossamer
