// MultiPut, MultiModify and MultiDelete with keys that are hard to sort and to tell apart, against
// a model: prefixes of each other, the empty key, zeros, the longest ones, each several times in a
// batch. One or two threads write to the same leaves, and several batches of one session run at a
// time. In a small store memory runs out in the middle of batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using Model = std::map<std::string, std::string>;

struct KeysShape {
  std::string name;
  StoreParameters parameters;
  uint64_t memory_bytes;
  size_t threads;

  bool may_be_exhausted() const { return memory_bytes < uint64_t{4} << 20; }
  friend void PrintTo(const KeysShape& shape, std::ostream* out) { *out << shape.name; }
};

// Appends, and deletes what gets too long.
class AppendOrDelete final : public ValueModifier {
 public:
  static constexpr size_t kMost = 200;

  explicit AppendOrDelete(std::string_view piece) : piece_(piece) {}
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    result_ = std::string(value.value_or("")) + piece_;
    if (piece_.empty()) return {};
    return result_.size() > kMost ? Change{Kind::kDelete, {}} : Change{Kind::kPut, result_};
  }

 private:
  std::string piece_;
  std::string result_;
};

// Writes of one call.
struct Call {
  enum class Kind : uint8_t { kPut, kModify, kDelete };
  Kind kind = Kind::kPut;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<KeyValueView> pairs;
  std::vector<std::string_view> views;
  std::deque<AppendOrDelete> modifiers;
  std::vector<KeyModifier> changes;
  std::vector<Status> results;

  void Prepare() {
    for (size_t i = 0; i < keys.size(); ++i) {
      pairs.push_back({keys[i], values[i]});
      views.push_back(keys[i]);
      changes.push_back({keys[i], &modifiers.emplace_back(values[i])});
    }
    results.assign(keys.size(), MakeError(Code::kCorruption, "no result"));
  }
  Task<void> Run(Session& session) {
    switch (kind) {
      case Kind::kPut: co_return co_await session.AsyncMultiPut(pairs, results);
      case Kind::kModify: co_return co_await session.AsyncMultiModify(changes, results);
      case Kind::kDelete: co_return co_await session.AsyncMultiDelete(views, results);
    }
  }
};

// Writes to keys of its own, and knows what they must have.
class Writer {
 public:
  Writer(const KeysShape& shape, Session& session, char ending, uint64_t seed)
      : shape_(shape), session_(session), random_(seed) {
    const std::string longest(shape.parameters.max_key_bytes, '\0');
    std::vector<std::string> keys{"", longest, std::string(longest.size(), '\xff')};
    std::string stem;
    for (int i = 0; i < 24; ++i) {
      keys.push_back(stem += i % 12 < 9 ? 'a' : '\0');
      keys.push_back(stem + '\0');
      keys.push_back(stem + '\xff');
    }
    for (uint64_t i = 0; i < 700; ++i) {
      keys.push_back(NumberKey(i));
      keys.push_back(std::string(random_() % 30, '\0') + static_cast<char>(random_() % 3));
      keys.push_back(keys[random_() % keys.size()] + static_cast<char>(random_() % 4));
    }
    for (std::string& key : keys) {
      key.resize(std::min<size_t>(key.size(), longest.size() - 1));
      if (shape.threads > 1) key += ending;  // each writer's keys lie between the other's
    }
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    keys_ = std::move(keys);
  }

  const Model& model() const { return model_; }

  // Calls that share no key run together.
  void Round() {
    std::vector<Call> calls(1 + random_() % 4);
    for (Call& call : calls) call.kind = static_cast<Call::Kind>(random_() % 3);
    const size_t count = random_() % 10 == 0 ? 2500 : 1 + random_() % 300;
    const size_t reach = random_() % 3 == 0 ? 1 + random_() % 30 : keys_.size();
    const size_t first = random_() % keys_.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t number = (first + random_() % reach) % keys_.size();
      Call& call = calls[number * calls.size() / keys_.size()];
      call.keys.push_back(keys_[number]);
      call.values.push_back(Value());
    }
    for (Call& call : calls) {
      call.Prepare();
      session_.Spawn(call.Run(session_));
    }
    session_.WaitAll();
    for (Call& call : calls) ASSERT_NO_FATAL_FAILURE(Compare(call));
  }

  void ExpectValues() {
    const std::vector<std::string_view> views(keys_.begin(), keys_.end());
    const std::vector<Result<std::string>> values = session_.MultiGet(views);
    for (size_t i = 0; i < keys_.size(); ++i) {
      const auto known = model_.find(keys_[i]);
      ASSERT_EQ(values[i].has_value(), known != model_.end()) << testing::PrintToString(keys_[i]);
      if (values[i]) {
        ASSERT_EQ(values[i].value(), known->second) << testing::PrintToString(keys_[i]);
      }
    }
  }

 private:
  std::string Value() {
    const size_t inline_bytes = shape_.parameters.inline_value_bytes;
    const size_t bytes = random_() % 8 == 0   ? inline_bytes + random_() % 100
                         : random_() % 3 == 0 ? random_() % (inline_bytes + 1)
                                              : std::min<size_t>(2, inline_bytes);
    return std::string(bytes, static_cast<char>('a' + random_() % 26));
  }

  // The writes of one key took effect in the order of the batch, each or not, as its result says.
  void Compare(Call& call) {
    for (size_t i = 0; i < call.keys.size(); ++i) {
      const Status& result = call.results[i];
      const auto known = model_.find(call.keys[i]);
      const bool was_there = known != model_.end();
      if (call.kind == Call::Kind::kDelete && !was_there) {
        ASSERT_FALSE(result);
        ASSERT_EQ(result.error().code, Code::kNotFound);
        continue;
      }
      if (!result && shape_.may_be_exhausted() && result.error().code == Code::kExhausted) continue;
      ASSERT_TRUE(result) << result.error().ToString();
      if (call.kind == Call::Kind::kDelete) {
        model_.erase(known);
      } else if (call.kind == Call::Kind::kPut) {
        model_[call.keys[i]] = call.values[i];
      } else if (!call.values[i].empty()) {
        std::string& value = model_[call.keys[i]];
        value += call.values[i];
        if (value.size() > AppendOrDelete::kMost) model_.erase(call.keys[i]);
      }
    }
  }

  const KeysShape& shape_;
  Session& session_;
  std::mt19937_64 random_;
  std::vector<std::string> keys_;
  Model model_;
};

class BatchKeysTest : public testing::TestWithParam<KeysShape> {};

TEST_P(BatchKeysTest, BehavesAsAMap) {
  const KeysShape& shape = GetParam();
  ClusterOptions options;
  options.parameters = shape.parameters;
  options.memory_bytes = shape.memory_bytes;
  options.chunk_bytes = uint64_t{64} << 10;
  TestCluster cluster(options);
  TestClient client(cluster);
  std::vector<std::unique_ptr<OpenSession>> sessions;
  std::deque<Writer> writers;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < shape.threads; ++i) {
    sessions.push_back(client.NewSession());
    writers.emplace_back(shape, *sessions.back(), static_cast<char>('A' + i), TestSeed() + i);
  }
  for (Writer& writer : writers) {
    threads.emplace_back([&writer] {
      for (int round = 0; round < Rounds(150) && !testing::Test::HasFailure(); ++round)
        writer.Round();
      if (!testing::Test::HasFailure()) writer.ExpectValues();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (HasFailure()) return;
  Model all;
  for (const Writer& writer : writers) all.insert(writer.model().begin(), writer.model().end());
  const std::unique_ptr<ScanCursor> cursor = sessions.front()->Scan({});
  for (const auto& [key, value] : all) {
    ASSERT_TRUE(cursor->Next());
    ASSERT_EQ(cursor->key(), key);
    ASSERT_EQ(cursor->value(), value);
  }
  EXPECT_FALSE(cursor->Next());
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0U) << testing::PrintToString(report.problems);
  EXPECT_EQ(report.keys, all.size());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BatchKeysTest,
    testing::Values(KeysShape{"SmallNodes", {256, 32, 8}, uint64_t{16} << 20, 1},
                    KeysShape{"LongKeys", {1024, 250, 16}, uint64_t{16} << 20, 1},
                    KeysShape{"LargeNodes", {4096, 250, 64}, uint64_t{16} << 20, 1},
                    KeysShape{"TwoThreads", {1024, 250, 16}, uint64_t{32} << 20, 2},
                    KeysShape{"TwoThreadsOfSmallNodes", {256, 8, 8}, uint64_t{32} << 20, 2},
                    KeysShape{"LittleMemory", {512, 250, 16}, uint64_t{512} << 10, 1}),
    [](const auto& param) { return param.param.name; });

// Whatever a key shares with the leaf that it would go to.
class TooLongKeysTest : public testing::TestWithParam<StoreParameters> {};

TEST_P(TooLongKeysTest, ABatchTakesNoKeyThatThePutOfItWouldRefuse) {
  ClusterOptions options;
  options.parameters = GetParam();
  TestCluster cluster(options);
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  const size_t most = GetParam().max_key_bytes;
  const std::string stem(most - 8, 's');
  const auto key_of = [&](uint64_t number, size_t bytes) {
    std::string key = stem + NumberKey(number).substr(4);
    key.resize(bytes, 't');
    return key;
  };
  Model model;
  for (uint64_t i = 0; i < 300; ++i) {
    model[key_of(10 * i, most - 4)] = "value";
    ASSERT_TRUE(session->Put(key_of(10 * i, most - 4), "value"));
  }
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 30; ++i) keys.push_back(key_of(1501 + i, most + 1 + i % 12));
  std::vector<KeyValueView> pairs;
  for (const std::string& key : keys) pairs.push_back({key, "value"});
  std::vector<Status> results(pairs.size(), Ok());
  session->MultiPut(pairs, results);
  for (const Status& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
  const SortedLoad load = session->LoadSorted(pairs, 1);
  ASSERT_FALSE(load.status);
  EXPECT_EQ(load.status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(load.stored, 0u);
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  session->MultiDelete(views, results);
  for (const Status& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  }
  Model found;
  const std::unique_ptr<ScanCursor> cursor = session->Scan({});
  while (cursor->Next()) found[std::string(cursor->key())] = cursor->value();
  EXPECT_TRUE(cursor->status());
  EXPECT_EQ(found, model);
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
}

INSTANTIATE_TEST_SUITE_P(Stores, TooLongKeysTest,
                         testing::Values(StoreParameters{1024, 32, 64},
                                         StoreParameters{1024, 250, 16}));

}  // namespace
}  // namespace gossamer
