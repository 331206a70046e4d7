// RENAME, RENAMENX, COPY and MSETNX beside other writers of the same keys.
#include "compute/gateway/worker/key_move.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "compute/store/open_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer::gateway {
namespace {

class KeyMoveTest : public testing::Test {
 protected:
  KeyMoveTest() {
    LocalOptions options;
    options.memory_bytes = uint64_t{64} << 20;
    store_ = Store::OpenLocal(options).value();
    session_ = store_->NewSession().value();
  }
  Session& session() { return *session_; }
  std::string Run(const std::vector<std::string_view>& words) {
    Result<KeyMove> move = KeyMove::Parse(*FindCommand(words[0]), words);
    if (!move) return move.error().message;
    std::string out;
    session_->Spawn(move.value().Run(session(), out, false));
    session_->WaitAll();
    return out;
  }
  std::string Value(std::string_view key) {
    const Result<std::string> value = session().Get(key);
    return value ? value.value() : value.error().code == Code::kNotFound ? "-" : "?";
  }

 private:
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

TEST_F(KeyMoveTest, ARenamedKeyKeepsValueAndTime) {
  const Expiry hour = Expiry::At(session().StoreTimeMs() + 3'600'000);
  for (const std::string& value : {std::string("v"), std::string(100'000, 'v')}) {
    for (const Expiry& expiry : {Expiry::Never(), hour, hour.OfComposite()}) {
      ASSERT_TRUE(session().Put("a", value, expiry));
      ASSERT_TRUE(session().Put("b", "old"));
      EXPECT_EQ(Run({"renamenx", "a", "b"}), ":0\r\n");
      EXPECT_EQ(Run({"copy", "a", "b"}), ":0\r\n");
      EXPECT_EQ(Value("b"), "old");
      EXPECT_EQ(Run({"rename", "a", "b"}), "+OK\r\n");
      EXPECT_EQ(Value("a"), "-");
      EXPECT_EQ(session().GetWithExpiry("b").value().value, value);
      EXPECT_EQ(session().GetWithExpiry("b").value().expiry, expiry);
      EXPECT_EQ(Run({"renamenx", "b", "a"}), ":1\r\n");
      EXPECT_EQ(Run({"copy", "a", "b"}), ":1\r\n");
      EXPECT_EQ(Run({"copy", "a", "b", "replace"}), ":1\r\n");
      EXPECT_EQ(session().GetWithExpiry("a").value().expiry, expiry);
      EXPECT_EQ(session().GetWithExpiry("b").value().expiry, expiry);
    }
  }
}

TEST_F(KeyMoveTest, NothingComesOfAnAbsentKey) {
  EXPECT_EQ(Run({"rename", "a", "b"}), "-ERR no such key\r\n");
  EXPECT_EQ(Run({"renamenx", "a", "b"}), "-ERR no such key\r\n");
  EXPECT_EQ(Run({"rename", "a", "a"}), "-ERR no such key\r\n");
  EXPECT_EQ(Run({"copy", "a", "b"}), ":0\r\n");
  EXPECT_EQ(Run({"copy", "a", "a"}), "ERR source and destination objects are the same");
  EXPECT_EQ(Run({"copy", "a", "b", "db", "1"}), "ERR DB index is out of range");
  ASSERT_TRUE(session().Put("a", "1"));
  EXPECT_EQ(Run({"rename", "a", "a"}), "+OK\r\n");
  EXPECT_EQ(Run({"renamenx", "a", "a"}), ":0\r\n");
  EXPECT_EQ(Value("a"), "1");
}

TEST_F(KeyMoveTest, MsetnxSetsAllOrNone) {
  EXPECT_EQ(Run({"msetnx", "a", "1", "b", "2", "a", "3"}), ":1\r\n");
  EXPECT_EQ(Value("a"), "3");
  EXPECT_EQ(Run({"msetnx", "c", "1", "b", "3"}), ":0\r\n");
  EXPECT_EQ(Value("c"), "-");
  EXPECT_EQ(Value("b"), "2");
  EXPECT_EQ(Run({"msetnx", "c"}), "ERR wrong number of arguments for 'msetnx' command");
}

// Increments of a key that is renamed to and fro, under one of its names: none is lost.
TEST_F(KeyMoveTest, AWriteBetweenTheStepsIsMovedToo) {
  class Increment final : public ValueModifier {
   public:
    Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
      was_there_ = value.has_value();
      if (!value) return {};
      text_ = std::to_string(std::stoi(std::string(*value)) + 1);
      return {Kind::kPut, text_, expiry};
    }
    bool was_there() const { return was_there_; }

   private:
    std::string text_;
    bool was_there_ = false;
  };
  ASSERT_TRUE(session().Put("a", "0"));
  bool has_ended = false;
  int done = 0;
  const auto rename = [&]() -> Task<void> {
    for (int i = 0; i < 2000; ++i) {
      Result<KeyMove> move = KeyMove::Parse(
          *FindCommand("rename"), {"rename", i % 2 == 0 ? "a" : "b", i % 2 == 0 ? "b" : "a"});
      std::string out;
      co_await move.value().Run(session(), out, false);
      EXPECT_EQ(out, "+OK\r\n");
    }
    has_ended = true;
  };
  const auto increment = [&]() -> Task<void> {
    while (!has_ended) {
      Increment one;
      const Status status = co_await session().AsyncModify("a", one);
      EXPECT_TRUE(status);
      done += one.was_there() ? 1 : 0;
      // A key that is written all the time is not renamed.
      for (int i = 0; i < 5; ++i) EXPECT_FALSE(co_await session().AsyncGet("c"));
    }
  };
  session().Spawn(rename());
  session().Spawn(increment());
  session().WaitAll();
  EXPECT_GT(done, 0);
  EXPECT_EQ(Value("b"), "-");
  EXPECT_EQ(Value("a"), std::to_string(done));
}

}  // namespace
}  // namespace gossamer::gateway
