#include "compute/gateway/script/script_engine.h"

#include <glog/logging.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <lua.hpp>

#include "common/random.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/script/lua_text.h"
#include "compute/gateway/script/script.h"
#include "compute/gateway/script/script_libraries.h"

namespace gossamer::gateway {
namespace {

using Effect = ValueChange::Effect;

// Of compiled scripts, before all are forgotten.
constexpr size_t kMostFunctions = 512;
constexpr int kDeepestReply = 64;
constexpr const char* kChunkName = "@user_script";

// What of Lua's own globals scripts have.
constexpr std::array kGlobals = {"assert",   "collectgarbage", "coroutine", "error",  "ipairs",
                                 "math",     "next",           "pairs",     "pcall",  "rawequal",
                                 "select",   "setmetatable",   "string",    "table",  "tonumber",
                                 "tostring", "type",           "unpack",    "xpcall", "_VERSION",
                                 "rawget",   "getmetatable"};

// Makes everything that scripts share read-only: they see it through tables that are empty, and
// refuse what is new. `engine` has what is Gossamer's; the rest is Lua's.
constexpr std::string_view kSandbox = R"lua(
local names, redis, cjson, cmsgpack, bit, random, randomseed, loadtext = ...
local real = {}
for _, name in ipairs(names) do real[name] = _G[name] end
local function frozen(table, what)
  local copy = {}
  for k, v in pairs(table) do copy[k] = v end
  return setmetatable({}, {
    __index = copy,
    __newindex = function() error('Attempt to modify a readonly table', 2) end,
    __metatable = false})
end
local lua_string = {}
for k, v in pairs(string) do if k ~= 'dump' then lua_string[k] = v end end
local lua_math = {}
for k, v in pairs(math) do lua_math[k] = v end
lua_math.random, lua_math.randomseed = random, randomseed
real.string, real.math = frozen(lua_string), frozen(lua_math)
real.table, real.coroutine = frozen(table), frozen(coroutine)
real.redis, real.cjson = frozen(redis), frozen(cjson)
real.cmsgpack, real.bit = frozen(cmsgpack), frozen(bit)
real.os = frozen({clock = os.clock})
real.server = real.redis
local environment
real.loadstring = function(text, name)
  local made, why = loadtext(text, name)
  if made then setfenv(made, environment) end
  return made, why
end
real.load = function(get, name)
  local text = ''
  while true do
    local piece = get()
    if piece == nil or piece == '' then break end
    text = text .. piece
  end
  return real.loadstring(text, name)
end
real.rawset = function(t, k, v)
  local meta = getmetatable(t)
  if meta == false then error('Attempt to modify a readonly table', 2) end
  return rawset(t, k, v)
end
setmetatable(real, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end})
environment = setmetatable({}, {
  __index = real,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
  __metatable = false})
real._G = environment
getmetatable('').__index = lua_string
getmetatable('').__metatable = false
return environment, real
)lua";

// A table with one field.
void PushField(lua_State* lua, const char* name, std::string_view text) {
  lua_createtable(lua, 0, 1);
  lua_pushlstring(lua, text.data(), text.size());
  lua_setfield(lua, -2, name);
}

// What is out of range, or no number, is the least integer, as on the processors that Redis runs
// on.
int64_t ToInteger(double number) {
  constexpr double kEnd = 9223372036854775808.0;
  const bool is_inside = number >= -kEnd && number < kEnd;
  return is_inside ? static_cast<int64_t>(number) : std::numeric_limits<int64_t>::min();
}

// What a script may do to its key.
bool IsOfOneKey(const Command& command) {
  if (command.first_key == 0) return false;
  switch (command.kind) {
    case CommandKind::kRead:
    case CommandKind::kLook:
    case CommandKind::kPut:
    case CommandKind::kDelete:
    case CommandKind::kChange: return true;
    default: return false;
  }
}

}  // namespace

void ScriptEngine::Close::operator()(lua_State* lua) const { lua_close(lua); }

ScriptEngine& ScriptEngine::OfThread() {
  thread_local ScriptEngine engine;
  return engine;
}

ScriptEngine::ScriptEngine() { Begin(); }
ScriptEngine::~ScriptEngine() = default;

ScriptEngine& ScriptEngine::Of(lua_State* lua) {
  void* engine = nullptr;
  lua_getallocf(lua, &engine);
  return *static_cast<ScriptEngine*>(engine);
}

void* ScriptEngine::Allocate(void* engine, void* block, size_t old_bytes, size_t bytes) {
  auto& self = *static_cast<ScriptEngine*>(engine);
  if (bytes == 0) {
    self.bytes_ -= old_bytes;
    std::free(block);
    return nullptr;
  }
  if (bytes > old_bytes && self.bytes_ + bytes - old_bytes > kMostBytes) return nullptr;
  void* const grown = std::realloc(block, bytes);
  if (grown != nullptr) self.bytes_ += bytes - old_bytes;
  return grown;
}

void ScriptEngine::CountInstructions(lua_State* lua, lua_Debug* /*activation*/) {
  // A script that catches this error gets the next one at once.
  Of(lua).is_out_of_time_ = true;
  lua_sethook(lua, CountInstructions, LUA_MASKCOUNT, 1);
  luaL_error(lua, "the script takes too long: it holds its key's lock");
}

int ScriptEngine::OpenLibraries(lua_State* lua) {
  for (const lua_CFunction open :
       {luaopen_base, luaopen_table, luaopen_string, luaopen_math, luaopen_os}) {
    lua_pushcfunction(lua, open);
    lua_call(lua, 0, 0);
  }
  const int loaded = luaL_loadbuffer(lua, kSandbox.data(), kSandbox.size(), "@sandbox");
  CHECK_EQ(loaded, 0) << TextAt(lua, -1);
  lua_createtable(lua, static_cast<int>(kGlobals.size()), 0);
  for (size_t i = 0; i < kGlobals.size(); ++i) {
    lua_pushstring(lua, kGlobals[i]);
    lua_rawseti(lua, -2, static_cast<int>(i + 1));
  }
  lua_newtable(lua);
  constexpr std::array<luaL_Reg, 8> kRedis = {{{"call", Call},
                                               {"pcall", ProtectedCall},
                                               {"error_reply", ErrorReply},
                                               {"status_reply", StatusReply},
                                               {"sha1hex", Sha1},
                                               {"log", Log},
                                               {"setresp", SetResp},
                                               {nullptr, nullptr}}};
  luaL_register(lua, nullptr, kRedis.data());
  for (const char* const always : {"replicate_commands", "acl_check_cmd"}) {
    lua_pushcfunction(lua, [](lua_State* inner) {
      lua_pushboolean(inner, 1);
      return 1;
    });
    lua_setfield(lua, -2, always);
  }
  lua_pushcfunction(lua, [](lua_State*) { return 0; });
  lua_setfield(lua, -2, "set_repl");
  int number = 0;
  for (const char* const name : {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"}) {
    lua_pushinteger(lua, number++);
    lua_setfield(lua, -2, name);
  }
  for (const auto& [name, value] : {std::pair("REPL_NONE", 0),
                                    {"REPL_AOF", 1},
                                    {"REPL_SLAVE", 2},
                                    {"REPL_REPLICA", 2},
                                    {"REPL_ALL", 3},
                                    {"REDIS_VERSION_NUM", 0x00070000}}) {
    lua_pushinteger(lua, value);
    lua_setfield(lua, -2, name);
  }
  lua_pushliteral(lua, "7.0.0");
  lua_setfield(lua, -2, "REDIS_VERSION");
  PushJson(lua);
  PushMessagePack(lua);
  PushBit(lua);
  lua_pushcfunction(lua, RandomNumber);
  lua_pushcfunction(lua, SeedRandom);
  lua_pushcfunction(lua, LoadText);
  lua_call(lua, 8, 2);
  ScriptEngine& engine = Of(lua);
  engine.globals_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  engine.environment_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  lua_pushcfunction(lua, NoteLine);
  engine.note_line_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  lua_pushcfunction(lua, RunScript);
  engine.run_script_ = luaL_ref(lua, LUA_REGISTRYINDEX);
  return 0;
}

void ScriptEngine::Begin() {
  lua_.reset();
  bytes_ = 0;
  functions_.clear();
  lua_.reset(lua_newstate(Allocate, this));
  CHECK(lua_ != nullptr) << "no memory for Lua";
  CHECK_EQ(lua_cpcall(lua_.get(), OpenLibraries, nullptr), 0) << TextAt(lua_.get(), -1);
}

// ---- Functions of scripts

int ScriptEngine::LoadText(lua_State* lua) {
  const std::string_view text = TextAt(lua, 1);
  // Compiled Lua is not verified.
  if (text.starts_with('\x1b')) return luaL_error(lua, "only source code can be loaded");
  const char* const name = luaL_optstring(lua, 2, "=(load)");
  if (luaL_loadbuffer(lua, text.data(), text.size(), name) == 0) return 1;
  lua_pushnil(lua);
  lua_insert(lua, -2);
  return 2;
}

int ScriptEngine::NoteLine(lua_State* lua) {
  lua_Debug activation{};
  for (int level = 1; lua_getstack(lua, level, &activation) != 0; ++level) {
    lua_getinfo(lua, "Sl", &activation);
    // Not of the sandbox.
    if (activation.currentline <= 0 || std::string_view(activation.short_src) != "user_script") {
      continue;
    }
    Of(lua).line_ = activation.currentline;
    break;
  }
  return 1;
}

// The same sequence in each run.
int ScriptEngine::RandomNumber(lua_State* lua) {
  uint64_t& state = Of(lua).random_;
  state += 0x9e3779b97f4a7c15u;
  const double unit = static_cast<double>(SplitMix64::Mix(state) >> 11) / 9007199254740992.0;
  const int count = lua_gettop(lua);
  if (count == 0) {
    lua_pushnumber(lua, unit);
    return 1;
  }
  const double low = count == 1 ? 1 : std::floor(luaL_checknumber(lua, 1));
  const double high = std::floor(luaL_checknumber(lua, count == 1 ? 1 : 2));
  luaL_argcheck(lua, low <= high, count == 1 ? 1 : 2, "interval is empty");
  lua_pushnumber(lua, std::floor(unit * (high - low + 1)) + low);
  return 1;
}

int ScriptEngine::SeedRandom(lua_State* lua) {
  Of(lua).random_ = static_cast<uint64_t>(ToInteger(luaL_checknumber(lua, 1)));
  return 0;
}

int ScriptEngine::ErrorReply(lua_State* lua) {
  if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
    PushField(lua, "err", "ERR wrong number or type of arguments");
    return 1;
  }
  std::string_view text = TextAt(lua, 1);
  if (text.starts_with('-')) text.remove_prefix(1);
  std::string& made = Of(lua).text_;
  made = text.find(' ') == std::string_view::npos ? "ERR " : "";
  made += text;
  PushField(lua, "err", made);
  return 1;
}

int ScriptEngine::StatusReply(lua_State* lua) {
  const bool is_right = lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING;
  if (is_right) {
    PushField(lua, "ok", TextAt(lua, 1));
  } else {
    PushField(lua, "err", "ERR wrong number or type of arguments");
  }
  return 1;
}

int ScriptEngine::Sha1(lua_State* lua) {
  if (lua_gettop(lua) != 1) return luaL_error(lua, "wrong number of arguments");
  size_t bytes = 0;
  const char* const text = luaL_checklstring(lua, 1, &bytes);
  std::string& made = Of(lua).text_;
  made = Sha1Hex({text, bytes});
  lua_pushlstring(lua, made.data(), made.size());
  return 1;
}

int ScriptEngine::Log(lua_State* lua) {
  VLOG(1) << "script: " << TextAt(lua, 2);
  return 0;
}

int ScriptEngine::SetResp(lua_State* lua) {
  const auto version = luaL_checkinteger(lua, 1);
  if (version == 2) return 0;
  return luaL_error(lua, "scripts get RESP2 replies in Gossamer: redis.setresp(2)");
}

// ---- redis.call

int ScriptEngine::Call(lua_State* lua) { return Of(lua).RunCommand(lua, true); }
int ScriptEngine::ProtectedCall(lua_State* lua) { return Of(lua).RunCommand(lua, false); }

int ScriptEngine::RunCommand(lua_State* lua, bool raises) {
  const int count = lua_gettop(lua);
  views_.clear();
  result_.clear();
  std::string_view refusal;
  if (count == 0) refusal = "ERR Please specify at least one argument for this redis.call() call";
  for (int i = 1; i <= count; ++i) {
    if (lua_type(lua, i) == LUA_TNUMBER) {
      std::array<char, 32> text;
      const double number = lua_tonumber(lua, i);
      const bool is_whole = number == std::floor(number) && std::abs(number) < 1e17;
      const int bytes = is_whole ? std::snprintf(text.data(), text.size(), "%.0f", number)
                                 : std::snprintf(text.data(), text.size(), "%.17g", number);
      lua_pushlstring(lua, text.data(), static_cast<size_t>(bytes));
      lua_replace(lua, i);
    } else if (lua_type(lua, i) != LUA_TSTRING) {
      refusal = "ERR Lua redis lib command arguments must be strings or integers";
      break;
    }
    // The stack keeps it until the command has been done.
    views_.push_back(TextAt(lua, i));
  }
  if (refusal.empty()) refusal = ExecuteCommand();
  if (!refusal.empty()) {
    result_ = "-";
    result_ += refusal;
    result_ += "\r\n";
  }
  size_t at = 0;
  const bool is_error = result_.starts_with('-');
  PushReply(lua, at);
  return is_error && raises ? lua_error(lua) : 1;
}

std::string_view ScriptEngine::ExecuteCommand() {
  const Command* const command = FindCommand(views_[0]);
  if (command == nullptr) return "ERR Unknown Redis command called from script";
  if (!IsRightCount(command->arity, views_.size())) {
    return "ERR Wrong number of args calling Redis command from script";
  }
  if (command->id == CommandId::kTime) {
    ReplyWriter reply(result_, false);
    reply.Array(2);
    reply.Bulk(std::to_string(state_->now_ms / 1000));
    reply.Bulk(std::to_string(state_->now_ms % 1000 * 1000));
    return {};
  }
  if (command->id == CommandId::kPing || command->id == CommandId::kEcho) {
    ReplyWriter reply(result_, false);
    views_.size() > 1 ? reply.Bulk(views_[1]) : reply.Simple("PONG");
    return {};
  }
  if (!IsOfOneKey(*command)) return "ERR This Redis command is not allowed from script";
  const bool has_key = !request_->keys.empty();
  const auto step = static_cast<size_t>(command->key_step);
  for (size_t i = 1; i < views_.size(); i += step) {
    if (!has_key || views_[i] != request_->keys[0]) {
      text_ = "ERR a script uses the key that EVAL declares, and no other one, in Gossamer: ";
      text_ += has_key ? "not '" + std::string(views_[i]) + "'" : "it declares none";
      return text_;
    }
    if (command->last_key == 1) break;
  }
  if (command->is_write && request_->is_read_only) {
    return "ERR Write commands are not allowed from read-only scripts.";
  }
  const bool is_mget = command->id == CommandId::kMget;
  const bool is_sum = command->id == CommandId::kExists || command->id == CommandId::kDel;
  ReplyWriter reply(result_, false);
  const auto apply = [&] { effect_ = std::max(effect_, change_.Apply(*state_)); };
  if (is_mget || is_sum) {
    if (is_mget) reply.Array(views_.size() - 1);
    int64_t sum = 0;
    for (size_t i = 1; i < views_.size(); ++i) {
      change_.ParseKey(command->id, views_[i]);
      apply();
      if (is_mget) change_.Answer(reply);
      sum += change_.number();
    }
    if (is_sum) reply.Integer(sum);
  } else if (command->id == CommandId::kMset) {
    if (views_.size() % 2 == 0) return text_ = WrongNumberOfArguments(command->name);
    for (size_t i = 1; i < views_.size(); i += 2) {
      change_.ParseSet(views_[i], views_[i + 1], {});
      apply();
    }
    reply.Ok();
  } else {
    text_ = change_.Parse(*command, views_, false);
    if (!text_.empty()) return text_;
    apply();
    change_.Answer(reply);
  }
  return {};
}

void ScriptEngine::PushReply(lua_State* lua, size_t& at) {
  const size_t end = result_.find("\r\n", at);
  const std::string_view line = std::string_view(result_).substr(at + 1, end - at - 1);
  const char kind = result_[at];
  at = end + 2;
  int64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  switch (kind) {
    case ':': lua_pushnumber(lua, static_cast<double>(number)); return;
    case '+': PushField(lua, "ok", line); return;
    case '-': PushField(lua, "err", line); return;
    case '$':
      if (number < 0) {
        lua_pushboolean(lua, 0);
      } else {
        lua_pushlstring(lua, result_.data() + at, static_cast<size_t>(number));
        at += static_cast<size_t>(number) + 2;
      }
      return;
    default:
      if (number < 0) {
        lua_pushboolean(lua, 0);
        return;
      }
      lua_createtable(lua, static_cast<int>(number), 0);
      for (int i = 1; i <= number; ++i) {
        PushReply(lua, at);
        lua_rawseti(lua, -2, i);
      }
  }
}

// ---- A run

std::string ScriptEngine::Push(const Script& script) {
  lua_State* const lua = lua_.get();
  if (const auto known = functions_.find(script.number); known != functions_.end()) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, known->second);
    return {};
  }
  const bool is_compiled = script.source.starts_with('\x1b');
  const int loaded =
      is_compiled ? LUA_ERRSYNTAX
                  : luaL_loadbuffer(lua, script.source.data(), script.source.size(), kChunkName);
  if (loaded != 0) {
    std::string why = "ERR Error compiling script (new function): ";
    why += is_compiled ? "only source code can be loaded" : TextAt(lua, -1);
    lua_settop(lua, 0);
    return why;
  }
  lua_rawgeti(lua, LUA_REGISTRYINDEX, environment_);
  lua_setfenv(lua, -2);
  lua_pushvalue(lua, -1);
  const int reference = luaL_ref(lua, LUA_REGISTRYINDEX);
  functions_.emplace(script.number, reference);
  return {};
}

std::string ScriptEngine::Check(const Script& script) {
  if (functions_.size() >= kMostFunctions || bytes_ > kMostBytes / 2) Begin();
  std::string why = Push(script);
  lua_settop(lua_.get(), 0);
  return why;
}

void ScriptEngine::PushWords(const std::vector<std::string_view>& words) {
  lua_State* const lua = lua_.get();
  lua_createtable(lua, static_cast<int>(words.size()), 0);
  for (size_t i = 0; i < words.size(); ++i) {
    lua_pushlstring(lua, words[i].data(), words[i].size());
    lua_rawseti(lua, -2, static_cast<int>(i + 1));
  }
}

int ScriptEngine::RunScript(lua_State* lua) {
  ScriptEngine& engine = Of(lua);
  const Request& request = *engine.request_;
  engine.text_ = engine.Push(request.script);
  if (!engine.text_.empty()) {
    *engine.reply_ = "-" + engine.text_ + "\r\n";
    return 0;
  }
  lua_rawgeti(lua, LUA_REGISTRYINDEX, engine.globals_);
  engine.PushWords(request.keys);
  lua_setfield(lua, -2, "KEYS");
  engine.PushWords(request.arguments);
  lua_setfield(lua, -2, "ARGV");
  lua_pop(lua, 1);
  lua_sethook(lua, CountInstructions, LUA_MASKCOUNT, kMostInstructions);
  lua_rawgeti(lua, LUA_REGISTRYINDEX, engine.note_line_);
  lua_insert(lua, 1);
  const int ended = lua_pcall(lua, 0, 1, 1);
  lua_sethook(lua, nullptr, 0, 0);
  if (ended == 0) {
    engine.AppendReply(0, *engine.reply_);
  } else {
    engine.AppendError(request.script, *engine.reply_);
  }
  return 0;
}

Effect ScriptEngine::Run(const Request& request, ValueChange::State& state, std::string& reply) {
  if (functions_.size() >= kMostFunctions || bytes_ > kMostBytes / 2) Begin();
  reply.clear();
  request_ = &request;
  state_ = &state;
  effect_ = Effect::kNone;
  is_out_of_time_ = false;
  line_ = 0;
  random_ = 0;
  lua_State* const lua = lua_.get();
  reply_ = &reply;
  // In a protected call of its own: Lua may be out of memory anywhere.
  lua_rawgeti(lua, LUA_REGISTRYINDEX, run_script_);
  if (lua_pcall(lua, 0, 0, 0) != 0) {
    reply.clear();
    AppendError(request.script, reply);
  }
  lua_sethook(lua, nullptr, 0, 0);
  lua_settop(lua, 0);
  if (bytes_ > kMostBytes / 8) lua_gc(lua, LUA_GCCOLLECT, 0);
  request_ = nullptr;
  state_ = nullptr;
  reply_ = nullptr;
  return effect_;
}

void ScriptEngine::AppendError(const Script& script, std::string& reply) {
  lua_State* const lua = lua_.get();
  text_.clear();
  if (lua_istable(lua, -1)) {
    // Without metamethods: nothing catches their errors here.
    lua_pushliteral(lua, "err");
    lua_rawget(lua, -2);
    text_ = TextAt(lua, -1);
  } else {
    const std::string_view why = TextAt(lua, -1);
    text_ = "ERR ";
    text_ += why.empty() ? "unknown error" : why;
  }
  text_ += " script: " + script.sha1 + ", on @user_script:" + std::to_string(line_) + ".";
  ReplyWriter(reply, request_->is_resp3).Error(text_);
}

void ScriptEngine::AppendReply(int depth, std::string& reply) {
  lua_State* const lua = lua_.get();
  ReplyWriter writer(reply, request_->is_resp3);
  luaL_checkstack(lua, 4, "a reply that is nested too deep");
  switch (lua_type(lua, -1)) {
    case LUA_TNUMBER: writer.Integer(ToInteger(lua_tonumber(lua, -1))); break;
    case LUA_TSTRING: writer.Bulk(TextAt(lua, -1)); break;
    case LUA_TBOOLEAN:
      if (lua_toboolean(lua, -1) != 0) {
        writer.Integer(1);
      } else {
        writer.Null();
      }
      break;
    case LUA_TTABLE: {
      if (depth == kDeepestReply) {
        writer.Error("ERR reached lua stack limit");
        break;
      }
      for (const char* const name : {"err", "ok"}) {
        lua_pushstring(lua, name);
        lua_rawget(lua, -2);
        if (lua_type(lua, -1) != LUA_TSTRING) {
          lua_pop(lua, 1);
          continue;
        }
        const std::string_view text = TextAt(lua, -1);
        *name == 'e' ? writer.Error(text)
                     : writer.Simple(text.substr(0, text.find_first_of("\r\n")));
        lua_pop(lua, 1);
        return;
      }
      size_t count = 0;
      for (;; ++count) {
        lua_rawgeti(lua, -1, static_cast<int>(count + 1));
        const bool is_end = lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (is_end) break;
      }
      writer.Array(count);
      for (size_t i = 1; i <= count; ++i) {
        lua_rawgeti(lua, -1, static_cast<int>(i));
        AppendReply(depth + 1, reply);
        lua_pop(lua, 1);
      }
      break;
    }
    default: writer.Null();
  }
}

}  // namespace gossamer::gateway
