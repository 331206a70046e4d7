#include "compute/gateway/commands/composite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "compute/gateway/commands/value_change.h"

namespace gossamer::gateway {
namespace {

using Model = std::vector<std::pair<std::string, std::string>>;  // in the order in which they came

std::string RandomText(Random& random) {
  constexpr size_t kLengths[] = {0, 1, 2, 3, 127, 128, 129, 20'000};
  const size_t length = kLengths[random.Below(random.Below(10) == 0 ? 8 : 4)];
  return std::string(length, static_cast<char>('a' + random.Below(8)));
}

void ExpectHolds(CompositeType type, std::string_view bytes, const Model& model) {
  CompositeView view(type, bytes);
  EXPECT_EQ(view.count(), model.size());
  for (const auto& [name, value] : model) {
    const std::optional<CompositeItem> item = view.Next();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->name, name);
    EXPECT_EQ(item->value, value);
    EXPECT_EQ(CompositeView(type, bytes).Find(name)->value, value);
  }
  EXPECT_FALSE(view.Next().has_value());
  EXPECT_TRUE(view.has_ended());
}

class CompositeTest : public testing::TestWithParam<CompositeType> {};

TEST_P(CompositeTest, HoldsWhatAModelHolds) {
  const CompositeType type = GetParam();
  Random random(7);
  std::string bytes;
  Model model;
  for (int round = 0; round < 2000; ++round) {
    std::optional<CompositeEdit> edit = CompositeEdit::Of(
        type, bytes.empty() ? std::nullopt : std::optional<std::string_view>(bytes));
    ASSERT_TRUE(edit.has_value());
    std::vector<std::string> texts;
    texts.reserve(64);
    for (uint64_t change = random.Below(30); change > 0; --change) {
      const std::string& name = texts.emplace_back(RandomText(random));
      const auto known =
          std::ranges::find_if(model, [&](const auto& pair) { return pair.first == name; });
      const std::optional<size_t> place = edit->Find(name);
      ASSERT_EQ(place.has_value(), known != model.end());
      if (place && random.Below(2) == 0) {
        ASSERT_EQ(edit->ValueAt(*place), known->second);
        edit->Remove(*place);
        model.erase(known);
        continue;
      }
      const std::string& value =
          texts.emplace_back(type == CompositeType::kHash ? RandomText(random) : "");
      ASSERT_EQ(edit->Set(name, value), known == model.end());
      if (known == model.end()) {
        model.emplace_back(name, value);
      } else {
        known->second = value;
      }
    }
    ASSERT_EQ(edit->count(), model.size());
    for (size_t i = 0; i < model.size(); ++i) {
      ASSERT_EQ(edit->NameAt(edit->PlaceOf(i)), model[i].first);
    }
    bytes = edit->Encode();
    ASSERT_EQ(bytes.size(), edit->bytes());
    ASSERT_NO_FATAL_FAILURE(ExpectHolds(type, bytes, model));
  }
}

// Another program may have put anything. On the heap at its exact size, so that the address
// sanitizer detects every access out of bounds.
TEST_P(CompositeTest, BytesThatAreCutOrChangedAreRefusedOrInBounds) {
  const CompositeType type = GetParam();
  std::optional<CompositeEdit> edit = CompositeEdit::Of(type, std::nullopt);
  const std::string long_text(300, 'x');
  for (const std::string_view name : {"a", "", "field", "another field"})
    edit->Set(name, long_text);
  const std::string whole = edit->Encode();
  const auto look = [type](const std::string& text) {
    const std::vector<char> bytes(text.begin(), text.end());
    const std::string_view all(bytes.data(), bytes.size());
    CompositeView view(type, all);
    size_t seen = 0;
    while (const std::optional<CompositeItem> item = view.Next()) {
      ++seen;
      EXPECT_GE(item->name.data(), all.data());
      EXPECT_LE(item->name.data() + item->name.size(), all.data() + all.size());
    }
    EXPECT_EQ(CompositeEdit::Of(type, all).has_value(),
              TypeOfComposite(all) == type && all.starts_with(static_cast<char>(type)) &&
                  view.has_ended());
    return seen;
  };
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) look(whole.substr(0, bytes));
  EXPECT_EQ(look(whole), 4u);
  EXPECT_EQ(look(whole + "x"), 4u);
  EXPECT_FALSE(CompositeEdit::Of(type, whole + "x").has_value());
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = whole;
    changed[random.Below(i % 2 == 0 ? 8 : changed.size())] = static_cast<char>(random.Next());
    look(changed);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CompositeTest,
                         testing::Values(CompositeType::kHash, CompositeType::kSet),
                         [](const auto& type) { return std::string(NameOf(type.param)); });

// ---- Commands, as one key has them done

class CompositeCommandTest : public testing::Test {
 protected:
  std::string Run(const std::vector<std::string_view>& words, bool is_resp3 = false) {
    ValueChange change;
    std::string refusal = change.Parse(*FindCommand(words[0]), words, is_resp3);
    if (!refusal.empty()) return refusal;
    effect_ = change.Apply(state_);
    std::string text;
    ReplyWriter reply(text, is_resp3);
    change.Answer(reply);
    return text;
  }

  KeyState state_{.value = {}, .expiry = {}, .now_ms = 1'700'000'000'000, .is_composite = false};
  KeyEffect effect_ = KeyEffect::kNone;
};

TEST_F(CompositeCommandTest, AHashGoesWithItsLastField) {
  EXPECT_EQ(Run({"hset", "k", "a", "1", "b", "2", "a", "3"}), ":2\r\n");
  EXPECT_TRUE(state_.is_composite);
  EXPECT_EQ(Run({"pexpire", "k", "1000"}), ":1\r\n");
  EXPECT_EQ(Run({"hset", "k", "c", "4"}), ":1\r\n");
  EXPECT_EQ(state_.expiry.at_ms(), 1'700'000'001'000u) << "a change keeps the time";
  EXPECT_EQ(Run({"hgetall", "k"}),
            "*6\r\n$1\r\na\r\n$1\r\n3\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n4\r\n");
  EXPECT_EQ(Run({"hmget", "k", "c", "x"}, true), "*2\r\n$1\r\n4\r\n_\r\n");
  EXPECT_EQ(Run({"hdel", "k", "a", "b", "c", "d"}), ":3\r\n");
  EXPECT_FALSE(state_.value.has_value());
  EXPECT_TRUE(state_.expiry.is_never());
  EXPECT_EQ(Run({"hgetall", "k"}, true), "%0\r\n");
}

TEST_F(CompositeCommandTest, AKeyHasOneType) {
  const std::string wrong = "-" + std::string(kWrongType) + "\r\n";
  EXPECT_EQ(Run({"sadd", "k", "a"}), ":1\r\n");
  for (const std::vector<std::string_view>& words :
       std::vector<std::vector<std::string_view>>{{"get", "k"},
                                                  {"hget", "k", "a"},
                                                  {"hset", "k", "a", "1"},
                                                  {"incr", "k"},
                                                  {"append", "k", "x"},
                                                  {"strlen", "k"},
                                                  {"getrange", "k", "0", "1"},
                                                  {"getset", "k", "x"},
                                                  {"getdel", "k"},
                                                  {"set", "k", "x", "get"},
                                                  {"setbit", "k", "1", "1"}}) {
    EXPECT_EQ(Run(words), wrong) << words[0];
    EXPECT_EQ(effect_, KeyEffect::kNone);
  }
  EXPECT_EQ(Run({"type", "k"}), "+set\r\n");
  EXPECT_EQ(Run({"setnx", "k", "x"}), ":0\r\n");
  EXPECT_EQ(Run({"set", "k", "x"}), "+OK\r\n");
  EXPECT_FALSE(state_.is_composite);
  EXPECT_EQ(Run({"smembers", "k"}), wrong);
  EXPECT_EQ(Run({"sadd", "k", "a"}), wrong);
  EXPECT_EQ(state_.value, "x");
}

TEST_F(CompositeCommandTest, WhatNobodyHasEncodedIsNotChanged) {
  state_.is_composite = true;
  for (const std::string& bytes : {std::string("x"), std::string("h\1\0\0\0", 5), std::string()}) {
    state_.value = bytes;
    EXPECT_THAT(Run({"hset", "k", "a", "1"}), testing::StartsWith("-ERR the value is no hash"));
    EXPECT_THAT(Run({"hgetall", "k"}), testing::StartsWith("-ERR the value is no hash"));
    EXPECT_EQ(state_.value, bytes);
  }
}

TEST_F(CompositeCommandTest, RandomFieldsAreThose) {
  for (const char* const name : {"a", "b", "c", "d"}) Run({"hset", "k", name, "1"});
  std::map<std::string, int> times;
  for (int i = 0; i < 1000; ++i) ++times[Run({"hrandfield", "k"})];
  EXPECT_EQ(times.size(), 4u);
  for (const auto& [name, count] : times) EXPECT_GT(count, 100) << name;
  EXPECT_THAT(Run({"hrandfield", "k", "3"}), testing::StartsWith("*3\r\n"));
  EXPECT_THAT(Run({"hrandfield", "k", "9"}), testing::StartsWith("*4\r\n"));
  EXPECT_THAT(Run({"hrandfield", "k", "-9"}), testing::StartsWith("*9\r\n"));
  EXPECT_THAT(Run({"hrandfield", "k", "2", "withvalues"}), testing::StartsWith("*4\r\n"));
  EXPECT_THAT(Run({"hrandfield", "k", "2", "withvalues"}, true),
              testing::StartsWith("*2\r\n*2\r\n"));
  EXPECT_THAT(Run({"hrandfield", "k", "-4000000000"}), testing::StartsWith("-ERR the reply"));
}

TEST_F(CompositeCommandTest, AHashHasALargestSize) {
  const std::string half(500'000, 'x');
  EXPECT_EQ(Run({"hset", "k", "a", half}), ":1\r\n");
  EXPECT_EQ(Run({"hset", "k", "b", half}), ":1\r\n");
  const std::optional<std::string> before = state_.value;
  EXPECT_THAT(Run({"hset", "k", "c", half}),
              testing::StartsWith("-ERR a script makes hashes and sets of at most"));
  EXPECT_EQ(effect_, KeyEffect::kNone);
  EXPECT_EQ(state_.value, before);
}

}  // namespace
}  // namespace gossamer::gateway
