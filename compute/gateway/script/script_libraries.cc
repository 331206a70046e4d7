#include "compute/gateway/script/script_libraries.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <lua.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/script/lua_text.h"

namespace gossamer::gateway {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 100;

// The length of the table on top of the stack if its keys are 1, 2, and so on; else -1.
int ArrayLength(lua_State* lua) {
  int count = 0;
  double most = 0;
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    lua_pop(lua, 1);
    const bool is_index = lua_type(lua, -1) == LUA_TNUMBER;
    const double key = is_index ? lua_tonumber(lua, -1) : 0;
    if (!is_index || key < 1 || key != std::floor(key)) {
      lua_pop(lua, 1);
      return -1;
    }
    most = std::max(most, key);
    ++count;
  }
  return most == count ? count : -1;
}

// ---- cjson

// Characters that JSON has escapes for; also the slash, as cjson writes it.
void AppendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '/': out += "\\/"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          std::array<char, 8> escape;
          std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
          out += escape.data();
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void AppendNumber(double number, std::string& out) {
  std::array<char, 40> text;
  std::snprintf(text.data(), text.size(), "%.14g", number);
  out += text.data();
}

// Appends the value on top of the stack. Returns what is wrong with it, or null.
const char* AppendJson(lua_State* lua, int depth, std::string& out) {
  if (depth > kDeepest || lua_checkstack(lua, 4) == 0) return "Cannot serialise, excessive depth";
  switch (lua_type(lua, -1)) {
    case LUA_TNIL: out += "null"; return nullptr;
    case LUA_TBOOLEAN: out += lua_toboolean(lua, -1) != 0 ? "true" : "false"; return nullptr;
    case LUA_TSTRING: AppendQuoted(TextAt(lua, -1), out); return nullptr;
    case LUA_TNUMBER: {
      const double number = lua_tonumber(lua, -1);
      if (!std::isfinite(number)) return "Cannot serialise number: must not be NaN or Inf";
      AppendNumber(number, out);
      return nullptr;
    }
    case LUA_TLIGHTUSERDATA:
      if (lua_touserdata(lua, -1) != nullptr)
        return "Cannot serialise userdata: type not supported";
      out += "null";
      return nullptr;
    case LUA_TTABLE: break;
    default: return "Cannot serialise: type not supported";
  }
  const int length = ArrayLength(lua);
  if (length > 0) {
    out += '[';
    for (int i = 1; i <= length; ++i) {
      if (i > 1) out += ',';
      lua_rawgeti(lua, -1, i);
      if (const char* const wrong = AppendJson(lua, depth + 1, out)) return wrong;
      lua_pop(lua, 1);
    }
    out += ']';
    return nullptr;
  }
  out += '{';
  bool is_first = true;
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    if (!is_first) out += ',';
    is_first = false;
    if (lua_type(lua, -2) == LUA_TNUMBER) {
      out += '"';
      AppendNumber(lua_tonumber(lua, -2), out);
      out += '"';
    } else if (lua_type(lua, -2) == LUA_TSTRING) {
      AppendQuoted(TextAt(lua, -2), out);
    } else {
      return "Cannot serialise: table key must be a number or string";
    }
    out += ':';
    if (const char* const wrong = AppendJson(lua, depth + 1, out)) return wrong;
    lua_pop(lua, 1);
  }
  out += '}';
  return nullptr;
}

void PushValue(lua_State* lua, const Json& value, int depth) {
  luaL_checkstack(lua, 4, "nested too deep");
  if (depth > 1000) {
    lua_pushnil(lua);
    return;
  }
  switch (value.type()) {
    case Json::value_t::boolean: lua_pushboolean(lua, value.get<bool>() ? 1 : 0); return;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float: lua_pushnumber(lua, value.get<double>()); return;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      lua_pushlstring(lua, text.data(), text.size());
      return;
    }
    case Json::value_t::binary: {
      const auto& bytes = value.get_binary();
      lua_pushlstring(lua, reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return;
    }
    case Json::value_t::array: {
      lua_createtable(lua, static_cast<int>(value.size()), 0);
      int number = 0;
      for (const Json& one : value) {
        PushValue(lua, one, depth + 1);
        lua_rawseti(lua, -2, ++number);
      }
      return;
    }
    case Json::value_t::object:
      lua_createtable(lua, 0, static_cast<int>(value.size()));
      for (const auto& [key, one] : value.items()) {
        lua_pushlstring(lua, key.data(), key.size());
        PushValue(lua, one, depth + 1);
        lua_rawset(lua, -3);
      }
      return;
    default: lua_pushlightuserdata(lua, nullptr); return;
  }
}

// Lua leaves C++ frames by a jump on errors: what they need is kept here.
std::string& Buffer() {
  thread_local std::string buffer;
  return buffer;
}
Json& Parsed() {
  thread_local Json parsed;
  return parsed;
}

int EncodeJson(lua_State* lua) {
  luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
  std::string& out = Buffer();
  out.clear();
  if (const char* const wrong = AppendJson(lua, 0, out)) return luaL_error(lua, "%s", wrong);
  lua_pushlstring(lua, out.data(), out.size());
  return 1;
}

int DecodeJson(lua_State* lua) {
  size_t bytes = 0;
  const char* const text = luaL_checklstring(lua, 1, &bytes);
  Json& parsed = Parsed();
  parsed = Json::parse(text, text + bytes, nullptr, false);
  if (parsed.is_discarded()) return luaL_error(lua, "Expected value but found invalid token");
  PushValue(lua, parsed, 0);
  return 1;
}

// ---- cmsgpack

const char* AppendMessage(lua_State* lua, int depth, std::string& out) {
  const auto big_endian = [&out](uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  };
  // Of each kind: up to so many the short form; then lengths of 1, 2 or 4 bytes.
  const auto header = [&](size_t size, size_t most_short, uint8_t first, uint8_t one, uint8_t two) {
    if (size <= most_short) {
      out += static_cast<char>(first | size);
    } else if (size <= 0xff && one != 0) {
      out += static_cast<char>(one);
      big_endian(size, 1);
    } else if (size <= 0xffff) {
      out += static_cast<char>(two);
      big_endian(size, 2);
    } else {
      out += static_cast<char>(two + 1);
      big_endian(size, 4);
    }
  };
  if (lua_checkstack(lua, 4) == 0) return "nested too deep";
  switch (lua_type(lua, -1)) {
    case LUA_TBOOLEAN: out += lua_toboolean(lua, -1) != 0 ? '\xc3' : '\xc2'; return nullptr;
    case LUA_TSTRING: {
      const std::string_view text = TextAt(lua, -1);
      header(text.size(), 31, 0xa0, 0xd9, 0xda);
      out += text;
      return nullptr;
    }
    case LUA_TNUMBER: {
      const double number = lua_tonumber(lua, -1);
      const bool is_whole = number == std::floor(number) && std::abs(number) < 9e15;
      const std::vector<uint8_t> bytes =
          is_whole ? Json::to_msgpack(static_cast<int64_t>(number)) : Json::to_msgpack(number);
      out.append(bytes.begin(), bytes.end());
      return nullptr;
    }
    case LUA_TTABLE: break;
    default: out += '\xc0'; return nullptr;
  }
  if (depth > 16) {
    out += '\xc0';
    return nullptr;
  }
  const int length = ArrayLength(lua);
  if (length > 0) {
    header(static_cast<size_t>(length), 15, 0x90, 0, 0xdc);
    for (int i = 1; i <= length; ++i) {
      lua_rawgeti(lua, -1, i);
      if (const char* const wrong = AppendMessage(lua, depth + 1, out)) return wrong;
      lua_pop(lua, 1);
    }
    return nullptr;
  }
  size_t count = 0;
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    lua_pop(lua, 1);
    ++count;
  }
  header(count, 15, 0x80, 0, 0xde);
  lua_pushnil(lua);
  while (lua_next(lua, -2) != 0) {
    lua_pushvalue(lua, -2);
    if (const char* const wrong = AppendMessage(lua, depth + 1, out)) return wrong;
    lua_pop(lua, 1);
    if (const char* const wrong = AppendMessage(lua, depth + 1, out)) return wrong;
    lua_pop(lua, 1);
  }
  return nullptr;
}

int PackMessage(lua_State* lua) {
  const int count = lua_gettop(lua);
  luaL_argcheck(lua, count != 0, 0, "MessagePack pack needs input.");
  std::string& out = Buffer();
  out.clear();
  for (int i = 1; i <= count; ++i) {
    lua_pushvalue(lua, i);
    if (const char* const wrong = AppendMessage(lua, 0, out)) return luaL_error(lua, "%s", wrong);
    lua_pop(lua, 1);
  }
  lua_pushlstring(lua, out.data(), out.size());
  return 1;
}

int UnpackMessage(lua_State* lua) {
  size_t bytes = 0;
  const char* const text = luaL_checklstring(lua, 1, &bytes);
  Json& parsed = Parsed();
  parsed = Json::from_msgpack(text, text + bytes, true, false);
  if (parsed.is_discarded()) return luaL_error(lua, "Bad data format in input.");
  PushValue(lua, parsed, 0);
  return 1;
}

// ---- bit

// As LuaBitOp: numbers are taken modulo 2^32, and results are signed.
uint32_t BitsAt(lua_State* lua, int index) {
  const double number = luaL_checknumber(lua, index);
  const double rounded = std::isfinite(number) ? std::nearbyint(number) : 0;
  return static_cast<uint32_t>(static_cast<int64_t>(std::fmod(rounded, 4294967296.0)));
}
int PushBits(lua_State* lua, uint32_t bits) {
  lua_pushnumber(lua, static_cast<double>(static_cast<int32_t>(bits)));
  return 1;
}
template <typename Operation>
int Fold(lua_State* lua, Operation operation) {
  uint32_t bits = BitsAt(lua, 1);
  for (int i = 2; i <= lua_gettop(lua); ++i) bits = operation(bits, BitsAt(lua, i));
  return PushBits(lua, bits);
}
int ToHex(lua_State* lua) {
  uint32_t bits = BitsAt(lua, 1);
  int digits = lua_isnoneornil(lua, 2) ? 8 : static_cast<int>(static_cast<int32_t>(BitsAt(lua, 2)));
  const char* const table = digits < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
  digits = std::min(std::abs(digits), 8);
  std::array<char, 8> text;
  for (int i = digits - 1; i >= 0; --i, bits >>= 4) text[static_cast<size_t>(i)] = table[bits & 15];
  lua_pushlstring(lua, text.data(), static_cast<size_t>(digits));
  return 1;
}
int Rotate(lua_State* lua, int sign) {
  const uint32_t by = static_cast<uint32_t>(sign) * BitsAt(lua, 2) & 31;
  const uint32_t bits = BitsAt(lua, 1);
  return PushBits(lua, by == 0 ? bits : bits << by | bits >> (32 - by));
}

}  // namespace

void PushJson(lua_State* lua) {
  lua_newtable(lua);
  lua_pushcfunction(lua, EncodeJson);
  lua_setfield(lua, -2, "encode");
  lua_pushcfunction(lua, DecodeJson);
  lua_setfield(lua, -2, "decode");
  lua_pushlightuserdata(lua, nullptr);
  lua_setfield(lua, -2, "null");
}

void PushMessagePack(lua_State* lua) {
  lua_newtable(lua);
  lua_pushcfunction(lua, PackMessage);
  lua_setfield(lua, -2, "pack");
  lua_pushcfunction(lua, UnpackMessage);
  lua_setfield(lua, -2, "unpack");
}

void PushBit(lua_State* lua) {
  constexpr std::array<luaL_Reg, 13> kBit = {{
      {"tobit", [](lua_State* l) { return PushBits(l, BitsAt(l, 1)); }},
      {"bnot", [](lua_State* l) { return PushBits(l, ~BitsAt(l, 1)); }},
      {"band", [](lua_State* l) { return Fold(l, [](uint32_t a, uint32_t b) { return a & b; }); }},
      {"bor", [](lua_State* l) { return Fold(l, [](uint32_t a, uint32_t b) { return a | b; }); }},
      {"bxor", [](lua_State* l) { return Fold(l, [](uint32_t a, uint32_t b) { return a ^ b; }); }},
      {"lshift", [](lua_State* l) { return PushBits(l, BitsAt(l, 1) << (BitsAt(l, 2) & 31)); }},
      {"rshift", [](lua_State* l) { return PushBits(l, BitsAt(l, 1) >> (BitsAt(l, 2) & 31)); }},
      {"arshift",
       [](lua_State* l) {
         const auto bits = static_cast<int32_t>(BitsAt(l, 1));
         return PushBits(l, static_cast<uint32_t>(bits >> (BitsAt(l, 2) & 31)));
       }},
      {"rol", [](lua_State* l) { return Rotate(l, 1); }},
      {"ror", [](lua_State* l) { return Rotate(l, -1); }},
      {"bswap", [](lua_State* l) { return PushBits(l, __builtin_bswap32(BitsAt(l, 1))); }},
      {"tohex", ToHex},
      {nullptr, nullptr},
  }};
  lua_newtable(lua);
  luaL_register(lua, nullptr, kBit.data());
}

}  // namespace gossamer::gateway
