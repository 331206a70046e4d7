#include "compute/gateway/commands/value_change.h"

#include <gtest/gtest.h>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

TEST(ValueChangeTest, TakesIntegersAsRedisDoes) {
  EXPECT_EQ(ParseInteger("0"), 0);
  EXPECT_EQ(ParseInteger("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const std::string_view text :
       {"", "-", "+1", " 1", "1 ", "01", "-0", "1.0", "0x1", "9223372036854775808", "1\n"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(ValueChangeTest, CutsRangesAsRedisDoes) {
  EXPECT_EQ(RangeOf("Hello", 0, -1), "Hello");
  EXPECT_EQ(RangeOf("Hello", 1, 3), "ell");
  EXPECT_EQ(RangeOf("Hello", -3, -2), "ll");
  EXPECT_EQ(RangeOf("Hello", -100, 1), "He");
  EXPECT_EQ(RangeOf("Hello", 3, 100), "lo");
  EXPECT_EQ(RangeOf("Hello", 3, 1), "");
  EXPECT_EQ(RangeOf("Hello", 5, 9), "");
  EXPECT_EQ(RangeOf("Hello", -1, -5), "");
  EXPECT_EQ(RangeOf("", 0, -1), "");
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(RangeOf("Hello", kLeast, kMost), "Hello");
  EXPECT_EQ(RangeOf("Hello", kMost, kLeast), "");
}

std::string AfterFloat(std::string_view value, std::string_view by) {
  const std::vector<std::string_view> arguments = {"incrbyfloat", "k", by};
  ValueChange change;
  EXPECT_EQ(change.Parse(*FindCommand("incrbyfloat"), arguments, false), "");
  ValueChange::State state{std::string(value), {}, 0};
  change.Apply(state);
  return *state.value;
}

TEST(ValueChangeTest, PrintsFloatsAsRedisDoes) {
  EXPECT_EQ(AfterFloat("10.50", "0.1"), "10.6");
  EXPECT_EQ(AfterFloat("10.6", "-5"), "5.6");
  EXPECT_EQ(AfterFloat("5.0e3", "2.0e2"), "5200");
  EXPECT_EQ(AfterFloat("3", "-3"), "0");
  EXPECT_EQ(AfterFloat("1", "-1.5"), "-0.5");
}

TEST(ValueChangeTest, TakesFloatsAsRedisDoes) {
  for (const std::string_view text : {"", " 1", "1 ", "x", "nan", "1e99999", "1e-99999", "1,5"}) {
    const std::vector<std::string_view> arguments = {"incrbyfloat", "k", text};
    ValueChange change;
    EXPECT_EQ(change.Parse(*FindCommand("incrbyfloat"), arguments, false), "");
    ValueChange::State state;
    EXPECT_EQ(change.Apply(state), KeyEffect::kNone);
    std::string replies;
    ReplyWriter reply(replies, false);
    change.Answer(reply);
    EXPECT_EQ(replies, "-ERR value is not a valid float\r\n") << text;
  }
}

TEST(ValueChangeTest, AreDoneOneAfterTheOtherAndAnew) {
  ValueChange increment;
  ValueChange get_del;
  ValueChange append;
  const std::vector<std::string_view> appends = {"append", "k", "x"};
  const std::vector<std::string_view> takes = {"getdel", "k"};
  increment.Parse(*FindCommand("incr"), takes, false);
  get_del.Parse(*FindCommand("getdel"), takes, false);
  append.Parse(*FindCommand("append"), appends, false);
  const std::vector<ValueChange*> all = {&increment, &get_del, &append};
  ChangeMemory memory;
  KeyChanges changes(increment, {.now_ms = 0, .max_key_bytes = 250}, memory);
  changes.Add(get_del);
  changes.Add(append);
  for (const std::string_view value : {"5", "7"}) {
    const ValueModifier::Change change = changes.Modify(value, {});
    EXPECT_EQ(change.kind, ValueModifier::Kind::kPut);
    EXPECT_EQ(change.value, "x");
    std::string replies;
    ReplyWriter reply(replies, false);
    for (const ValueChange* one : all) one->Answer(reply);
    EXPECT_EQ(replies, value == "5" ? ":6\r\n$1\r\n6\r\n:1\r\n" : ":8\r\n$1\r\n8\r\n:1\r\n");
  }
}

// What is put off is not done, and is done once others have given memory back.
TEST(ValueChangeTest, WaitsForMemoryOfOthers) {
  ChangeMemory memory;
  ValueChange append;
  append.Parse(*FindCommand("append"), {"append", "k", "x"}, false);
  KeyChanges changes(append, {.now_ms = 0, .max_key_bytes = 250}, memory);
  const std::string value(1000, 'v');
  {
    ChangeMemory::Holding others = memory.OfValues();
    ASSERT_TRUE(others.Take(ChangeMemory::kMostBytes - 1999));
    EXPECT_EQ(changes.Modify(value, {}).kind, ValueModifier::Kind::kKeep);
    EXPECT_EQ(changes.outcome(), KeyChanges::Outcome::kPutOff);
    changes.NeverPutOff();
    EXPECT_EQ(changes.Modify(value, {}).kind, ValueModifier::Kind::kPut);
    EXPECT_EQ(changes.outcome(), KeyChanges::Outcome::kDone);
  }
  EXPECT_TRUE(memory.OfValues().Take(ChangeMemory::kMostBytes));
}

TEST(ValueChangeTest, RefusesAnswersThatAreTooLongTogether) {
  ChangeMemory memory;
  ValueChange get_del;
  get_del.Parse(*FindCommand("getdel"), {"getdel", "k"}, false);
  const std::string value(1000, 'v');
  ChangeMemory::Holding others = memory.OfReplies();
  ASSERT_TRUE(others.Take(ChangeMemory::kMostBytes - 999));
  {
    KeyChanges changes(get_del, {.now_ms = 0, .max_key_bytes = 250}, memory);
    EXPECT_EQ(changes.Modify(value, {}).kind, ValueModifier::Kind::kKeep);
    changes.SetResult(Ok());
    EXPECT_EQ(get_del.result.error().code, Code::kContended);
    others.GiveBack();
    EXPECT_EQ(changes.Modify(value, {}).kind, ValueModifier::Kind::kDelete);
    EXPECT_EQ(changes.answer_bytes(), 1000u);
    changes.SetResult(Ok());
    EXPECT_TRUE(get_del.result);
    EXPECT_FALSE(memory.OfReplies().Take(ChangeMemory::kMostBytes)) << "until it is answered";
  }
  EXPECT_TRUE(memory.OfReplies().Take(ChangeMemory::kMostBytes));
}

}  // namespace
}  // namespace gossamer::gateway
