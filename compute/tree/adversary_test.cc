// Random schedules. The verbs of several compute servers are delayed, interleaved and torn as the
// contract allows. All run on one thread, so that a seed nearly repeats a run. Each key has one
// writer. A read or scan must return a state that the key had during it, and none older than an
// earlier read returned.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <random>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

struct Shape {
  std::string name;
  StoreParameters parameters;
  size_t servers;
  uint64_t lock_table_bytes;
  uint64_t cache_bytes;
  size_t keys;
  size_t longest_value;
  uint64_t memory_bytes = uint64_t{16} << 20;

  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }
};

// The states of a key, numbered from 0, "absent".
struct History {
  std::vector<bool> present = {false};
  size_t acknowledged = 0;  // the last state that has certainly begun
  size_t seen = 0;          // the last state that a read has shown to have begun

  size_t oldest() const { return std::max(acknowledged, seen); }
  size_t newest() const { return present.size() - 1; }
};

class AdversaryTest : public testing::TestWithParam<Shape> {
 protected:
  static constexpr size_t kClients = 3;
  static constexpr size_t kTasks = 5;  // of each kind, at each client
  static constexpr int kSteps = Rounds(240);

  static const Shape& shape() { return GetParam(); }

  std::string KeyOf(size_t index) const { return NumberKey(index * 0x9e3779b97f4a7c15u); }

  std::string ValueOf(size_t state) {
    std::string value = fmt::format("{}:", state);
    value.resize(value.size() + random_() % shape().longest_value, 'v');
    return value;
  }
  // kNoState: a value that no writer has put.
  static constexpr size_t kNoState = std::numeric_limits<size_t>::max();
  static size_t StateOf(std::string_view value) {
    size_t state = kNoState;
    std::from_chars(value.data(), value.data() + value.size(), state);
    EXPECT_NE(state, kNoState) << testing::PrintToString(std::string(value));
    return state;
  }

  void ExpectPossible(size_t index, std::optional<size_t> state, size_t oldest) {
    History& history = histories_[index];
    if (state) {
      ASSERT_GE(*state, oldest) << "key " << index << " went back";
      ASSERT_LE(*state, history.newest()) << "key " << index;
      ASSERT_TRUE(history.present[*state]);
      history.seen = std::max(history.seen, *state);
      return;
    }
    bool possible = false;
    for (size_t at = oldest; at <= history.newest(); ++at) possible |= !history.present[at];
    ASSERT_TRUE(possible) << "key " << index << " was lost: state " << oldest << " of "
                          << history.newest();
  }

  Task<void> Write(OpenSession& session, size_t first) {
    for (int step = 0; step < kSteps; ++step) {
      const size_t writers = kClients * kTasks;
      const size_t index = (first + writers * (random_() % (shape().keys / writers)));
      History& history = histories_[index];
      const std::string key = KeyOf(index);
      const bool was_present = history.present.back();
      const bool erases = random_() % 4 == 0;
      history.present.push_back(!erases);
      const size_t state = history.newest();
      Status status = Ok();
      if (erases) {
        status = co_await session.AsyncDelete(key);
      } else {
        const std::string value = ValueOf(state);
        switch (random_() % 3) {
          case 0: status = co_await session.AsyncPut(key, value); break;
          case 1:
            if (was_present) {
              status = co_await session.AsyncUpdate(key, value);
            } else {
              status = co_await session.AsyncInsert(key, value);
            }
            break;
          default:
            // Must fail and change nothing.
            if (was_present) {
              status = co_await session.AsyncInsert(key, "x");
            } else {
              status = co_await session.AsyncUpdate(key, "x");
            }
            EXPECT_FALSE(status);
            EXPECT_EQ(status.error().code, was_present ? Code::kAlreadyExists : Code::kNotFound);
            status = co_await session.AsyncPut(key, value);
            break;
        }
      }
      if (erases && !was_present) {
        EXPECT_FALSE(status);
        EXPECT_EQ(status.error().code, Code::kNotFound);
      } else {
        EXPECT_TRUE(status) << status.error().ToString();
      }
      history.acknowledged = state;
      if (HasFailure()) break;
    }
  }

  Task<void> Read(OpenSession& session) {
    for (int step = 0; step < 2 * kSteps && !HasFailure(); ++step) {
      const size_t index = random_() % shape().keys;
      const size_t oldest = histories_[index].oldest();
      const std::string key = KeyOf(index);
      const Result<std::string> value = co_await session.AsyncGet(key);
      if (!value && value.error().code != Code::kNotFound) {
        ADD_FAILURE() << value.error().ToString();
        break;
      }
      ExpectPossible(index, value ? std::optional<size_t>(StateOf(value.value())) : std::nullopt,
                     oldest);
    }
  }

  Task<void> Scan(OpenSession& session) {
    for (int step = 0; step < 6 && !HasFailure(); ++step) {
      std::vector<size_t> oldest;
      for (const History& history : histories_) oldest.push_back(history.oldest());
      ScanOptions options;
      options.reverse = random_() % 2 == 0;
      if (random_() % 2 == 0) options.from = KeyOf(random_() % shape().keys);
      const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
      std::map<std::string, size_t> found;
      std::optional<std::string> last;
      while (co_await cursor->AsyncNext()) {
        const std::string key(cursor->key());
        EXPECT_TRUE(!last || (options.reverse ? key < *last : key > *last)) << "out of order";
        last = key;
        found[key] = StateOf(cursor->value());
      }
      EXPECT_TRUE(cursor->status()) << cursor->status().error().ToString();
      if (!cursor->status()) break;
      for (size_t index = 0; index < histories_.size(); ++index) {
        const std::string key = KeyOf(index);
        if (key < options.from) continue;
        const auto at = found.find(key);
        // A scan is not atomic: an early result may be older than what others have read since.
        ExpectPossible(index, at == found.end() ? std::nullopt : std::optional<size_t>(at->second),
                       oldest[index]);
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<History> histories_;
};

TEST_P(AdversaryTest, NothingIsLostDoubledOrOutOfOrder) {
  const Shape& shape = this->shape();
  ClusterOptions options;
  options.parameters = shape.parameters;
  options.servers = shape.servers;
  options.lock_table_bytes = shape.lock_table_bytes;
  options.memory_bytes = shape.memory_bytes;
  TestCluster cluster(options);
  histories_.assign(shape.keys, {});
  std::vector<FaultPlan> plans(kClients);
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<std::unique_ptr<OpenSession>> sessions;
  for (size_t i = 0; i < kClients; ++i) {
    plans[i].random.seed(random_());
    plans[i].tear = 0.2;
    plans[i].max_delay = 6;
    clients.push_back(
        std::make_unique<TestClient>(cluster, ClientOptions{600'000, shape.cache_bytes}));
    sessions.push_back(clients[i]->NewSession(plans[i]));
  }
  for (size_t i = 0; i < kClients; ++i) {
    for (size_t task = 0; task < kTasks; ++task) {
      sessions[i]->Spawn(Write(*sessions[i], i * kTasks + task));
      sessions[i]->Spawn(Read(*sessions[i]));
    }
    sessions[i]->Spawn(Scan(*sessions[i]));
  }
  for (bool running = true; running;) {
    running = false;
    for (int burst = 0; burst < 64; ++burst) sessions[random_() % kClients]->Poll();
    for (const auto& session : sessions) running |= session->Poll() != 0;
  }
  uint64_t torn = 0;
  uint64_t rereads = 0;
  uint64_t stale = 0;
  uint64_t retries = 0;
  for (size_t i = 0; i < kClients; ++i) {
    EXPECT_EQ(plans[i].forbidden_writes, 0u);
    torn += plans[i].torn;
    const Counters counters = sessions[i]->counters();
    rereads += counters.rereads;
    stale += counters.cache.stale;
    retries += counters.locks.remote_retries;
  }
  EXPECT_GT(torn, uint64_t{Rounds(500)});
  RecordProperty("rereads", std::to_string(rereads));
  RecordProperty("stale", std::to_string(stale));
  RecordProperty("remote_retries", std::to_string(retries));

  uint64_t present = 0;
  for (size_t index = 0; index < histories_.size(); ++index) {
    const Result<std::string> value = sessions[0]->Get(KeyOf(index));
    ASSERT_EQ(value.has_value(), histories_[index].present.back()) << index;
    if (!value) continue;
    ++present;
    ASSERT_EQ(StateOf(value.value()), histories_[index].newest());
  }
  sessions.clear();
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
  EXPECT_EQ(report.keys, present);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AdversaryTest,
    testing::Values(Shape{"SmallNodes", {256, 8, 8}, 1, 1024, 1 << 20, 300, 6},
                    Shape{"OneLock", {256, 8, 8}, 2, 8, 1 << 20, 60, 6},
                    Shape{"Blocks", {256, 8, 8}, 2, 256, 1 << 20, 150, 150},
                    Shape{"NoCache", {256, 8, 8}, 1, 256, 0, 150, 20},
                    Shape{"TinyCache", {512, 32, 16}, 3, 256, 1024, 300, 20},
                    Shape{"FewKeys", {1024, 32, 16}, 1, 1 << 10, 1 << 20, 15, 16}),
    [](const testing::TestParamInfo<Shape>& param) { return param.param.name; });

}  // namespace
}  // namespace gossamer
