// MultiPut and MultiDelete: against a model, and what they cost.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/testing/seed.h"
#include "compute/store/testing/cost_fixture.h"
#include "compute/store/testing/test_cluster.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

struct ModelShape {
  std::string name;
  StoreParameters parameters;
  size_t servers;
  uint64_t cache_bytes;
  uint64_t keys;
  size_t longest_value;

  friend void PrintTo(const ModelShape& shape, std::ostream* out) { *out << shape.name; }
};

// Random batches on one session, compared with a std::map.
class BatchModelTest : public testing::TestWithParam<ModelShape> {
 protected:
  static const ModelShape& shape() { return GetParam(); }

  // Eight bytes, or another length if the store takes longer keys.
  std::string KeyOf(uint64_t number) const {
    std::string key = NumberKey(number * 0x0101'0101'0101);
    if (shape().parameters.max_key_bytes > 8 && number % 3 != 0) {
      key.resize(1 + (number * 7) % shape().parameters.max_key_bytes, 'k');
    }
    return key;
  }
  // Near each other or anywhere, with repetitions.
  std::vector<std::string> DrawKeys() {
    const size_t count = random_() % 8 == 0 ? 400 + random_() % 1200 : 1 + random_() % 90;
    const uint64_t reach = random_() % 2 == 0 ? shape().keys : 1 + random_() % 60;
    const uint64_t first = random_() % (shape().keys - reach + 1);
    const bool ascends = random_() % 4 == 0;
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(KeyOf(first + (ascends ? i * reach / count : random_() % reach)));
    }
    return keys;
  }

  void Put() {
    std::vector<KeyValue> pairs;
    for (const std::string& key : DrawKeys()) {
      const size_t bytes = random_() % 3 == 0 ? random_() % (shape().longest_value + 1)
                                              : shape().parameters.inline_value_bytes;
      pairs.push_back({key, std::string(bytes, static_cast<char>('a' + random_() % 26))});
    }
    const std::vector<Status> results = session_->MultiPut(pairs);
    ASSERT_EQ(results.size(), pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_TRUE(results[i]) << results[i].error().ToString();
      model_[pairs[i].key] = pairs[i].value;
    }
  }
  void Delete() {
    const std::vector<std::string> keys = DrawKeys();
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    const std::vector<Status> results = session_->MultiDelete(views);
    ASSERT_EQ(results.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool was_there = model_.erase(keys[i]) != 0;
      ASSERT_EQ(results[i].has_value(), was_there) << i;
      if (!was_there) {
        ASSERT_EQ(results[i].error().code, Code::kNotFound);
      }
    }
  }
  void LoadSorted() {
    std::vector<std::string> keys = DrawKeys();
    std::sort(keys.begin(), keys.end());
    const std::string value(shape().parameters.inline_value_bytes,
                            static_cast<char>('A' + random_() % 26));
    std::vector<KeyValueView> pairs;
    for (const std::string& key : keys) {
      pairs.push_back({key, value});
      model_[key] = value;
    }
    const SortedLoad load = session_->LoadSorted(pairs, random_() % 2 == 0 ? 1.0 : 0.6);
    ASSERT_TRUE(load.status) << load.status.error().ToString();
    ASSERT_EQ(load.loaded, pairs.size());
  }
  void ExpectSame() {
    const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
    auto expected = model_.begin();
    for (; cursor->Next(); ++expected) {
      ASSERT_NE(expected, model_.end());
      ASSERT_EQ(cursor->key(), expected->first);
      ASSERT_EQ(cursor->value(), expected->second);
    }
    ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
    ASSERT_EQ(expected, model_.end());
    for (size_t i = 0; i < 50; ++i) {
      const std::string key = KeyOf(random_() % shape().keys);
      const Result<std::string> value = session_->Get(key);
      const auto found = model_.find(key);
      ASSERT_EQ(value.has_value(), found != model_.end());
      if (value) {
        ASSERT_EQ(value.value(), found->second);
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<OpenSession> session_;
};

TEST_P(BatchModelTest, EachWriteHasTheResultOfASingleOne) {
  ClusterOptions options;
  options.parameters = shape().parameters;
  options.servers = shape().servers;
  options.memory_bytes = uint64_t{64} << 20;
  TestCluster cluster(options);
  TestClient client(cluster, {10'000, shape().cache_bytes});
  session_ = client.NewSession();
  for (int round = 0; round < Rounds(200); ++round) {
    switch (random_() % 6) {
      case 0:
      case 1: ASSERT_NO_FATAL_FAILURE(Delete()); break;
      case 2: ASSERT_NO_FATAL_FAILURE(LoadSorted()); break;
      default: ASSERT_NO_FATAL_FAILURE(Put()); break;
    }
    if (round % 10 == 9) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame());
    }
  }
  session_.reset();
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
  EXPECT_EQ(report.keys, model_.size());
  EXPECT_EQ(report.missing_downlinks, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BatchModelTest,
    testing::Values(ModelShape{"SmallNodes", {256, 8, 8}, 1, 1 << 20, 3000, 8},
                    ModelShape{"Usual", {1024, 8, 8}, 2, 1 << 20, 5000, 8},
                    ModelShape{"LongKeys", {1024, 32, 64}, 1, 1 << 20, 2000, 64},
                    ModelShape{"Blocks", {512, 32, 16}, 2, 1 << 20, 1000, 200},
                    ModelShape{"LargeNodes", {4096, 16, 32}, 3, 1 << 20, 6000, 32},
                    ModelShape{"NoCache", {256, 8, 8}, 1, 0, 600, 12}),
    [](const testing::TestParamInfo<ModelShape>& param) { return param.param.name; });

// A bound of what a MultiGet takes: it stops there, and says which keys it has left out.
TEST(MultiGetTest, LeavesOutWhatItHasNoRoomFor) {
  TestCluster cluster(ClusterOptions{});
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  constexpr size_t kKeys = 300;
  constexpr size_t kValueBytes = 4000;
  constexpr size_t kMost = 20 * kValueBytes;
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) {
    keys.push_back(NumberKey(i));
    const size_t bytes = i % 3 == 0 ? 8 : kValueBytes;
    ASSERT_TRUE(session->Put(keys.back(), std::string(bytes, 'v')));
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  Values values;
  values.set_most_bytes(kMost);
  session->MultiGet(views, values);
  EXPECT_TRUE(values.is_full());
  EXPECT_GE(values.bytes(), kMost);
  EXPECT_LT(values.bytes(), kMost + (64 + 1) * kValueBytes);
  size_t left_out = 0;
  for (size_t i = 0; i < kKeys; ++i) {
    EXPECT_EQ(values.is_left_out(i), !values[i]);
    if (values[i]) {
      EXPECT_EQ(values[i].value().size(), i % 3 == 0 ? 8U : kValueBytes);
    } else {
      EXPECT_EQ(values[i].error().code, Code::kInvalidArgument);
      EXPECT_NE(i % 3, 0U) << "the tree's nodes have it";
      ++left_out;
    }
  }
  EXPECT_GT(left_out, 0U);
  session->MultiGet(std::span(views).first(20), values);
  EXPECT_FALSE(values.is_full());
  for (size_t i = 0; i < 20; ++i) EXPECT_TRUE(values[i]);
}

// A client dies before each verb of a batch in turn, that one and those behind it lost or not.
// Others find a valid tree, in which each write is there or not, as its result says.
class BatchCrashTest : public testing::TestWithParam<size_t> {
 protected:
  static constexpr uint64_t kLoaded = 40;

  // Returns whether the batch ran to its end before verb `verb`.
  bool Crash(uint64_t verb, uint64_t applied) {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    options.servers = GetParam();
    options.memory_bytes = uint64_t{4} << 20;
    options.chunk_bytes = uint64_t{64} << 10;
    TestCluster cluster(options);
    TestClient witness(cluster);
    const std::unique_ptr<OpenSession> reader = witness.NewSession();
    for (uint64_t i = 0; i < kLoaded; ++i) EXPECT_TRUE(reader->Put(NumberKey(1000 * i), "old"));
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 90; ++i) keys.push_back(NumberKey(1000 * (i % 3) + i));
    std::vector<KeyValueView> pairs;
    for (const std::string& key : keys) pairs.push_back({key, "new"});
    std::vector<Status> results(pairs.size(), Ok());
    FaultPlan plan;
    {
      TestClient doomed(cluster);
      const std::unique_ptr<OpenSession> session = doomed.NewSession(plan);
      EXPECT_TRUE(session->Get(keys[0]));
      plan.break_at = plan.verbs + verb;
      plan.applied = applied;
      session->MultiPut(pairs, results);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const Result<std::string> now = reader->Get(keys[i]);
      const bool is_new = now && now.value() == "new";
      if (results[i]) {
        EXPECT_TRUE(is_new) << "verb " << verb << ", key " << i << ": acknowledged, and not there";
      } else if (results[i].error().code != Code::kMaybeApplied) {
        EXPECT_FALSE(is_new) << "verb " << verb << ", key " << i
                             << " is there: " << results[i].error().ToString();
      }
      // The locks of the dead are taken over.
      const Status put = reader->Put(keys[i], "later");
      EXPECT_TRUE(put) << put.error().ToString();
    }
    const CheckReport report = cluster.Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    return !plan.broke;
  }
};

TEST_P(BatchCrashTest, LeavesAValidTreeBeforeEachVerb) {
  for (const uint64_t applied : {uint64_t{0}, uint64_t{1}, FaultPlan::kNever}) {
    uint64_t verb = 1;
    while (!HasFailure() && !Crash(verb, applied)) ++verb;
    EXPECT_GT(verb, 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(Servers, BatchCrashTest, testing::Values(1, 2));

// While one leaf is another's, the others are written.
TEST(ManyLeavesTest, ALeafWhoseTurnIsTakenIsWrittenByItself) {
  constexpr uint64_t kLeaves = 10;
  ClusterOptions options;
  options.parameters = kEightByteStore;
  TestCluster cluster(options);
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  for (uint64_t i = 0; i < 300 * kLeaves; ++i) ASSERT_TRUE(session->Put(NumberKey(i), "12345678"));
  // This one stops with the lock of a leaf.
  FaultPlan plan;
  const std::unique_ptr<OpenSession> other = client.NewSession(plan);
  ASSERT_TRUE(other->Put(NumberKey(901), "87654321"));
  plan.allowed_verbs = plan.verbs + 2;
  const auto put = [](OpenSession& on) -> Task<void> {
    EXPECT_TRUE(co_await on.AsyncPut(NumberKey(901), "87654321"));
  };
  other->Spawn(put(*other));
  while (!plan.holds_back) other->Poll();

  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kLeaves; ++i) keys.push_back(NumberKey(300 * i));
  const std::vector<KeyValueView> pairs = WithValue(keys, "abcdefgh");
  std::vector<Status> results(pairs.size(), Ok());
  const auto put_many = [](OpenSession& on, const std::vector<KeyValueView>& writes,
                           std::vector<Status>& statuses) -> Task<void> {
    co_await on.AsyncMultiPut(writes, statuses);
  };
  const Counters before = session->counters();
  const auto updates = [&] {
    return Since(before, session->counters()).of(OperationClass::kUpdate).operations;
  };
  session->Spawn(put_many(*session, pairs, results));
  for (int polls = 0; polls < 1000; ++polls) session->Poll();
  EXPECT_EQ(updates(), kLeaves - 1);
  plan.allowed_verbs = FaultPlan::kNever;
  while (updates() != kLeaves) {
    other->Poll();
    session->Poll();
  }
  other->WaitAll();
  session->WaitAll();
  for (const Status& result : results) EXPECT_TRUE(result) << result.error().ToString();
  for (const std::string& key : keys) EXPECT_EQ(session->Get(key).value(), "abcdefgh");
  EXPECT_EQ(session->Get(NumberKey(901)).value(), "87654321");
}

class SortedLoadTest : public CostFixture {
 protected:
  SortedLoadTest() : CostFixture(TestFabric::kShm) {}

  // Loads keys first, first + step, ... in chunks.
  void Load(uint64_t first, uint64_t step, uint64_t count, double fill) {
    constexpr size_t kChunk = 3000;
    std::vector<std::string> keys;
    std::vector<KeyValueView> pairs;
    for (uint64_t i = 0; i < count; i += kChunk) {
      keys.clear();
      pairs.clear();
      for (uint64_t j = i; j < std::min(count, i + kChunk); ++j) {
        keys.push_back(EightBytes(first + j * step));
      }
      for (const std::string& key : keys) pairs.push_back({key, "12345678"});
      const SortedLoad load = session_->LoadSorted(pairs, fill);
      ASSERT_TRUE(load.status) << load.status.error().ToString();
      ASSERT_EQ(load.loaded, pairs.size());
    }
  }
  CheckReport Check() {
    const Result<CheckReport> report = store_->Check({});
    EXPECT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report.value().problem_count, 0u) << testing::PrintToString(report.value().problems);
    EXPECT_EQ(report.value().missing_downlinks, 0u);
    return report.value();
  }
};

// Six units of twelve entries each: the fences of a leaf share four bytes.
constexpr double kMostKeysOfALeaf = 72;

TEST_F(SortedLoadTest, FillsLeavesToNineTenths) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore, 2));
  ASSERT_NO_FATAL_FAILURE(Load(0, 1'000'003, 300'000, 1));
  const CheckReport report = Check();
  EXPECT_EQ(report.keys, 300'000u);
  EXPECT_GE(report.keys_per_leaf(), 0.9 * kMostKeysOfALeaf);
}

TEST_F(SortedLoadTest, FillsLeavesAsAsked) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(Load(0, 1'000'003, 100'000, 0.7));
  const CheckReport report = Check();
  EXPECT_GE(report.keys_per_leaf(), 0.65 * kMostKeysOfALeaf);
  EXPECT_LE(report.keys_per_leaf(), 0.72 * kMostKeysOfALeaf);
}

TEST_F(SortedLoadTest, LoadsBetweenTheKeysOfAStore) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  ASSERT_NO_FATAL_FAILURE(Load(1, 0x1'0000'0000'0001, 60'000, 0.9));
  const CheckReport report = Check();
  EXPECT_EQ(report.keys, 80'000u);
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
}

TEST_F(SortedLoadTest, TakesOneRoundTripForManyKeys) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(Load(0, 3, 200'000, 1));
  WireCounts total;
  for (const WireCounts& one : session_->counters().wire) total += one;
  EXPECT_EQ(total.operations, 200'000u);
  EXPECT_LE(total.round_trips, 200'000u / 200);
}

TEST_F(SortedLoadTest, RefusesWhatIsNotSorted) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  const std::vector<KeyValueView> pairs = {{"a", "1"}, {"c", "2"}, {"b", "3"}};
  const SortedLoad load = session_->LoadSorted(pairs, 1);
  ASSERT_FALSE(load.status);
  EXPECT_EQ(load.status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(load.loaded, 0u);
  EXPECT_FALSE(session_->Get("a"));
  EXPECT_FALSE(session_->LoadSorted({}, 0).status);
  EXPECT_TRUE(session_->LoadSorted({}, 1).status);
}

TEST_F(SortedLoadTest, SaysWhichKeyItCouldNotStore) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  const std::vector<KeyValueView> pairs = {
      {"a", "1"}, {"b", "2"}, {"b", "3"}, {"c is too long", "4"}, {"d", "5"}};
  const SortedLoad load = session_->LoadSorted(pairs, 1);
  ASSERT_FALSE(load.status);
  EXPECT_EQ(load.status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(load.loaded, 3u);
  EXPECT_EQ(load.stored, 4u);
  EXPECT_EQ(session_->Get("b").value(), "3");
}

}  // namespace
}  // namespace gossamer
