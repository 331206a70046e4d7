// Scripts, on the state of one key, without a store.
#include "compute/gateway/script/script.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "compute/gateway/script/script_engine.h"

namespace gossamer::gateway {
namespace {

using State = ValueChange::State;
using Effect = ValueChange::Effect;
constexpr uint64_t kNowMs = 1'700'000'000'000;

class ScriptTest : public ::testing::Test {
 protected:
  // The reply to a script of the key `k`.
  std::string Eval(const std::string& source, std::vector<std::string> arguments = {},
                   std::vector<std::string> keys = {"k"}) {
    std::vector<std::string_view> words{"eval", source};
    const std::string count = std::to_string(keys.size());
    words.emplace_back(count);
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::string refusal;
    const auto call = scripts_.Call(*FindCommand("eval"), words, is_resp3_, refusal);
    if (call == nullptr) return "refused: " + refusal;
    effect_ = call->Run(state_);
    return std::string(call->reply());
  }
  // What `return EXPRESSION` gives.
  std::string Value(const std::string& expression) { return Eval("return " + expression); }

  ScriptCache scripts_;
  State state_{.value = {}, .expiry = {}, .now_ms = kNowMs};
  Effect effect_ = Effect::kNone;
  bool is_resp3_ = false;
};

TEST_F(ScriptTest, GivesWhatLuaReturns) {
  EXPECT_EQ(Value("1"), ":1\r\n");
  EXPECT_EQ(Value("3.99"), ":3\r\n");
  EXPECT_EQ(Value("'a\\r\\nb'"), "$4\r\na\r\nb\r\n");
  EXPECT_EQ(Value("true"), ":1\r\n");
  EXPECT_EQ(Value("false"), "$-1\r\n");
  EXPECT_EQ(Value("nil"), "$-1\r\n");
  EXPECT_EQ(Value("{1,'b',{3},nil,5}"), "*3\r\n:1\r\n$1\r\nb\r\n*1\r\n:3\r\n");
  EXPECT_EQ(Value("{ok='FINE'}"), "+FINE\r\n");
  EXPECT_EQ(Value("{err='MY no'}"), "-MY no\r\n");
  EXPECT_EQ(Value("redis.status_reply('S')"), "+S\r\n");
  EXPECT_EQ(Value("redis.error_reply('MY no')"), "-MY no\r\n");
  EXPECT_EQ(Value("redis.error_reply('no')"), "-ERR no\r\n");
  EXPECT_EQ(Eval("return {KEYS[1], ARGV[1], ARGV[2], #ARGV}", {"x", "y"}),
            "*4\r\n$1\r\nk\r\n$1\r\nx\r\n$1\r\ny\r\n:2\r\n");
  is_resp3_ = true;
  EXPECT_EQ(Value("nil"), "_\r\n");
}

TEST_F(ScriptTest, UsesItsKey) {
  EXPECT_EQ(Eval("return redis.call('set', KEYS[1], ARGV[1], 'PX', 5000)", {"v"}), "+OK\r\n");
  EXPECT_EQ(effect_, Effect::kWritten);
  EXPECT_EQ(state_.value, "v");
  EXPECT_EQ(state_.expiry, Expiry::At(kNowMs + 5000));
  EXPECT_EQ(Value("redis.call('get', KEYS[1])"), "$1\r\nv\r\n");
  EXPECT_EQ(effect_, Effect::kNone);
  EXPECT_EQ(Value("redis.call('pexpire', KEYS[1], 9000)"), ":1\r\n");
  EXPECT_EQ(effect_, Effect::kTouched);
  EXPECT_EQ(Value("redis.call('PTTL', KEYS[1])"), ":9000\r\n");
  EXPECT_EQ(Value("{redis.call('exists', KEYS[1], KEYS[1]), redis.call('strlen', KEYS[1])}"),
            "*2\r\n:2\r\n:1\r\n");
  EXPECT_EQ(Value("redis.call('mget', KEYS[1])[1]"), "$1\r\nv\r\n");
  EXPECT_EQ(Value("redis.call('type', KEYS[1]).ok"), "$6\r\nstring\r\n");
  EXPECT_EQ(Value("redis.call('del', KEYS[1])"), ":1\r\n");
  EXPECT_EQ(Value("redis.call('get', KEYS[1]) == false"), ":1\r\n");
  EXPECT_EQ(Value("redis.call('incrby', KEYS[1], 3) + 1"), ":4\r\n");
  EXPECT_EQ(Value("redis.call('time')[1]"), "$10\r\n1700000000\r\n");
}

// As their libraries send them.
TEST_F(ScriptTest, RunsTheScriptsOfLocks) {
  const std::string release =
      "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else "
      "return 0 end";
  const std::string extend =
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], "
      "ARGV[2]) else return 0 end";
  const std::string add =
      "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
  EXPECT_EQ(Eval(add, {"mine", "10"}), "+OK\r\n");
  EXPECT_EQ(Eval(add, {"other", "10"}), "$-1\r\n");
  EXPECT_EQ(Eval(extend, {"other", "7000"}), ":0\r\n");
  EXPECT_EQ(Eval(extend, {"mine", "7000"}), ":1\r\n");
  EXPECT_EQ(state_.expiry, Expiry::At(kNowMs + 7000));
  EXPECT_EQ(Eval(release, {"other"}), ":0\r\n");
  EXPECT_EQ(Eval(release, {"mine"}), ":1\r\n");
  EXPECT_FALSE(state_.value);
}

TEST_F(ScriptTest, TellsOfErrors) {
  EXPECT_TRUE(Eval("return +").starts_with("refused: ERR Error compiling script"));
  const std::string error = Eval("\nerror('why')");
  EXPECT_TRUE(error.starts_with("-ERR user_script:2: why script: ")) << error;
  EXPECT_TRUE(error.ends_with(", on @user_script:2.\r\n")) << error;
  EXPECT_TRUE(Eval("error({err='MY why'})").starts_with("-MY why script: "));
  EXPECT_TRUE(Eval("return redis.call('incr')").starts_with("-ERR Wrong number of args calling"));
  EXPECT_TRUE(Eval("return redis.call('nonsense')").starts_with("-ERR Unknown Redis command"));
  EXPECT_TRUE(Eval("return redis.call('get', 'other')").starts_with("-ERR a script uses the key"));
  EXPECT_TRUE(Eval("return redis.call('get', 'k')", {}, {}).starts_with("-ERR a script uses the"));
  EXPECT_TRUE(Eval("return redis.call('keys', '*')").starts_with("-ERR This Redis command is not"));
  EXPECT_TRUE(Eval("return redis.call({})").starts_with("-ERR Lua redis lib command arguments"));
  EXPECT_EQ(Value("redis.pcall('incr').err"),
            "$58\r\nERR Wrong number of args calling Redis command from script\r\n");
  EXPECT_TRUE(Eval("return 1", {}, {"a", "b"}).starts_with("refused: ERR a script has at most"));
  const std::string evil = "local function f() error(setmetatable({}, {__index = f})) end f()";
  EXPECT_TRUE(Eval(evil).starts_with("-"));
  EXPECT_TRUE(
      Eval("error(setmetatable({}, {__index = function() error({}) end}))").starts_with("-"));
  // What was done before stays, as in Redis.
  EXPECT_TRUE(Eval("redis.call('set', KEYS[1], 'half'); error('x')").starts_with("-ERR"));
  EXPECT_EQ(state_.value, "half");
  EXPECT_EQ(effect_, Effect::kWritten);
}

TEST_F(ScriptTest, LeavesNothingBehind) {
  for (const std::string bad :
       {"x = 1", "_G.x = 1", "string.upper = nil", "redis.call = nil", "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)", "setmetatable(_G, {})", "getmetatable('').__index.upper = nil",
        "return undefined", "return loadfile", "return dofile", "return io", "return require",
        "return newproxy", "return setfenv", "return debug", "return string.dump(function() end)",
        "return load(string.char(27))()"}) {
    EXPECT_TRUE(Eval(bad).starts_with("-")) << bad << ": " << Eval(bad);
  }
  EXPECT_EQ(Value("('a'):upper() .. string.upper('b')"), "$2\r\nAB\r\n");
  EXPECT_EQ(Value("loadstring('return 1 + 1')()"), ":2\r\n");
  EXPECT_TRUE(Eval("loadstring('y = 1')()").starts_with("-"));
  EXPECT_EQ(Value("math.random() == math.random()"), "$-1\r\n");
  EXPECT_EQ(Value("math.random(1000000)"), Value("math.random(1000000)"));
  EXPECT_EQ(Value("math.random(7, 7)"), ":7\r\n");
}

TEST_F(ScriptTest, EndsWhatTakesTooMuch) {
  EXPECT_TRUE(Eval("while true do end").starts_with("-ERR the script takes too long"));
  EXPECT_TRUE(
      Eval("while true do pcall(function() while true do end end) end").starts_with("-ERR"));
  EXPECT_TRUE(Eval("coroutine.wrap(function() while true do end end)()").starts_with("-ERR"));
  EXPECT_TRUE(Eval("return string.rep('x', 1e9)").starts_with("-ERR"));
  EXPECT_TRUE(Eval("local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end")
                  .starts_with("-ERR"));
  EXPECT_TRUE(Eval("local function f() return 1 + f() end return f()").starts_with("-ERR"));
  EXPECT_EQ(Value("1"), ":1\r\n");
}

TEST_F(ScriptTest, HasTheLibrariesOfRedis) {
  EXPECT_EQ(Value("cjson.encode({1,'a/b',true,cjson.null,{x={}}})"),
            "$29\r\n[1,\"a\\/b\",true,null,{\"x\":{}}]\r\n");
  EXPECT_EQ(Value("cjson.decode('{\"a\":[1,2.5,\"z\"]}').a[3]"), "$1\r\nz\r\n");
  EXPECT_EQ(Value("cjson.decode('[null]')[1] == cjson.null"), ":1\r\n");
  EXPECT_TRUE(Eval("return cjson.decode('[')").starts_with("-ERR"));
  EXPECT_EQ(Value("cmsgpack.pack({1,-1,'a',300,{x=1.5}})"),
            "$16\r\n\x95\x01\xff\xa1"
            "a\xcd\x01\x2c\x81\xa1x\xca\x3f\xc0" +
                std::string(2, '\0') + "\r\n");
  EXPECT_EQ(Value("cmsgpack.unpack(cmsgpack.pack({1,{a='b'}}))[2].a"), "$1\r\nb\r\n");
  EXPECT_EQ(Value("bit.band(0xff, 0x0f) + bit.lshift(1, 4)"), ":31\r\n");
  EXPECT_EQ(Value("bit.tohex(-1)"), "$8\r\nffffffff\r\n");
  EXPECT_EQ(Value("redis.sha1hex('')"), "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n");
}

TEST_F(ScriptTest, IsKnownByItsDigest) {
  std::string refusal;
  const auto script = scripts_.Load("return 7", refusal);
  ASSERT_NE(script, nullptr);
  EXPECT_TRUE(scripts_.Has(script->sha1));
  const std::vector<std::string_view> words{"evalsha", script->sha1, "0"};
  const auto call = scripts_.Call(*FindCommand("evalsha"), words, false, refusal);
  ASSERT_NE(call, nullptr);
  // By another thread, which has not seen it.
  std::thread([&] { call->Run(state_); }).join();
  EXPECT_EQ(call->reply(), ":7\r\n");
  scripts_.Clear();
  EXPECT_EQ(scripts_.Call(*FindCommand("evalsha"), words, false, refusal), nullptr);
  EXPECT_TRUE(refusal.starts_with("NOSCRIPT"));
}

}  // namespace
}  // namespace gossamer::gateway
