// No operation starves for a lock while others get it. Coroutines of one compute server get it
// first come, first served. Between compute servers each release leaves the lock free for one round
// trip, and a waiter that has waited long retries every round trip. The network is ideal and
// simulated: a seed repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

// Threads of a compute server, and coroutines of a thread.
constexpr size_t kSessions = 4;
constexpr size_t kCoroutines = 4;

struct Contest {
  std::string name;
  size_t compute_servers;
  uint64_t keys;
  uint64_t lock_table_bytes;  // one slot: all leaves share a lock; 0: the default
  // Most updates that another coroutine may complete while one waits.
  uint64_t most_bypasses;

  friend void PrintTo(const Contest& contest, std::ostream* out) { *out << contest.name; }
};

// As many as strict turns between compute servers would allow: each holds the lock for 5 updates in
// a row (4 handovers).
constexpr uint64_t InTurn(size_t compute_servers) { return 5 * (compute_servers - 1); }

class FairnessTest : public testing::TestWithParam<Contest> {
 protected:
  static constexpr std::chrono::milliseconds kFor{10};  // virtual time

  struct ComputeServer {
    std::unique_ptr<Store> store;
    std::vector<std::unique_ptr<Session>> sessions;
  };

  ComputeServer Open(TestCluster& cluster) {
    ComputeServer opened{cluster.OpenStore(), {}};
    for (size_t i = 0; i < kSessions; ++i) {
      opened.sessions.push_back(opened.store->NewSession().value());
      auto& session = static_cast<OpenSession&>(*opened.sessions.back());
      network_.SetOwner(session.scheduler().endpoint(), &session);
    }
    return opened;
  }

  struct Progress {
    uint64_t completed = 0;  // updates
    SimNetwork::Clock::time_point last;
  };

  // Updates of `progress` that were completed before this moment.
  uint64_t CompletedBeforeNow(const Progress& progress) const {
    return progress.completed - (progress.last == network_.Now() ? 1 : 0);
  }

  // Updates one key after another. Records how many updates others complete meanwhile.
  Task<void> Update(Session& session, size_t self) {
    for (uint64_t key = self % GetParam().keys; network_.Now() < ends_at_;
         key = (key + 1) % GetParam().keys) {
      const std::string name = NumberKey(key);
      const std::vector<Progress> before = progress_;
      const Status status = co_await session.AsyncUpdate(name, "abcdefgh");
      EXPECT_TRUE(status) << status.error().ToString();
      for (size_t other = 0; other < progress_.size(); ++other) {
        const uint64_t started = before[other].completed;
        most_bypasses_ = std::max(most_bypasses_, progress_[other].completed - started);
        most_before_ = std::max(most_before_, CompletedBeforeNow(progress_[other]) - started);
      }
      ++progress_[self].completed;
      progress_[self].last = network_.Now();
    }
  }

  SimNetwork network_{{.seed = TestSeed()}};
  SimNetwork::Clock::time_point ends_at_;
  std::vector<Progress> progress_;  // by coroutine
  uint64_t most_bypasses_ = 0;
  uint64_t most_before_ = 0;  // without those answered in the same moment
};

TEST_P(FairnessTest, NobodyStarvesForALock) {
  ClusterOptions options;
  options.parameters = {256, 8, 8};
  options.lock_table_bytes = GetParam().lock_table_bytes;
  options.network = &network_;
  TestCluster cluster(options);
  std::vector<ComputeServer> servers;
  for (size_t i = 0; i < GetParam().compute_servers; ++i) servers.push_back(Open(cluster));
  for (uint64_t key = 0; key < GetParam().keys; ++key) {
    ASSERT_TRUE(servers[0].sessions[0]->Put(NumberKey(key), "12345678"));
  }

  ends_at_ = network_.Now() + kFor;
  constexpr size_t kOfServer = kSessions * kCoroutines;
  progress_.resize(servers.size() * kOfServer);
  size_t self = 0;
  for (ComputeServer& server : servers) {
    for (const std::unique_ptr<Session>& session : server.sessions) {
      for (size_t i = 0; i < kCoroutines; ++i) session->Spawn(Update(*session, self++));
    }
  }
  while (Endpoint* endpoint = network_.RunUntilRunnable()) {
    static_cast<OpenSession*>(network_.Owner(*endpoint))->Poll();
  }

  EXPECT_LE(most_bypasses_, GetParam().most_bypasses);
  // The queue of a compute server is in order. What was queued later is answered together at most.
  if (GetParam().compute_servers == 1) {
    EXPECT_LE(most_before_, 1u);
  }
  for (const Progress& progress : progress_) EXPECT_GE(progress.completed, 1u);
}

INSTANTIATE_TEST_SUITE_P(
    All, FairnessTest,
    testing::Values(Contest{"OneComputeServerOneKey", 1, 1, 0, 1},
                    Contest{"OneComputeServerOneSlot", 1, 64, sizeof(uint64_t), 2},
                    Contest{"OneKey", 4, 1, 0, 2 * InTurn(4)},
                    Contest{"OneSlot", 4, 64, sizeof(uint64_t), 2 * InTurn(4)},
                    Contest{"ManyComputeServersOneKey", 16, 1, 0, InTurn(16)},
                    Contest{"ManyComputeServersOneSlot", 16, 64, sizeof(uint64_t), InTurn(16)}),
    [](const auto& contest) { return contest.param.name; });

}  // namespace
}  // namespace gossamer
