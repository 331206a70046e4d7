// The connection is lost at every verb of every kind of write. Acknowledged writes are there,
// refused ones are not, and only MaybeApplied leaves it open (lines E2, E3 of CONTRACT.md).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>

#include "common/testing/places.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr uint64_t kAll = FaultPlan::kNever;

struct Write {
  WriteMode mode;
  std::string key;
  std::string value;
};

// The writes in flight together when the connection breaks.
struct Scenario {
  std::string name;
  size_t servers;
  uint64_t loaded;  // keys 0, 10, 20, ...
  std::vector<Write> writes;
  uint64_t splits = 0;        // least number of splits among these writes
  uint64_t split_writes = 0;  // not 0: also puts the next key, one whose split takes so many WRITEs
  bool is_batch = false;      // all writes by one MultiPut, or one MultiDelete

  friend void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
};

using Model = std::map<std::string, std::string>;

std::string LoadedValue(uint64_t number) {
  return number % 3 == 0 ? std::string(100, static_cast<char>('a' + number % 26)) : "12345678";
}

class LossTest : public testing::TestWithParam<Scenario> {
 protected:
  // The state of a key after a write, from the state before it.
  static std::optional<std::string> After(const Write& write,
                                          const std::optional<std::string>& before) {
    if (write.mode == WriteMode::kDelete) return std::nullopt;
    if (write.mode == WriteMode::kInsert && before) return before;
    if (write.mode == WriteMode::kUpdate && !before) return before;
    return write.value;
  }

  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    options.servers = GetParam().servers;
    options.memory_bytes = uint64_t{2} << 20;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }

  // Finds how many keys must be loaded so that the next one splits as the scenario wants, and adds
  // that one to the writes.
  void SetUp() override {
    writes_ = GetParam().writes;
    loaded_ = GetParam().loaded;
    if (GetParam().split_writes == 0) return;
    TestCluster cluster(Options());
    TestClient client(cluster);
    const std::unique_ptr<OpenSession> session = client.NewSession();
    for (loaded_ = 0; loaded_ < 2000; ++loaded_) {
      const WireCounts before = session->counters().of(OperationClass::kInsertSplit);
      ASSERT_TRUE(session->Put(NumberKey(10 * loaded_), LoadedValue(loaded_)));
      const WireCounts after = session->counters().of(OperationClass::kInsertSplit);
      const bool splits = after.operations != before.operations &&
                          after.writes - before.writes == GetParam().split_writes;
      if (splits && loaded_ >= GetParam().loaded) break;
    }
    ASSERT_LT(loaded_, 2000u);
    writes_.push_back({WriteMode::kPut, NumberKey(10 * loaded_), LoadedValue(loaded_)});
  }

  using Results = std::vector<std::optional<Status>>;

  void Load(TestClient& client, Model& model) const {
    const std::unique_ptr<OpenSession> loader = client.NewSession();
    for (uint64_t i = 0; i < loaded_; ++i) {
      model[NumberKey(10 * i)] = LoadedValue(i);
      EXPECT_TRUE(loader->Put(NumberKey(10 * i), LoadedValue(i)));
    }
  }

  void DoBatch(OpenSession& session, Results& results) {
    std::vector<KeyValueView> pairs;
    std::vector<std::string_view> keys;
    for (const Write& write : writes_) {
      pairs.push_back({write.key, write.value});
      keys.emplace_back(write.key);
    }
    std::vector<Status> statuses(writes_.size(), Ok());
    if (writes_[0].mode == WriteMode::kDelete) {
      session.MultiDelete(keys, statuses);
    } else {
      session.MultiPut(pairs, statuses);
    }
    for (size_t i = 0; i < results.size(); ++i) results[i] = statuses[i];
  }

  // Starts all writes together, and waits for them.
  Results DoWrites(TestClient& client, FaultPlan& plan) {
    Results results(writes_.size());
    const std::unique_ptr<OpenSession> session = client.NewSession(plan);
    if (GetParam().is_batch) {
      DoBatch(*session, results);
      return results;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const auto run = [](OpenSession& on, const Write& write,
                          std::optional<Status>& result) -> Task<void> {
        result = co_await on.AsyncWrite(write.key, write.value, write.mode);
      };
      session->Spawn(run(*session, writes_[i], results[i]));
    }
    session->WaitAll();
    splits_ = session->counters().of(OperationClass::kInsertSplit).operations;
    return results;
  }

  // Checks what `write` left, given its result. The model then has what is there.
  static void CheckWrite(const Write& write, const Status& result, bool can_reconnect,
                         OpenSession& witness, Model& model) {
    const auto found = model.find(write.key);
    const std::optional<std::string> before =
        found == model.end() ? std::nullopt : std::optional<std::string>(found->second);
    const std::optional<std::string> after = After(write, before);
    const Result<std::string> now = witness.Get(write.key);
    EXPECT_TRUE(now || now.error().code == Code::kNotFound) << now.error().ToString();
    const std::optional<std::string> is =
        now ? std::optional<std::string>(now.value()) : std::nullopt;
    if (result) {
      EXPECT_EQ(is, after) << "acknowledged, and not there";
    } else if (can_reconnect) {
      // The lock word tells, so nothing stays open (rule U2).
      const Code refusal =
          write.mode == WriteMode::kDelete ? Code::kNotFound : Code::kAlreadyExists;
      EXPECT_EQ(result.error().code, refusal) << result.error().ToString();
      EXPECT_EQ(after, before);
    } else if (result.error().code == Code::kMaybeApplied) {
      EXPECT_TRUE(is == before || is == after);
    } else {
      // Contended: another of these writes kept the lock.
      const Code code = result.error().code;
      EXPECT_TRUE(code == Code::kNodeUnreachable || code == Code::kContended ||
                  (after == before && (code == Code::kAlreadyExists || code == Code::kNotFound)));
      EXPECT_EQ(is, before) << "refused, and there: " << result.error().ToString();
    }
    model.erase(write.key);
    if (is) model[write.key] = *is;
  }

  // Memory is reused, early too. Memory that entries refer to must not be.
  static void ReuseMemory(OpenSession& witness, Model& model) {
    for (uint64_t i = 0; i < 4; ++i) {
      const std::string key = NumberKey(1'000'000 + i);
      for (int again = 0; again < 2; ++again) {
        const Status put = witness.Put(key, std::string(100, static_cast<char>('A' + i)));
        if (put) model[key] = std::string(100, static_cast<char>('A' + i));
      }
    }
    for (const auto& [key, value] : model) {
      const Result<std::string> now = witness.Get(key);
      EXPECT_TRUE(now) << now.error().ToString();
      if (now) {
        EXPECT_EQ(now.value(), value);
      }
    }
  }

  // One run with the connection lost at verb `break_at`. Returns false if the writes ended before
  // it.
  bool LoseAt(uint64_t break_at, uint64_t applied, bool can_reconnect) {
    TestCluster cluster(Options());
    Model model;
    // A short timeout only where the server stays lost: elsewhere it would end writes that recover.
    TestClient client(cluster, {can_reconnect ? 1000u : 2u, uint64_t{1} << 20});
    Load(client, model);
    FaultPlan plan;
    plan.break_at = break_at;
    plan.applied = applied;
    plan.can_reconnect = can_reconnect;
    constexpr uint64_t kReconnects = 1000;
    plan.reconnects_left = kReconnects;
    const Results results = DoWrites(client, plan);
    lost_ = plan.lost;
    EXPECT_EQ(plan.forbidden_writes, 0u);
    EXPECT_LE(kReconnects - plan.reconnects_left, 1u) << "more than the one that was lost";

    // Another session of the same compute server allocates from the same memory.
    const std::unique_ptr<OpenSession> witness = client.NewSession();
    for (size_t i = 0; i < results.size(); ++i) {
      CheckWrite(writes_[i], *results[i], can_reconnect, *witness, model);
    }
    ReuseMemory(*witness, model);
    const CheckReport report = cluster.CheckOnce();
    EXPECT_EQ(report.problem_count, report.locks_held) << testing::PrintToString(report.problems);
    if (can_reconnect) {
      EXPECT_EQ(report.locks_held, 0u);
    }
    EXPECT_EQ(report.keys, model.size());
    return plan.broke;
  }

  // Returns false if the writes ended before `verb`.
  bool LoseInEachWayAt(uint64_t verb, bool can_reconnect) {
    for (const uint64_t applied : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, kAll}) {
      SCOPED_TRACE(fmt::format("lost at verb {}, applied {}", verb, applied));
      ++runs_;
      if (!LoseAt(verb, applied, can_reconnect) || HasFailure()) return false;
      if (applied >= lost_) break;  // more of them are the same run
    }
    return true;
  }

  void LoseAtEveryVerb(bool can_reconnect) {
    for (uint64_t verb = FirstPlace(); LoseInEachWayAt(verb, can_reconnect); verb += kPlaceStep)
      continue;
    if (HasFailure()) return;
    EXPECT_GE(splits_, GetParam().splits) << "when nothing was lost";
    RecordProperty("runs", std::to_string(runs_));
  }

  std::vector<Write> writes_;
  uint64_t loaded_ = 0;
  uint64_t runs_ = 0;
  // In the last run:
  uint64_t splits_ = 0;
  uint64_t lost_ = 0;  // verbs
};

class LossForGoodTest : public LossTest {};
class LossAndRecoveryTest : public LossTest {};

Write Put(uint64_t key, const std::string& value) {
  return {WriteMode::kPut, NumberKey(key), value};
}

// `count` new keys from each of `numbers` on: more than one leaf holds.
std::vector<Write> PutBetween(const std::vector<uint64_t>& numbers, uint64_t count) {
  std::vector<Write> writes;
  for (const uint64_t number : numbers) {
    for (uint64_t i = 0; i < count; ++i) writes.push_back(Put(number + i, "12345678"));
  }
  return writes;
}

// One or two writes for each of `leaves` places, of which every third is a key that is not there.
std::vector<Write> InManyLeaves(WriteMode mode, uint64_t leaves) {
  std::vector<Write> writes;
  for (uint64_t i = 0; i < leaves; ++i) {
    const uint64_t number = 150 * i + (i % 3 == 0 ? 5 : 0);
    writes.push_back({mode, NumberKey(number), "abcdefgh"});
    if (i % 2 == 0) writes.push_back({mode, NumberKey(number + 10), "ijklmnop"});
  }
  return writes;
}

auto Scenarios() {
  return testing::Values(
      Scenario{"Update", 1, 4, {Put(10, "abcdefgh")}},
      Scenario{"Insert", 1, 4, {Put(15, "abcdefgh")}},
      Scenario{"Delete", 1, 4, {{WriteMode::kDelete, NumberKey(10), ""}}},
      Scenario{"InsertOfAKeyThatIsThere", 1, 4, {{WriteMode::kInsert, NumberKey(10), "x"}}},
      Scenario{"UpdateWithABlock", 1, 4, {Put(10, std::string(100, 'z'))}},
      Scenario{"UpdateOfABlock", 1, 4, {Put(0, std::string(100, 'z'))}},
      Scenario{"UpdateWithABlockElsewhere", 2, 4, {Put(10, std::string(100, 'z'))}},
      Scenario{"RaiseTheRoot", 1, 0, {}, 1, 3}, Scenario{"SplitOfALeaf", 1, 30, {}, 1, 3},
      Scenario{"RaiseTheRootOverInternalNodes", 1, 0, {}, 1, 5},
      Scenario{"SplitOfAnInternalNode", 1, 100, {}, 1, 5},
      Scenario{"SplitsOverServers", 2, 120, {}, 1, 3},
      Scenario{"SplitWithABlockBeside", 1, 20, {Put(10, std::string(100, 'z'))}, 1, 3},
      Scenario{"SplitsTogether", 1, 40, PutBetween({41}, 6), 1},
      Scenario{"PutsTogether", 1, 45, InManyLeaves(WriteMode::kPut, 6)},
      Scenario{"PutsTogetherOverServers", 2, 45, InManyLeaves(WriteMode::kPut, 6)},
      Scenario{"InsertsTogether", 1, 45, InManyLeaves(WriteMode::kInsert, 6)},
      Scenario{"DeletesTogether", 1, 45, InManyLeaves(WriteMode::kDelete, 6)},
      Scenario{"PutsInManyLeaves", 1, 45, InManyLeaves(WriteMode::kPut, 3), 0, 0, true},
      Scenario{"PutsInManyLeavesOverServers", 2, 45, InManyLeaves(WriteMode::kPut, 3), 0, 0, true},
      Scenario{"DeletesInManyLeaves", 1, 45, InManyLeaves(WriteMode::kDelete, 3), 0, 0, true},
      Scenario{
          "TwoTogether", 1, 20, {Put(10, std::string(100, 'y')), Put(150, std::string(100, 'z'))}});
}

std::string NameOf(const testing::TestParamInfo<Scenario>& scenario) { return scenario.param.name; }

TEST_P(LossForGoodTest, AtEveryVerb) { LoseAtEveryVerb(false); }
TEST_P(LossAndRecoveryTest, AtEveryVerb) { LoseAtEveryVerb(true); }

INSTANTIATE_TEST_SUITE_P(Writes, LossForGoodTest, Scenarios(), NameOf);
INSTANTIATE_TEST_SUITE_P(Writes, LossAndRecoveryTest, Scenarios(), NameOf);

}  // namespace
}  // namespace gossamer
