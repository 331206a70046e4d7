// A tree against std::map, under many coroutines of several compute servers in a simulated network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/research/sherman/testing/sim_cluster.h"

namespace gossamer::sherman {
namespace {

constexpr uint32_t kMemoryServers = 3;
constexpr uint32_t kComputeServers = 3;
constexpr uint32_t kThreads = 2;
constexpr uint32_t kCoroutines = 8;
constexpr uint64_t kClients = kComputeServers * kThreads * kCoroutines;
constexpr uint64_t kOperations = 500;     // of each client
constexpr uint64_t kKeysOfAClient = 300;  // among all others'

// One coroutine. No other one writes its keys: so it knows what each get and scan returns for them.
class Client {
 public:
  Client(ShermanSession& session, uint64_t number, uint64_t seed)
      : session_(session), number_(number), random_(seed, number) {}

  const std::map<uint64_t, uint64_t>& model() const { return model_; }

  Task<void> Work() {
    for (uint64_t i = 0; i < kOperations && !::testing::Test::HasFailure(); ++i) {
      const uint64_t key = random_.Below(kKeysOfAClient) * kClients + number_;
      const uint64_t draw = random_.Below(100);
      if (draw < 55) {
        co_await Put(key);
      } else if (draw < 70) {
        co_await Delete(key);
      } else if (draw < 95) {
        co_await Get(key);
      } else {
        co_await Scan(key);
      }
    }
  }

 private:
  std::optional<uint64_t> Known(uint64_t key) const {
    const auto found = model_.find(key);
    return found == model_.end() ? std::nullopt : std::optional(found->second);
  }

  Task<void> Put(uint64_t key) {
    const uint64_t value = random_.Next();
    const std::string key_bytes = KeyOf(key);
    const std::string value_bytes = ValueOf(value);
    const bool is_there = Known(key).has_value();
    Status status = Ok();
    Code failure = Code::kUnsupported;
    switch (random_.Below(3)) {
      case 0: status = co_await session_.AsyncPut(key_bytes, value_bytes); break;
      case 1:
        status = co_await session_.AsyncInsert(key_bytes, value_bytes);
        if (is_there) failure = Code::kAlreadyExists;
        break;
      default:
        status = co_await session_.AsyncUpdate(key_bytes, value_bytes);
        if (!is_there) failure = Code::kNotFound;
    }
    EXPECT_EQ(static_cast<bool>(status), failure == Code::kUnsupported) << key;
    if (status) {
      model_[key] = value;
    } else {
      EXPECT_EQ(status.error().code, failure) << status.error().ToString();
    }
  }

  Task<void> Delete(uint64_t key) {
    const std::string key_bytes = KeyOf(key);
    const Status status = co_await session_.AsyncDelete(key_bytes);
    EXPECT_EQ(static_cast<bool>(status), model_.erase(key) != 0) << key;
    if (!status) {
      EXPECT_EQ(status.error().code, Code::kNotFound);
    }
  }

  Task<void> Get(uint64_t key) {
    const std::string key_bytes = KeyOf(key);
    const Result<std::string> value = co_await session_.AsyncGet(key_bytes);
    const std::optional<uint64_t> known = Known(key);
    EXPECT_EQ(static_cast<bool>(value), known.has_value()) << key;
    if (value && known) {
      EXPECT_EQ(value.value(), ValueOf(*known)) << key;
    }
  }

  // Keys come in order, each once, and this client's own ones are all there.
  Task<void> Scan(uint64_t from) {
    ScanOptions options;
    options.from = KeyOf(from);
    options.to = KeyOf(from + random_.Below(30 * kClients));
    const auto cursor = session_.Scan(options);
    std::string previous;
    auto own = model_.lower_bound(from);
    while (co_await cursor->AsyncNext()) {
      const std::string key(cursor->key());
      EXPECT_LT(previous, key);
      EXPECT_GE(key, options.from);
      EXPECT_LT(key, *options.to);
      previous = key;
      if (NumberOf(key) % kClients != number_) continue;
      const bool is_next = own != model_.end() && own->first == NumberOf(key);
      EXPECT_TRUE(is_next) << NumberOf(key);
      if (!is_next) co_return;
      EXPECT_EQ(cursor->value(), ValueOf(own->second));
      ++own;
    }
    EXPECT_TRUE(cursor->status());
    EXPECT_TRUE(own == model_.end() || KeyOf(own->first) >= *options.to) << "ended early";
  }

  ShermanSession& session_;
  const uint64_t number_;
  Random random_;
  std::map<uint64_t, uint64_t> model_;
};

class ShermanModelTest : public ::testing::TestWithParam<NamedDesign> {};
INSTANTIATE_TEST_SUITE_P(Ladder, ShermanModelTest, ::testing::ValuesIn(kLadder),
                         [](const auto& design) { return std::string(design.param.name); });

TEST_P(ShermanModelTest, ManyCoroutinesOfSeveralComputeServers) {
  SimCluster cluster(TestSeed(), kMemoryServers, GetParam().design);
  std::vector<ShermanSession*> sessions;
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t server = 0; server < kComputeServers; ++server) {
    // The last one caches few nodes.
    ShermanStore& store =
        cluster.AddStore(server + 1 == kComputeServers ? 3 * kNodeBytes : SimCluster::kCacheBytes);
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      sessions.push_back(&cluster.AddSession(store));
      for (uint32_t i = 0; i < kCoroutines; ++i) {
        clients.push_back(std::make_unique<Client>(*sessions.back(), clients.size(), TestSeed()));
        sessions.back()->Spawn(clients.back()->Work());
      }
    }
  }
  cluster.Run();

  std::map<std::string, std::string> all;
  for (const auto& client : clients) {
    for (const auto& [key, value] : client->model()) all[KeyOf(key)] = ValueOf(value);
  }
  EXPECT_GT(all.size(), 2'500u) << "enough for three levels";
  Counters counters;
  for (ShermanSession* session : sessions) {
    std::map<std::string, std::string> found;
    const auto cursor = session->Scan({});
    while (cursor->Next()) found.emplace(cursor->key(), cursor->value());
    EXPECT_TRUE(cursor->status());
    EXPECT_EQ(found, all);
    counters += session->counters();
  }
  // What is meant to happen did.
  EXPECT_GT(counters.of(OperationClass::kInsertSplit).operations, 50u);
  EXPECT_GT(counters.cache.stale, 0u);
  EXPECT_GT(counters.cache.evictions, 0u);
  EXPECT_EQ(counters.locks.handed_over > 0, GetParam().design.hierarchical_locks);
}

// Keys in order split the last leaf each time, and the root more than once.
TEST(ShermanTest, ManyKeysInOrder) {
  SimCluster cluster(TestSeed(), 2, Design{});
  ShermanSession& session = cluster.AddSession(cluster.AddStore());
  constexpr uint64_t kMany = 60'000;
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(session.Put(KeyOf(i), ValueOf(~i)));
  for (uint64_t i = 0; i < kMany; i += 97) ASSERT_EQ(session.Get(KeyOf(i)).value(), ValueOf(~i));
  ScanOptions options;
  options.from = KeyOf(777);
  options.limit = 20'000;
  const auto cursor = session.Scan(options);
  for (uint64_t i = 777; i < 20'777; ++i) {
    ASSERT_TRUE(cursor->Next());
    ASSERT_EQ(cursor->key(), KeyOf(i));
  }
  EXPECT_FALSE(cursor->Next());
  EXPECT_TRUE(cursor->status());
}

TEST(ShermanTest, TheLeastAndTheGreatestKeyAreKeys) {
  SimCluster cluster(TestSeed(), 1, Design{});
  ShermanSession& session = cluster.AddSession(cluster.AddStore());
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(session.Put(KeyOf(i), ValueOf(i)));
    ASSERT_TRUE(session.Put(KeyOf(~i), ValueOf(i)));
  }
  EXPECT_EQ(session.Get(KeyOf(0)).value(), ValueOf(0));
  EXPECT_EQ(session.Get(KeyOf(~uint64_t{0})).value(), ValueOf(0));
  uint64_t keys = 0;
  const auto cursor = session.Scan({});
  while (cursor->Next()) ++keys;
  EXPECT_EQ(keys, 400u);
}

TEST(ShermanTest, WhatItCannotDoIsASentence) {
  SimCluster cluster(TestSeed(), 1, Design{});
  ShermanSession& session = cluster.AddSession(cluster.AddStore());
  const Status key = session.Put("short", ValueOf(1));
  EXPECT_EQ(key.error().code, Code::kInvalidArgument);
  EXPECT_EQ(key.error().message, "Sherman's client takes keys of 8 bytes, and this one has 5");
  EXPECT_EQ(session.Put(KeyOf(1), "a long value").error().message,
            "Sherman's client takes values of 8 bytes, and this one has 12");
  EXPECT_EQ(session.MultiPut(std::span<const KeyValue>{}).size(), 0u);
  const KeyValue pair{KeyOf(1), ValueOf(1)};
  EXPECT_EQ(session.MultiPut({&pair, 1})[0].error().message, "Sherman's client does not do that");
  ScanOptions descending;
  descending.reverse = true;
  const auto cursor = session.Scan(descending);
  EXPECT_FALSE(cursor->Next());
  EXPECT_EQ(cursor->status().error().code, Code::kUnsupported);
}

// Memory for the first leaf and no more: an insert that needs a node fails, and the lock is free
// again.
TEST(ShermanTest, WithoutMemoryTheTreeStaysUsable) {
  auto store = Need(ShermanStore::OpenLocal(
      {.memory_bytes = kLeastMemoryBytes, .parameters = {}, .cache_bytes = 1 << 20}, Design{}));
  auto session = Need(store->NewSession());
  uint64_t stored = 0;
  while (session->Put(KeyOf(stored), ValueOf(stored))) ++stored;
  EXPECT_EQ(session->Put(KeyOf(stored), ValueOf(0)).error().code, Code::kExhausted);
  EXPECT_EQ(stored, kLeafEntries);
  EXPECT_TRUE(session->Update(KeyOf(0), ValueOf(5)));
  EXPECT_TRUE(session->Delete(KeyOf(1)));
  EXPECT_TRUE(session->Put(KeyOf(stored), ValueOf(7)));
  EXPECT_EQ(session->Get(KeyOf(0)).value(), ValueOf(5));
}

}  // namespace
}  // namespace gossamer::sherman
