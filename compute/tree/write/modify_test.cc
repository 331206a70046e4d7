// A read-modify-write is one operation: it is never lost or done twice. That holds for values in
// leaves and in blocks, beside other writers, and after losses.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

using Kind = ValueModifier::Kind;

class Append final : public ValueModifier {
 public:
  explicit Append(std::string_view piece) : piece_(piece) {}
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    ++calls_;
    result_ = std::string(value.value_or("")) + std::string(piece_);
    return {Kind::kPut, result_};
  }
  int calls() const { return calls_; }

 private:
  std::string_view piece_;
  std::string result_;
  int calls_ = 0;
};

class Increment final : public ValueModifier {
 public:
  // Blanks fill the value up to `bytes`.
  explicit Increment(size_t bytes = 0) : bytes_(bytes) {}
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    uint64_t number = 0;
    if (value) std::from_chars(value->data(), value->data() + value->size(), number);
    result_ = std::to_string(number + 1);
    if (result_.size() < bytes_) result_.resize(bytes_, ' ');
    return {Kind::kPut, result_};
  }

 private:
  const size_t bytes_;
  std::string result_;
};

// Does what it is told, and remembers the value that it saw last.
class Fixed final : public ValueModifier {
 public:
  explicit Fixed(Change change) : change_(change) {}
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    seen_ = value ? std::optional(std::string(*value)) : std::nullopt;
    return change_;
  }
  const std::optional<std::string>& seen() const { return seen_; }

 private:
  Change change_;
  std::optional<std::string> seen_;
};

ClusterOptions Options() {
  ClusterOptions options;
  options.parameters = {512, kMaxKeyBytes, 16};
  options.servers = 2;
  return options;
}

// A key of each form: in the leaf, and as a long one.
std::string KeyOf(size_t number, bool is_long) {
  return fmt::format("{}{:04}", is_long ? std::string(200, 'p') : std::string("k"), number) +
         (is_long ? std::string(40, 's') : "");
}

TEST(ModifyTest, KeepsPutsAndDeletesWhereverTheValueIs) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  for (const bool is_long : {false, true}) {
    const std::string key = KeyOf(1, is_long);
    Fixed deletes_nothing({Kind::kDelete, {}});
    ASSERT_TRUE(session->Modify(key, deletes_nothing));
    EXPECT_EQ(deletes_nothing.seen(), std::nullopt);
    EXPECT_FALSE(session->Get(key));
    std::optional<std::string> before;
    for (const std::string& value :
         {std::string("short"), std::string(100, 'b'), std::string("again"), std::string(5000, 'c'),
          std::string(4000, 'd'), std::string()}) {
      Fixed puts({Kind::kPut, value});
      const Status put = session->Modify(key, puts);
      ASSERT_TRUE(put) << put.error().ToString();
      EXPECT_EQ(puts.seen(), before);
      Fixed keeps({Kind::kKeep, {}});
      ASSERT_TRUE(session->Modify(key, keeps));
      EXPECT_EQ(keeps.seen(), value);
      EXPECT_EQ(session->Get(key).value(), value);
      before = value;
    }
    ASSERT_TRUE(session->Put(key, std::string(300, 'e')));
    Fixed deletes({Kind::kDelete, {}});
    ASSERT_TRUE(session->Modify(key, deletes));
    EXPECT_EQ(deletes.seen(), std::string(300, 'e'));
    EXPECT_EQ(session->Get(key).error().code, Code::kNotFound);
  }
  Fixed too_long({Kind::kPut, std::string_view()});
  EXPECT_EQ(session->Modify(std::string(kMaxKeyBytes + 1, 'k'), too_long).error().code,
            Code::kInvalidArgument);
  const std::string huge(kMaxValueBytes + 1, 'h');
  Fixed puts_huge({Kind::kPut, huge});
  EXPECT_EQ(session->Modify("k", puts_huge).error().code, Code::kInvalidArgument);
  EXPECT_EQ(session->Get("k").error().code, Code::kNotFound);
  EXPECT_EQ(cluster.Check().problems.size(), 0U);
}

TEST(ModifyTest, InTheLeafItCostsWhatAnUpdateCosts) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  ASSERT_TRUE(session->Put("counter", "1"));
  const auto cost_of = [&](const auto& act) {
    const WireCounts before = session->counters().of(OperationClass::kUpdate);
    act();
    const WireCounts after = session->counters().of(OperationClass::kUpdate);
    return std::array{after.operations - before.operations, after.round_trips - before.round_trips,
                      after.reads - before.reads, after.writes - before.writes,
                      after.atomics - before.atomics};
  };
  const auto update = cost_of([&] { ASSERT_TRUE(session->Update("counter", "2")); });
  Increment increment;
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(session->Modify("counter", increment)); }), update);
  EXPECT_EQ(update[1], 2U);
  EXPECT_EQ(session->Get("counter").value(), "3");
}

// Modifies many keys at a time.
class Modifiers {
 public:
  template <typename Modifier, typename... Arguments>
  void Add(std::string key, Arguments&&... arguments) {
    keys_.push_back(std::make_unique<std::string>(std::move(key)));
    modifiers_.push_back(std::make_unique<Modifier>(std::forward<Arguments>(arguments)...));
    all_.push_back({*keys_.back(), modifiers_.back().get()});
  }
  const std::vector<Status>& Run(Session& session) {
    results_.assign(all_.size(), MakeError(Code::kInvalidArgument, "not set"));
    session.MultiModify(all_, results_);
    return results_;
  }

 private:
  std::vector<std::unique_ptr<std::string>> keys_;
  std::vector<std::unique_ptr<ValueModifier>> modifiers_;
  std::vector<KeyModifier> all_;
  std::vector<Status> results_;
};

TEST(MultiModifyTest, ItCostsWhatPutsOfTheSameKeysCost) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  for (size_t i = 0; i < 1000; ++i) ASSERT_TRUE(session->Put(KeyOf(i, false), "7"));
  std::vector<std::string> keys;
  for (size_t i = 0; i < 1000; i += 100) keys.push_back(KeyOf(i, false));
  const auto cost_of = [&](const auto& act) {
    const WireCounts before = session->counters().of(OperationClass::kUpdate);
    act();
    const WireCounts after = session->counters().of(OperationClass::kUpdate);
    return std::array{after.operations - before.operations, after.round_trips - before.round_trips,
                      after.reads - before.reads, after.writes - before.writes,
                      after.atomics - before.atomics};
  };
  std::vector<KeyValueView> pairs;
  for (const std::string& key : keys) pairs.push_back({key, "8"});
  std::vector<Status> put(pairs.size(), Ok());
  // Until the session does not take its puts for inserts any more, which read the overflow group
  // along.
  for (int i = 0; i < 5; ++i) session->MultiPut(pairs, put);
  const auto cost_of_puts = cost_of([&] { session->MultiPut(pairs, put); });
  Modifiers increments;
  for (const std::string& key : keys) increments.Add<Increment>(key);
  const auto cost = cost_of([&] {
    for (const Status& one : increments.Run(*session)) EXPECT_TRUE(one);
  });
  EXPECT_EQ(cost, cost_of_puts);
  EXPECT_EQ(cost[0], keys.size());
  EXPECT_EQ(cost[1], 2U) << "round trips";
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(session->Get(KeyOf(i, false)).value(), i % 100 == 0 ? "9" : "7");
  }
}

TEST(MultiModifyTest, ManyOfFewLeavesTakeTwoRoundTripsTogether) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  constexpr uint64_t kKeys = 64;
  Modifiers increments;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(session->Put(KeyOf(i, false), "7"));
    increments.Add<Increment>(KeyOf(i, false));
  }
  const WireCounts before = session->counters().of(OperationClass::kUpdate);
  for (const Status& one : increments.Run(*session)) EXPECT_TRUE(one);
  const WireCounts after = session->counters().of(OperationClass::kUpdate);
  EXPECT_EQ(after.operations - before.operations, kKeys);
  EXPECT_EQ(after.round_trips - before.round_trips, 2U);
  // A READ and two atomics for each leaf, and a WRITE for each of its units.
  EXPECT_LE(after.reads - before.reads, kKeys / 8);
  EXPECT_LE(after.writes - before.writes, kKeys / 2);
  for (uint64_t i = 0; i < kKeys; ++i) EXPECT_EQ(session->Get(KeyOf(i, false)).value(), "8");

  Modifiers deletes;
  for (uint64_t i = 0; i < kKeys; ++i) {
    deletes.Add<Fixed>(KeyOf(i, false), ValueModifier::Change{Kind::kDelete});
  }
  for (const Status& one : deletes.Run(*session)) EXPECT_TRUE(one);
  const Counters deleted = session->counters();
  EXPECT_EQ(deleted.of(OperationClass::kDelete).operations, kKeys);
  EXPECT_EQ(deleted.of(OperationClass::kUpdate).round_trips - after.round_trips, 2U);
  for (uint64_t i = 0; i < kKeys; ++i) EXPECT_FALSE(session->Get(KeyOf(i, false)));
}

// Against a map: keys of both forms, values in leaves and in blocks, absent keys, deletions,
// several of one key.
TEST(MultiModifyTest, DoesEachInTheirOrder) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  std::mt19937_64 random(TestSeed());
  std::map<std::string, std::string> model;
  const std::vector<std::string> pieces{"", "a", "bc", std::string(15, 'd'), std::string(300, 'e')};
  for (int round = 0; round < 200; ++round) {
    Modifiers modifiers;
    const size_t count = random() % 40;
    const size_t keys = random() % 2 == 0 ? 10 : 2000;
    for (size_t i = 0; i < count; ++i) {
      const std::string key = KeyOf(random() % keys, random() % 5 == 0);
      const std::string& piece = pieces[random() % (random() % 4 == 0 ? pieces.size() : 3)];
      switch (random() % 5) {
        case 0:
          modifiers.Add<Fixed>(key, ValueModifier::Change{Kind::kDelete, {}});
          model.erase(key);
          break;
        case 1: modifiers.Add<Fixed>(key, ValueModifier::Change{Kind::kKeep, {}}); break;
        case 2:
          modifiers.Add<Fixed>(key, ValueModifier::Change{Kind::kPut, piece});
          model[key] = piece;
          break;
        default: modifiers.Add<Append>(key, piece); model[key] += piece;
      }
    }
    for (const Status& one : modifiers.Run(*session)) ASSERT_TRUE(one) << one.error().ToString();
    if (round % 20 != 0) continue;
    std::map<std::string, std::string> found;
    const auto cursor = session->Scan({});
    while (cursor->Next()) found[std::string(cursor->key())] = cursor->value();
    ASSERT_TRUE(cursor->status());
    ASSERT_EQ(found, model);
  }
  EXPECT_EQ(cluster.Check().problems.size(), 0U);
}

TEST(MultiModifyTest, AWrongKeyHarmsNoOther) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  Modifiers modifiers;
  modifiers.Add<Increment>("a");
  modifiers.Add<Increment>(std::string(kMaxKeyBytes + 1, 'k'));
  modifiers.Add<Increment>("b");
  const std::vector<Status>& results = modifiers.Run(*session);
  EXPECT_TRUE(results[0]);
  EXPECT_EQ(results[1].error().code, Code::kInvalidArgument);
  EXPECT_TRUE(results[2]);
  EXPECT_EQ(session->Get("b").value(), "1");
}

// Threads of two compute servers, each with several at a time.
// The first call learns that the values are in blocks.
TEST(MultiModifyTest, ValuesInBlocksAreReadTogetherAndWrittenTogether) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  for (size_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(session->Put(KeyOf(i, false), std::string(100, '7')));
  Modifiers appends;
  Modifiers keeps;
  constexpr size_t kKeys = 20;
  for (size_t i = 0; i < kKeys; ++i) {
    appends.Add<Append>(KeyOf(i * 50, false), "x");
    keeps.Add<Fixed>(KeyOf(i * 50, false), ValueModifier::Change{});
  }
  const auto cost_of = [&](Modifiers& modifiers) {
    const Counters before = session->counters();
    for (const Status& one : modifiers.Run(*session)) EXPECT_TRUE(one);
    const Counters after = session->counters();
    const auto trips = [](const Counters& counters, OperationClass kind) {
      return counters.of(kind).round_trips;
    };
    std::array<uint64_t, 3> cost{};  // round trips of reads, those of writes, atomics
    cost[0] = trips(after, OperationClass::kRead) - trips(before, OperationClass::kRead);
    for (const OperationClass kind : {OperationClass::kUpdate, OperationClass::kInsert}) {
      cost[1] += trips(after, kind) - trips(before, kind);
      cost[2] += after.of(kind).atomics - before.of(kind).atomics;
    }
    return cost;
  };
  cost_of(appends);
  EXPECT_EQ(cost_of(appends), (std::array<uint64_t, 3>{2, 2, 2 * kKeys}));
  EXPECT_EQ(session->Get(KeyOf(50, false)).value(), std::string(100, '7') + "xx");
  EXPECT_EQ(cost_of(keeps), (std::array<uint64_t, 3>{2, 0, 0}));
  // Numbers, that are in the leaves: one call learns it.
  for (size_t i = 0; i < 1000; ++i) ASSERT_TRUE(session->Put(KeyOf(i, false), "7"));
  Modifiers increments;
  for (size_t i = 0; i < kKeys; ++i) increments.Add<Increment>(KeyOf(i * 50, false));
  cost_of(increments);
  EXPECT_EQ(cost_of(increments), (std::array<uint64_t, 3>{0, 2, 2 * kKeys}));
  EXPECT_EQ(session->Get(KeyOf(50, false)).value(), "9");
}

// Numbers in leaves and in blocks, beside other writers of them.
TEST(MultiModifyTest, NoneIsLostAndNoneIsDoneTwice) {
  for (const size_t padded_one_in : {0, 2, 1}) {
    TestCluster cluster(Options());
    const std::unique_ptr<Store> stores[] = {cluster.OpenStore(), cluster.OpenStore()};
    constexpr size_t kKeys = 60;
    constexpr int kRounds = 40;
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        const auto session = std::move(stores[thread % 2]->NewSession().value());
        for (int round = 0; round < kRounds; ++round) {
          Modifiers increments;
          for (size_t i = 0; i < kKeys; ++i) {
            const bool is_padded = padded_one_in != 0 && i % padded_one_in == 0;
            increments.Add<Increment>(KeyOf(i * 31, i % 10 == 0), is_padded ? 50u : 0u);
          }
          for (const Status& one : increments.Run(*session))
            ASSERT_TRUE(one) << one.error().ToString();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto session = std::move(stores[0]->NewSession().value());
    for (size_t i = 0; i < kKeys; ++i) {
      const std::string value = session->Get(KeyOf(i * 31, i % 10 == 0)).value();
      EXPECT_EQ(value.substr(0, value.find(' ')), std::to_string(4 * kRounds)) << i;
    }
  }
}

// Two compute servers, two threads each, many coroutines: counters, and texts that grow out of the
// leaf.
TEST(ModifyTest, NoneIsLostAndNoneIsDoneTwice) {
  constexpr int kThreads = 4;
  constexpr int kLanes = 8;
  constexpr int kRounds = 60;
  constexpr size_t kKeys = 4;
  TestCluster cluster(Options());
  std::vector<std::unique_ptr<Store>> stores;
  stores.push_back(cluster.OpenStore());
  stores.push_back(cluster.OpenStore());
  std::atomic<int> failed = 0;
  const auto lane = [&failed](Session& session, uint64_t seed) -> Task<void> {
    std::mt19937_64 random(seed);
    for (int round = 0; round < kRounds; ++round) {
      const size_t number = random() % kKeys;
      const bool is_long = random() % 4 == 0;
      const std::string counter = "n" + KeyOf(number, is_long);
      const std::string text = "t" + KeyOf(number, is_long);
      Increment increment;
      const Status counted = co_await session.AsyncModify(counter, increment);
      Append append(std::string_view("x"));
      const Status grown = co_await session.AsyncModify(text, append);
      if (!counted || !grown) ++failed;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Session> session =
          std::move(stores[static_cast<size_t>(i) % 2]->NewSession().value());
      for (int j = 0; j < kLanes; ++j) {
        session->Spawn(
            lane(*session, static_cast<uint64_t>(i) * kLanes + static_cast<uint64_t>(j)));
      }
      session->WaitAll();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const std::unique_ptr<Session> session = std::move(stores[0]->NewSession().value());
  uint64_t counted = 0;
  uint64_t grown = 0;
  for (size_t number = 0; number < kKeys; ++number) {
    for (const bool is_long : {false, true}) {
      const std::string counter = session->Get("n" + KeyOf(number, is_long)).value();
      counted += std::stoull(counter);
      const std::string text = session->Get("t" + KeyOf(number, is_long)).value();
      EXPECT_EQ(text.find_first_not_of('x'), std::string::npos);
      grown += text.size();
    }
  }
  EXPECT_EQ(counted, uint64_t{kThreads} * kLanes * kRounds);
  EXPECT_EQ(grown, uint64_t{kThreads} * kLanes * kRounds);
  EXPECT_EQ(cluster.Check().problems.size(), 0U);
}

TEST(ModifyTest, ManyOfOneKeyAreWrittenTogether) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  ASSERT_TRUE(session->Put("counter", "0"));
  constexpr int kTogether = 16;
  for (int i = 0; i < kTogether; ++i) {
    session->Spawn([](Session& s) -> Task<void> {
      Increment increment;
      EXPECT_TRUE(co_await s.AsyncModify("counter", increment));
    }(*session));
  }
  session->WaitAll();
  EXPECT_EQ(session->Get("counter").value(), std::to_string(kTogether));
  EXPECT_EQ(session->counters().locks.combined, uint64_t{kTogether} - 1);
}

TEST(ModifyTest, FillsLeavesAndSplitsThem) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  std::mt19937_64 random(1);
  std::map<std::string, std::string> model;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = KeyOf(random() % 500, random() % 5 == 0);
    if (random() % 8 == 0) {
      Fixed deletes({Kind::kDelete, {}});
      ASSERT_TRUE(session->Modify(key, deletes));
      const auto found = model.find(key);
      EXPECT_EQ(deletes.seen(), found == model.end() ? std::nullopt : std::optional(found->second));
      model.erase(key);
      continue;
    }
    const std::string piece(random() % 12, static_cast<char>('a' + i % 26));
    Append append(piece);
    ASSERT_TRUE(session->Modify(key, append));
    model[key] += piece;
  }
  for (const auto& [key, value] : model) EXPECT_EQ(session->Get(key).value(), value);
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problems.size(), 0U);
  EXPECT_EQ(report.keys, model.size());
  EXPECT_GT(session->counters().of(OperationClass::kInsertSplit).operations, 0U);
}

// The connection is lost at each verb in turn, of which some take effect.
// A leaf may take a key whole as long as its prefix is its own, and where it has no room and no
// short fence for a split, as a long one only.
TEST(ModifyTest, ALeafThatIsFullMayTakeAKeyAsALongOneOnly) {
  constexpr size_t kKeys = 60;
  ClusterOptions options;
  options.parameters = {1024, kMaxKeyBytes, 16};
  TestCluster cluster(options);
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  const std::string common(111, 'c');
  // So the last leaf begins with what is common.
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(
        session->Put(fmt::format("{}a{:04}", common, i) + std::string(90, 't'), "12345678"));
  }
  std::map<std::string, std::string> expected;
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key =
        fmt::format("{}{}{:04}", common, std::string(41, 'b'), i * 7919 % 10000) +
        std::string(50, 't');
    const std::string value = fmt::format("{:08}", i);
    Fixed puts({Kind::kPut, value});
    const Status put = session->Modify(key, puts);
    ASSERT_TRUE(put) << put.error().ToString();
    EXPECT_EQ(puts.seen(), std::nullopt);
    expected[key] = value;
    for (const auto& [present, stored] : expected) {
      const Result<std::string> got = session->Get(present);
      ASSERT_TRUE(got) << got.error().ToString();
      ASSERT_EQ(got.value(), stored);
    }
  }
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0U) << testing::PrintToString(report.problems);
  EXPECT_GT(report.blocks, 0U);
}

TEST(ModifyTest, AfterALossItWasDoneOnceOrTheErrorSaysThatItIsNotKnown) {
  for (const bool is_long : {false, true}) {
    for (const size_t before : {size_t{3}, size_t{100}}) {
      uint64_t lost = 0;
      for (uint64_t at = 1; at <= 12; ++at) {
        for (const uint64_t applied : {uint64_t{0}, uint64_t{1}, FaultPlan::kNever}) {
          TestCluster cluster(Options());
          TestClient client(cluster);
          FaultPlan plan;
          plan.can_reconnect = true;
          const std::unique_ptr<OpenSession> session = client.NewSession(plan);
          const std::string key = KeyOf(1, is_long);
          const std::string old(before, 'o');
          ASSERT_TRUE(session->Put(key, old));
          plan.break_at = plan.verbs + at;
          plan.applied = applied;
          Append append(std::string_view("x"));
          const Status status = session->Modify(key, append);
          lost += plan.broke ? 1 : 0;
          const std::string trace = fmt::format("verb {}, {} applied", at, applied);
          const std::unique_ptr<OpenSession> reader = client.NewSession();
          const Result<std::string> value = reader->Get(key);
          ASSERT_TRUE(value) << trace;
          if (status) {
            EXPECT_EQ(value.value(), old + "x") << trace;
          } else if (status.error().code == Code::kMaybeApplied) {
            EXPECT_TRUE(value.value() == old || value.value() == old + "x") << trace;
          } else {
            EXPECT_EQ(value.value(), old) << trace << ": " << status.error().ToString();
          }
        }
      }
      EXPECT_GT(lost, 9U);
    }
  }
}

TEST(MultiModifyTest, AfterALossEachWasDoneOnceOrTheErrorSaysThatItIsNotKnown) {
  constexpr size_t kKeys = 12;
  uint64_t lost = 0;
  for (uint64_t at = 1; at <= 60; at += 3) {
    for (const uint64_t applied : {uint64_t{0}, uint64_t{1}, uint64_t{5}, FaultPlan::kNever}) {
      TestCluster cluster(Options());
      TestClient client(cluster);
      FaultPlan plan;
      plan.can_reconnect = true;
      const std::unique_ptr<OpenSession> session = client.NewSession(plan);
      for (size_t i = 0; i < 300; ++i) ASSERT_TRUE(session->Put(KeyOf(i, false), "7"));
      plan.break_at = plan.verbs + at;
      plan.applied = applied;
      Modifiers modifiers;
      const auto key_of = [](size_t number) { return KeyOf(number * 25, false); };
      const std::string piece(40, 'x');
      for (size_t i = 0; i < kKeys; ++i) {
        if (i == 5) {
          modifiers.Add<Append>(key_of(i), piece);  // into a block
        } else {
          modifiers.Add<Increment>(key_of(i));
        }
      }
      const std::vector<Status>& results = modifiers.Run(*session);
      lost += plan.broke ? 1 : 0;
      const std::unique_ptr<OpenSession> reader = client.NewSession();
      for (size_t i = 0; i < kKeys; ++i) {
        const std::string trace = fmt::format("verb {}, {} applied, key {}", at, applied, i);
        const std::string changed = i == 5 ? "7" + piece : "8";
        const Result<std::string> value = reader->Get(key_of(i));
        ASSERT_TRUE(value) << trace;
        if (results[i]) {
          EXPECT_EQ(value.value(), changed) << trace;
        } else if (results[i].error().code == Code::kMaybeApplied) {
          EXPECT_TRUE(value.value() == "7" || value.value() == changed) << trace;
        } else {
          EXPECT_EQ(value.value(), "7") << trace << ": " << results[i].error().ToString();
        }
      }
    }
  }
  EXPECT_GT(lost, 30U);
}

// Puts "9" where it finds "8", and keeps all else.
class PutsNineForEight final : public ValueModifier {
 public:
  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    return value == "8" ? Change{Kind::kPut, "9"} : Change{Kind::kKeep, {}};
  }
};

// Each key has a modification that keeps it before one that was perhaps done: neither is done
// again, nor behind the other.
TEST(MultiModifyTest, WhatWasPerhapsDoneIsNotDoneAgain) {
  constexpr size_t kKeys = 12;
  uint64_t unknown = 0;
  for (uint64_t at = 1; at <= 60; at += 3) {
    for (const uint64_t applied : {uint64_t{0}, uint64_t{1}, uint64_t{5}, FaultPlan::kNever}) {
      TestCluster cluster(Options());
      TestClient client(cluster);
      FaultPlan plan;
      const std::unique_ptr<OpenSession> session = client.NewSession(plan);
      for (size_t i = 0; i < 300; ++i) ASSERT_TRUE(session->Put(KeyOf(i, false), "7"));
      plan.break_at = plan.verbs + at;
      plan.applied = applied;
      Modifiers modifiers;
      const auto key_of = [](size_t number) { return KeyOf(number * 25, false); };
      for (size_t i = 0; i < kKeys; ++i) {
        modifiers.Add<PutsNineForEight>(key_of(i));
        modifiers.Add<Increment>(key_of(i));
      }
      const std::vector<Status>& results = modifiers.Run(*session);
      const std::unique_ptr<OpenSession> reader = client.NewSession();
      for (size_t i = 0; i < kKeys; ++i) {
        const std::string trace = fmt::format("verb {}, {} applied, key {}", at, applied, i);
        const Status& result = results[2 * i + 1];
        const Result<std::string> value = reader->Get(key_of(i));
        ASSERT_TRUE(value) << trace;
        if (result) {
          EXPECT_EQ(value.value(), "8") << trace;
        } else if (result.error().code == Code::kMaybeApplied) {
          ++unknown;
          EXPECT_TRUE(value.value() == "7" || value.value() == "8") << trace;
        } else {
          EXPECT_EQ(value.value(), "7") << trace << ": " << result.error().ToString();
        }
      }
    }
  }
  EXPECT_GT(unknown, 0U);
}

// What a leaf stores for a short key whose value is in a block.
BlockRef BlockOf(TestClient& client, const std::string& key) {
  const auto [leaf, low] = client.FindLeaf(key);
  const std::vector<std::byte> image = client.LeafBytes(leaf);
  const std::optional<LeafView> view = LeafView::Parse(image, leaf, client.shared().geometry, low);
  for (uint32_t unit = 0; unit < view->unit_count(); ++unit) {
    const std::optional<Entry> entry = view->unit(unit).Find(key);
    if (entry && entry->has_block()) return entry->block();
  }
  return {};
}

TEST(ModifyTest, ADamagedBlockIsAnError) {
  TestCluster cluster(Options());
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  ASSERT_TRUE(session->Put("k", std::string(300, 'v')));
  const BlockRef block = BlockOf(client, "k");
  std::vector<std::byte> bytes = client.Read(block.ptr().server(), block.ptr().offset(), 300);
  bytes[100] ^= std::byte{1};
  client.Write(block.ptr().server(), block.ptr().offset(), bytes);
  Append append(std::string_view("x"));
  EXPECT_EQ(session->Modify("k", append).error().code, Code::kCorruption);
  EXPECT_EQ(append.calls(), 0);
  bytes[100] ^= std::byte{1};
  client.Write(block.ptr().server(), block.ptr().offset(), bytes);
  EXPECT_TRUE(session->Modify("k", append));
}

// The connection comes back, and is lost at the next READ of the block.
TEST(ModifyTest, ItEndsAfterSoManyLosses) {
  ClusterOptions options = Options();
  options.servers = 1;
  TestCluster cluster(options);
  TestClient client(cluster);
  FaultPlan plan;
  plan.can_reconnect = true;
  const std::unique_ptr<OpenSession> session = client.NewSession(plan);
  ASSERT_TRUE(session->Put("k", std::string(300, 'v')));
  constexpr uint64_t kVerbsOfARound = 4;  // CAS, READ, CAS, READ of the block
  plan.break_at = plan.verbs + kVerbsOfARound;
  Append append(std::string_view("x"));
  std::optional<Status> status;
  session->Spawn([](Session& s, Append& modifier, std::optional<Status>& result) -> Task<void> {
    result = co_await s.AsyncModify("k", modifier);
  }(*session, append, status));
  int losses = 0;
  while (!status && losses < 100) {
    session->Poll();
    if (!std::exchange(plan.broke, false)) continue;
    ++losses;
    plan.break_at = plan.verbs + kVerbsOfARound;
  }
  plan.break_at = FaultPlan::kNever;
  session->WaitAll();
  EXPECT_EQ(losses, 17);
  EXPECT_EQ(status->error().code, Code::kNodeUnreachable);
}

// Another's commit, along with which a modification was looked at that wrote nothing, may be
// applied or not.
TEST(ModifyTest, WhatWroteNothingIsNeverUnknown) {
  const std::string longer(300, 'x');
  for (uint64_t at = 2; at <= 5; ++at) {
    for (const bool needs_block : {false, true}) {
      TestCluster cluster(Options());
      TestClient client(cluster);
      FaultPlan plan;
      const std::unique_ptr<OpenSession> one = client.NewSession(plan);
      const std::unique_ptr<OpenSession> two = client.NewSession();
      ASSERT_TRUE(one->Put("k", "old"));
      ASSERT_TRUE(two->Put("k", "old"));
      ASSERT_TRUE(two->Put("b", std::string(300, 'b')));
      ASSERT_TRUE(one->Get("b"));
      plan.break_at = plan.verbs + at;
      plan.allowed_verbs = plan.verbs + 1;
      Status put = Ok();
      one->Spawn([](Session& s, Status& result) -> Task<void> {
        result = co_await s.AsyncPut("k", "new");
      }(*one, put));
      for (int i = 0; i < 10; ++i) one->Poll();
      Fixed keeps({Kind::kKeep, {}});
      Append append(longer);
      ValueModifier& modifier = needs_block ? static_cast<ValueModifier&>(append) : keeps;
      Status modified = MakeError(Code::kUnsupported);
      two->Spawn([](Session& s, ValueModifier& m, Status& result) -> Task<void> {
        result = co_await s.AsyncModify("k", m);
      }(*two, modifier, modified));
      for (int i = 0; i < 10; ++i) two->Poll();
      plan.allowed_verbs = FaultPlan::kNever;
      while (one->Poll() + two->Poll() != 0) {
      }
      EXPECT_TRUE(modified) << "verb " << at << ": " << modified.error().ToString();
    }
  }
}

TEST(ModifyTest, ADeletionMayLeaveAValueOver) {
  TestCluster cluster(Options());
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  const std::string huge(kMaxValueBytes + 1, 'h');
  for (const size_t size : {size_t{5}, size_t{300}}) {
    ASSERT_TRUE(session->Put("k", std::string(size, 'v')));
    Fixed deletes({Kind::kDelete, huge});
    EXPECT_TRUE(session->Modify("k", deletes));
    EXPECT_EQ(session->Get("k").error().code, Code::kNotFound);
  }
}

}  // namespace
}  // namespace gossamer
