// TextAt: a string of Lua.
#pragma once

#include <cstddef>
#include <lua.hpp>
#include <string_view>

namespace gossamer::gateway {

// The string or number at `index`, until it leaves the stack; "" if it is neither. A number becomes
// a string there.
inline std::string_view TextAt(lua_State* lua, int index) {
  size_t bytes = 0;
  const char* const text = lua_tolstring(lua, index, &bytes);
  return text == nullptr ? std::string_view() : std::string_view(text, bytes);
}

}  // namespace gossamer::gateway
