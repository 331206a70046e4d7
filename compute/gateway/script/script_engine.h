// ScriptEngine: runs Lua 5.1 scripts for Redis clients, as Redis does, on the value of one key.
//
// A script sees what Redis gives it: redis.call and its kin, cjson, cmsgpack, bit, and of Lua's
// libraries those without files and processes. It can neither change these nor leave globals
// behind. It runs under the lock of its key: so it has at most kMostInstructions instructions, and
// kMostBytes of memory.
//
// Thread-safety: none; one for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/gateway/commands/value_change.h"

struct lua_State;
struct lua_Debug;

namespace gossamer::gateway {

struct Script;

class ScriptEngine {
 public:
  static constexpr int kMostInstructions = 5'000'000;
  static constexpr size_t kMostBytes = size_t{64} << 20;

  struct Request {
    const Script& script;
    const std::vector<std::string_view>& keys;
    const std::vector<std::string_view>& arguments;
    bool is_read_only;
    bool is_resp3;
  };

  ScriptEngine();
  ScriptEngine(const ScriptEngine&) = delete;
  ScriptEngine& operator=(const ScriptEngine&) = delete;
  ~ScriptEngine();
  static ScriptEngine& OfThread();

  // Returns the error reply, without the '-', if the script is no Lua; else "".
  std::string Check(const Script& script);
  // Runs the script on `state`, and sets `reply`.
  ValueChange::Effect Run(const Request& request, ValueChange::State& state, std::string& reply);

 private:
  struct Close {
    void operator()(lua_State* lua) const;
  };

  // Called by Lua, which knows the engine by its registry.
  static ScriptEngine& Of(lua_State* lua);
  static void* Allocate(void* engine, void* block, size_t old_bytes, size_t bytes);
  static void CountInstructions(lua_State* lua, lua_Debug* activation);
  static int Call(lua_State* lua);
  static int ProtectedCall(lua_State* lua);
  static int ErrorReply(lua_State* lua);
  static int StatusReply(lua_State* lua);
  static int Sha1(lua_State* lua);
  static int Log(lua_State* lua);
  static int SetResp(lua_State* lua);
  static int RandomNumber(lua_State* lua);
  static int SeedRandom(lua_State* lua);
  static int LoadText(lua_State* lua);
  // Notes the line of an error that ends the script.
  static int NoteLine(lua_State* lua);
  static int OpenLibraries(lua_State* lua);
  // Runs the script of request_, and sets reply_.
  static int RunScript(lua_State* lua);

  void Begin();
  // Leaves the script's function on the stack. Returns as Check.
  std::string Push(const Script& script);
  void PushWords(const std::vector<std::string_view>& words);
  // Does the command whose words are in views_. Appends the reply to result_, or returns an error.
  std::string_view ExecuteCommand();
  int RunCommand(lua_State* lua, bool raises);
  // Pushes the reply in result_, from `at` on.
  void PushReply(lua_State* lua, size_t& at);
  // Appends what is on top of the stack to `reply`.
  void AppendReply(int depth, std::string& reply);
  void AppendError(const Script& script, std::string& reply);

  std::unique_ptr<lua_State, Close> lua_;
  size_t bytes_ = 0;
  // References in Lua's registry.
  int globals_ = 0;      // what scripts see, with KEYS and ARGV
  int environment_ = 0;  // through which they see it
  int note_line_ = 0;
  int run_script_ = 0;
  std::unordered_map<uint64_t, int> functions_;  // that it has compiled, by their scripts' numbers
  uint64_t random_ = 0;

  // Of the run. What Lua's functions need outlives their frames, as an error of Lua leaves these by
  // a jump.
  const Request* request_ = nullptr;
  ValueChange::State* state_ = nullptr;
  std::string* reply_ = nullptr;
  ValueChange::Effect effect_ = ValueChange::Effect::kNone;
  bool is_out_of_time_ = false;
  int line_ = 0;  // where it has failed
  std::vector<std::string_view> views_;
  ValueChange change_;
  std::string result_;
  std::string text_;
};

}  // namespace gossamer::gateway
