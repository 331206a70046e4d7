// The libraries that Redis gives to scripts beside Lua's own: cjson, cmsgpack and bit, as far as
// scripts of Redis clients use them.
#pragma once

struct lua_State;

namespace gossamer::gateway {

// Each pushes the table of a library.
void PushJson(lua_State* lua);
void PushMessagePack(lua_State* lua);
void PushBit(lua_State* lua);

}  // namespace gossamer::gateway
