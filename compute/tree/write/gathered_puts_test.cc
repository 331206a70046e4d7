// Writes of many coroutines of a session, which go out together: what they cost, and what they
// return.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/testing/seed.h"
#include "compute/store/testing/cost_fixture.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/tree/tree.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

// So many coroutines of a session do not gather.
constexpr size_t kFew = 4;
// The writes of one group, at most.
constexpr size_t kTogether = 32;

class GatheredCostTest : public CostFixture, public testing::WithParamInterface<TestFabric> {
 protected:
  GatheredCostTest() : CostFixture(GetParam()) {}

  void OpenForUpdates(size_t servers) {
    ASSERT_NO_FATAL_FAILURE(OpenLoaded(servers));
    // From now on puts are taken for updates.
    for (size_t i = 0; i < kTogether; ++i) ASSERT_TRUE(session_->Put(keys_[i], "abcdefgh"));
  }
  // Puts each of `keys` by a coroutine of its own.
  WireCounts CostOfPuts(const std::vector<std::string>& keys) {
    const auto put = [](Session& session, const std::string& key) -> Task<void> {
      EXPECT_TRUE(co_await session.AsyncPut(key, "ABCDEFGH"));
    };
    return CostOf(OperationClass::kUpdate, [&] {
      for (const std::string& key : keys) session_->Spawn(put(*session_, key));
      session_->WaitAll();
    });
  }
  // Of writes of one leaf each: the unit that a key is sought in holds it, or a second one does.
  void ExpectCost(const WireCounts& cost, size_t writes, uint64_t round_trips) {
    EXPECT_EQ(Text(cost), Text({.operations = writes,
                                .round_trips = round_trips,
                                .reads = cost.reads,
                                .writes = writes,
                                .atomics = 2 * writes,
                                .bytes_read = cost.reads * kUnitBytes,
                                .bytes_written = writes * kUnitBytes}));
    EXPECT_GE(cost.reads, writes);
    EXPECT_LE(cost.reads, 2 * writes);
  }
  void ExpectTwoRoundTrips() {
    uint64_t reads = 0;
    uint64_t writes = 0;
    for (int i = 0; i < 10; ++i) {
      const std::vector<std::string> keys = KeysOfLeaves(kFew + kTogether);
      const WireCounts cost = CostOfPuts(keys);
      // The first ones find themselves alone.
      ExpectCost(cost, keys.size(), 2 * kFew + 2);
      reads += cost.reads;
      writes += cost.writes;
    }
    EXPECT_LE(reads * 100, writes * 150) << "too many keys lie in the second unit of their group";
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, GatheredCostTest, testing::ValuesIn(TestFabrics()), NameOfFabric);

TEST_P(GatheredCostTest, PutsOfManyCoroutinesTakeTwoRoundTripsTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenForUpdates(1));
  ExpectTwoRoundTrips();
}

TEST_P(GatheredCostTest, PutsToSeveralServersTakeTwoRoundTripsTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenForUpdates(3));
  std::set<ServerId> servers;
  for (const std::string& key : KeysOfLeaves(kTogether)) servers.insert(PathTo(key).leaf.server());
  EXPECT_EQ(servers.size(), 3u);
  ExpectTwoRoundTrips();
}

// Each starts at once: two polls, one for each round trip. Only on shm does a poll end a round
// trip.
TEST_P(GatheredCostTest, PutsOfFewCoroutinesWaitForNoOther) {
  ASSERT_NO_FATAL_FAILURE(OpenForUpdates(1));
  const std::vector<std::string> keys = KeysOfLeaves(kFew);
  const auto put = [](Session& session, const std::string& key) -> Task<void> {
    EXPECT_TRUE(co_await session.AsyncPut(key, "ABCDEFGH"));
  };
  const WireCounts cost = CostOf(OperationClass::kUpdate, [&] {
    for (const std::string& key : keys) session_->Spawn(put(*session_, key));
    if (GetParam() == TestFabric::kShm) {
      EXPECT_EQ(session_->Poll(), kFew);
      EXPECT_EQ(session_->Poll(), 0u);  // two polls
    }
    session_->WaitAll();
  });
  ExpectCost(cost, kFew, 2 * kFew);
}

struct Shape {
  std::string name;
  StoreParameters parameters;
  size_t servers;
  uint64_t keys;
  size_t longest_value;
  uint64_t cache_bytes = 1 << 20;

  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }
};

// Rounds of writes on one session, those of a round all at once and several of each key, compared
// with a std::map. The writes of a key in a round are of one mode: so their order does not matter
// but for which of them is first or last.
class GatheredModelTest : public testing::TestWithParam<Shape> {
 protected:
  struct Write {
    WriteMode mode = WriteMode::kPut;
    std::string key;
    std::string value;
    std::optional<Status> result{};
  };

  static const Shape& shape() { return GetParam(); }

  std::string KeyOf(uint64_t number) const { return NumberKey(number * 0x0101'0101'0101); }
  std::string DrawValue() {
    const size_t bytes = random_() % 4 == 0 ? random_() % (shape().longest_value + 1)
                                            : shape().parameters.inline_value_bytes;
    std::string value(bytes, static_cast<char>('a' + random_() % 26));
    if (bytes > 2) value.replace(0, 2, fmt::format("{:02x}", ++last_value_ % 256));
    return value;
  }
  std::vector<Write> DrawRound() {
    const size_t keys = 1 + random_() % 60;
    const uint64_t reach = random_() % 2 == 0 ? shape().keys : 1 + random_() % 60;
    const uint64_t first = random_() % (shape().keys - reach + 1);
    const bool has_one_mode = random_() % 2 == 0;
    const auto common = static_cast<WriteMode>(random_() % kWriteModes);
    std::map<std::string, WriteMode> modes;
    std::vector<Write> writes;
    for (size_t i = 0; i < keys; ++i) {
      const std::string key = KeyOf(first + random_() % reach);
      const auto drawn = has_one_mode ? common : static_cast<WriteMode>(random_() % kWriteModes);
      const WriteMode mode = modes.try_emplace(key, drawn).first->second;
      const size_t count = random_() % 6 == 0 ? 2 + random_() % 5 : 1;
      for (size_t j = 0; j < count; ++j) writes.push_back({mode, key, DrawValue()});
    }
    std::shuffle(writes.begin(), writes.end(), random_);
    return writes;
  }
  void Do(std::vector<Write>& writes) {
    const auto run = [](OpenSession& session, Write& write) -> Task<void> {
      write.result = co_await session.AsyncWrite(write.key, write.value, write.mode);
    };
    for (Write& write : writes) session_->Spawn(run(*session_, write));
    session_->WaitAll();
  }
  // The writes of one key.
  void ExpectResults(const std::string& key, std::span<const Write* const> writes) {
    const WriteMode mode = writes.front()->mode;
    const bool was_there = model_.contains(key);
    const auto done = static_cast<size_t>(std::ranges::count_if(
        writes, [](const Write* write) { return write->result->has_value(); }));
    const bool is_refused =
        mode == WriteMode::kInsert ? was_there : mode != WriteMode::kPut && !was_there;
    const bool is_once = mode == WriteMode::kInsert || mode == WriteMode::kDelete;
    ASSERT_EQ(done, is_refused ? 0u : is_once ? 1u : writes.size());
    for (const Write* write : writes) {
      if (*write->result) continue;
      ASSERT_EQ(write->result->error().code,
                mode == WriteMode::kInsert ? Code::kAlreadyExists : Code::kNotFound);
    }
    const Result<std::string> value = session_->Get(key);
    if (is_refused ? !was_there : mode == WriteMode::kDelete) {
      ASSERT_FALSE(value);
      model_.erase(key);
    } else if (is_refused) {
      ASSERT_EQ(value.value(), model_[key]);
    } else {
      // That of one that was done.
      ASSERT_TRUE(value) << value.error().ToString();
      ASSERT_TRUE(std::ranges::any_of(writes, [&](const Write* write) {
        return *write->result && write->value == value.value();
      }));
      model_[key] = value.value();
    }
    const bool is_new = !was_there && !is_refused;
    if (mode == WriteMode::kDelete) {
      counts_.deletes += writes.size();
    } else if (mode == WriteMode::kInsert) {
      counts_.inserts += writes.size();
    } else {
      counts_.inserts += is_new ? 1 : 0;
      counts_.updates += writes.size() - (is_new ? 1 : 0);
    }
  }
  void ExpectResults(const std::vector<Write>& writes) {
    std::map<std::string, std::vector<const Write*>> by_key;
    for (const Write& write : writes) by_key[write.key].push_back(&write);
    for (const auto& [key, of_key] : by_key) ASSERT_NO_FATAL_FAILURE(ExpectResults(key, of_key));
  }
  void ExpectCounts(const Counters& counters) {
    const auto operations = [&](OperationClass kind) { return counters.of(kind).operations; };
    EXPECT_EQ(operations(OperationClass::kUpdate), counts_.updates);
    EXPECT_EQ(operations(OperationClass::kDelete), counts_.deletes);
    EXPECT_EQ(operations(OperationClass::kInsert) + operations(OperationClass::kInsertSplit),
              counts_.inserts);
  }

  struct OperationCounts {
    uint64_t updates = 0;
    uint64_t inserts = 0;
    uint64_t deletes = 0;
  };

  std::mt19937_64 random_{TestSeed()};
  uint64_t last_value_ = 0;
  std::map<std::string, std::string> model_;
  OperationCounts counts_;
  std::unique_ptr<OpenSession> session_;
};

TEST_P(GatheredModelTest, EachWriteHasTheResultOfASingleOne) {
  ClusterOptions options;
  options.parameters = shape().parameters;
  options.servers = shape().servers;
  options.memory_bytes = uint64_t{64} << 20;
  TestCluster cluster(options);
  TestClient client(cluster, {10'000, shape().cache_bytes});
  session_ = client.NewSession();
  const std::string too_long(shape().parameters.max_key_bytes + 1, 'k');
  for (int round = 0; round < Rounds(300); ++round) {
    std::vector<Write> writes = DrawRound();
    std::vector<Write> refused(round % 8, {WriteMode::kPut, too_long, "value"});
    Do(refused);
    ASSERT_NO_FATAL_FAILURE(Do(writes));
    for (const Write& write : refused)
      ASSERT_EQ(write.result->error().code, Code::kInvalidArgument);
    ASSERT_NO_FATAL_FAILURE(ExpectResults(writes));
  }
  ExpectCounts(session_->counters());
  session_.reset();
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
  EXPECT_EQ(report.keys, model_.size());
  EXPECT_EQ(report.missing_downlinks, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shapes, GatheredModelTest,
                         testing::Values(Shape{"SmallNodes", {256, 8, 8}, 1, 1000, 8},
                                         Shape{"Usual", {1024, 8, 8}, 2, 3000, 8},
                                         Shape{"Blocks", {512, 32, 16}, 2, 600, 200},
                                         Shape{"LargeNodes", {4096, 16, 32}, 3, 4000, 32},
                                         Shape{"NoCache", {256, 8, 8}, 1, 300, 12, 0}),
                         [](const testing::TestParamInfo<Shape>& param) {
                           return param.param.name;
                         });

// A session of the test.
class GatheredTest : public testing::Test {
 protected:
  GatheredTest() : cluster_(Options()), client_(cluster_), session_(client_.NewSession()) {
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(session_->Put(NumberKey(i), "12345678"));
  }
  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    return options;
  }

  TestCluster cluster_;
  TestClient client_;
  std::unique_ptr<OpenSession> session_;
};

// While the group is open.
TEST_F(GatheredTest, ASessionThatEndsDoesItsWritesFirst) {
  size_t done = 0;
  const auto put = [&](uint64_t number) -> Task<void> {
    const std::string key = NumberKey(number);
    EXPECT_TRUE(co_await session_->AsyncPut(key, "abcdefgh"));
    ++done;
  };
  for (uint64_t i = 0; i < 20; ++i) session_->Spawn(put(50 * i));
  session_.reset();
  EXPECT_EQ(done, 20u);
  const std::unique_ptr<OpenSession> reader = client_.NewSession();
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(reader->Get(NumberKey(50 * i)).value(), "abcdefgh");
}

// Each such call runs the others' coroutines.
TEST_F(GatheredTest, CoroutinesMayCallSynchronously) {
  constexpr uint64_t kRounds = 5;
  size_t done = 0;
  const auto put = [&](uint64_t number) -> Task<void> {
    for (uint64_t round = 0; round < kRounds; ++round) {
      const std::string key = NumberKey(50 * number + round);
      EXPECT_TRUE(co_await session_->AsyncPut(key, "abcdefgh"));
      EXPECT_EQ(session_->Get(key).value(), "abcdefgh");
      EXPECT_TRUE(session_->Put(key, "ABCDEFGH"));
      ++done;
    }
  };
  for (uint64_t i = 0; i < 20; ++i) session_->Spawn(put(i));
  session_->WaitAll();
  EXPECT_EQ(done, 20 * kRounds);
  for (uint64_t i = 0; i < 20; ++i) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      EXPECT_EQ(session_->Get(NumberKey(50 * i + round)).value(), "ABCDEFGH");
    }
  }
}

}  // namespace
}  // namespace gossamer
