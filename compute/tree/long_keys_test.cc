// Keys of any length to 250 B: a store with keys that are made to be hard, and a sorted map.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compute/store/testing/protocol_fixture.h"
#include "compute/verify/history/same_hash.h"
#include "proto/key.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using Keys = std::vector<std::string>;

// `prefix` and 8 bytes of `number`, with the word behind them that gives all such keys one hash.
std::string WithSameHash(const std::string& prefix, uint64_t number) {
  return history::WithHashOf(prefix + NumberKey(0, 8), prefix + NumberKey(number, 8));
}

class LongKeysTest : public ProtocolTest {
 protected:
  std::string Random(size_t bytes) {
    std::string text;
    while (text.size() < bytes) text.push_back(static_cast<char>(random_()));
    return text;
  }

  // Sets of keys, each hard in its own way.
  std::vector<Keys> HardKeys() {
    std::vector<Keys> sets(9);
    for (size_t length = 0; length <= kMaxKeyBytes; ++length) {
      sets[0].push_back(Random(length));
      sets[1].push_back(std::string(length, 'a'));  // prefixes of each other
      sets[2].push_back(std::string(length, '\0'));
      sets[2].push_back(std::string(length, '\xff'));
    }
    const std::string common = Random(kMaxKeyBytes - 1);
    for (int last = 0; last < 256; ++last) sets[3].push_back(common + static_cast<char>(last));
    // They differ in the last two bytes only.
    for (uint64_t i = 0; i < 1500; ++i) {
      sets[4].push_back(common.substr(0, kMaxKeyBytes - 2) + NumberKey(random_(), 2));
    }
    // Clusters with common prefixes of all lengths, and prefixes of those.
    for (size_t cluster = 0; cluster < 40; ++cluster) {
      const std::string prefix =
          common.substr(0, random_() % kMaxKeyBytes) + static_cast<char>(random_());
      sets[5].push_back(prefix);
      for (int i = 0; i < 40; ++i) {
        sets[5].push_back(prefix + Random(random_() % (kMaxKeyBytes + 1 - prefix.size())));
      }
    }
    // One hash, and so one home group.
    for (const size_t prefix : {80, 104, 200, 232}) {
      for (uint64_t i = 0; i < 60; ++i)
        sets[6].push_back(WithSameHash(common.substr(0, prefix), i));
    }
    for (int i = 0; i < 1500; ++i) sets[7].push_back(Random(kMaxKeyBytes));
    for (int i = 0; i < 1500; ++i) sets[8].push_back("/usr/share/" + Random(random_() % 120));
    return sets;
  }

  std::string Value() {
    const uint64_t kind = random_() % 8;
    return std::string(kind == 0 ? 100 + random_() % 300 : random_() % 17,
                       static_cast<char>('a' + random_() % 26));
  }

  // One random operation on a key of `keys`, in the store and in the model.
  void Operate(const Keys& keys) {
    const std::string& key = keys[random_() % keys.size()];
    const auto known = model_.find(key);
    switch (random_() % 8) {
      case 0:
        ASSERT_EQ(session_->Delete(key).has_value(), known != model_.end());
        model_.erase(key);
        break;
      case 1: {
        const std::string value = Value();
        const bool is_new = known == model_.end();
        ASSERT_EQ(session_->Insert(key, value).has_value(), is_new);
        if (is_new) model_[key] = value;
        break;
      }
      case 2: {
        const std::string value = Value();
        const bool is_there = known != model_.end();
        ASSERT_EQ(session_->Update(key, value).has_value(), is_there);
        if (is_there) model_[key] = value;
        break;
      }
      case 3: {
        std::vector<std::string> values(20);
        std::vector<KeyValueView> pairs;
        for (std::string& value : values) {
          value = Value();
          const std::string& other = keys[random_() % keys.size()];
          pairs.push_back({other, value});
          model_[other] = value;
        }
        std::vector<Status> results(pairs.size(), Ok());
        session_->MultiPut(pairs, results);
        for (const Status& result : results) ASSERT_TRUE(result) << result.error().ToString();
        break;
      }
      default: {
        model_[key] = Value();
        const Status put = session_->Put(key, model_[key]);
        ASSERT_TRUE(put) << put.error().ToString();
      }
    }
  }

  void ExpectAll(const Keys& keys) {
    std::vector<std::string_view> views(keys.begin(), keys.end());
    const std::vector<Result<std::string>> found = session_->MultiGet(views);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = model_.find(keys[i]);
      const Result<std::string> alone = session_->Get(keys[i]);
      ASSERT_EQ(alone.has_value(), expected != model_.end()) << keys[i].size();
      ASSERT_EQ(found[i].has_value(), expected != model_.end()) << keys[i].size();
      if (!alone) continue;
      ASSERT_EQ(alone.value(), expected->second);
      ASSERT_EQ(found[i].value(), expected->second);
    }
  }

  // A scan from any bound, in either direction, with a limit.
  void ExpectScans(const Keys& keys) {
    const auto bound = [&] {
      std::string key = keys[random_() % keys.size()];
      if (random_() % 2 == 0) key.resize(random_() % (key.size() + 1));
      return key;
    };
    for (int i = 0; i < 30; ++i) {
      ScanOptions options;
      options.from = bound();
      if (random_() % 2 == 0) options.to = bound();
      options.reverse = random_() % 2 == 0;
      options.limit = 1 + random_() % 50;
      std::vector<std::pair<std::string, std::string>> expected;
      for (const auto& [key, value] : model_) {
        if (key >= options.from && (!options.to || key < *options.to)) {
          expected.emplace_back(key, value);
        }
      }
      if (options.reverse) std::reverse(expected.begin(), expected.end());
      if (expected.size() > options.limit) expected.resize(options.limit);
      const auto cursor = session_->Scan(options);
      std::vector<std::pair<std::string, std::string>> found;
      while (cursor->Next()) found.emplace_back(cursor->key(), cursor->value());
      ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
      ASSERT_EQ(found, expected);
    }
  }

  void DeleteSomePrefix(const Keys& keys) {
    std::string prefix = keys[random_() % keys.size()];
    prefix.resize(random_() % (prefix.size() + 1));
    const RangeDeletion done = session_->DeleteRange({"", std::nullopt, prefix}, {});
    ASSERT_TRUE(done.status) << done.status.error().ToString();
    const uint64_t deleted =
        std::erase_if(model_, [&](const auto& pair) { return pair.first.starts_with(prefix); });
    ASSERT_EQ(done.deleted, deleted);
  }

  void TestWith(const StoreParameters& parameters) {
    ASSERT_NO_FATAL_FAILURE(Open(parameters, 2));
    model_.clear();
    Keys all;
    for (const Keys& keys : HardKeys()) {
      SCOPED_TRACE("set with a key of " + std::to_string(keys.back().size()));
      const int operations = Rounds(3 * static_cast<int>(keys.size()));
      for (int i = 0; i < operations; ++i) ASSERT_NO_FATAL_FAILURE(Operate(keys));
      ASSERT_NO_FATAL_FAILURE(ExpectAll(keys));
      ASSERT_NO_FATAL_FAILURE(ExpectScans(keys));
      ExpectCleanCheck();
      ASSERT_NO_FATAL_FAILURE(DeleteSomePrefix(keys));
      all.insert(all.end(), keys.begin(), keys.end());
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    for (int i = 0; i < Rounds(3000); ++i) ASSERT_NO_FATAL_FAILURE(Operate(all));
    ASSERT_NO_FATAL_FAILURE(ExpectScans(all));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    session_->WaitAll();
    ExpectCleanCheck();
    ASSERT_TRUE(session_->DeletePrefix("").status);
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    session_->WaitAll();
    ExpectCleanCheck();
  }
};

TEST_F(LongKeysTest, KeysWithOneHashAreMade) {
  const std::string first = WithSameHash("8 bytes.", 1);
  const std::string second = WithSameHash("8 bytes.", 2);
  EXPECT_NE(first, second);
  EXPECT_EQ(KeyHash(first), KeyHash(second));
}

TEST_F(LongKeysTest, AreAsInASortedMap512) { TestWith({512, 250, 16}); }
TEST_F(LongKeysTest, AreAsInASortedMap512WithLongValuesInline) { TestWith({512, 250, 64}); }
TEST_F(LongKeysTest, AreAsInASortedMap1024) { TestWith({1024, 250, 16}); }
TEST_F(LongKeysTest, AreAsInASortedMap4096) { TestWith({4096, 250, 8}); }

TEST_F(LongKeysTest, ThatAreTooLongAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 250, 16}));
  const std::string key(251, 'k');
  EXPECT_EQ(session_->Put(key, "v").error().code, Code::kInvalidArgument);
  EXPECT_EQ(session_->Get(key).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gossamer
