// A memory server is silent: its process is stopped, and its queue pairs are not lost yet. What
// needs only other servers goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kHealthy{0};
constexpr ServerId kSilent{1};
constexpr uint32_t kLockTimeoutMs = 500;
constexpr int kPolls = 300;  // far more than a batch needs; a poll may give the processor away

class SilentServerTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 5000;
  static constexpr size_t kLeaves = 20;  // on each server

  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    options.servers = 2;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }
  void SetUp() override {
    const std::unique_ptr<OpenSession> loader = client_.NewSession();
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(NumberKey(i));
    std::vector<KeyValueView> loaded;
    for (const std::string& key : keys) loaded.push_back({key, "12345678"});
    ASSERT_TRUE(loader->LoadSorted(loaded, 0.6).status);  // No leaf is full.
    std::vector<RemotePtr> leaves;
    for (uint64_t i = 0; i < kKeys && all_.size() < 2 * kLeaves; ++i) {
      const RemotePtr leaf = client_.LeafOf(NumberKey(i));
      std::vector<std::string>& there = leaf.server() == kHealthy ? healthy_ : silent_;
      const auto shares = [&](RemotePtr other) { return ShareTurns(*loader, leaf, other); };
      if (there.size() == kLeaves || std::ranges::any_of(leaves, shares)) continue;
      there.push_back(NumberKey(i));
      all_.push_back(NumberKey(i));
      leaves.push_back(leaf);
    }
    ASSERT_EQ(all_.size(), 2 * kLeaves);
    session_ = client_.NewSession(plan_);
    // It registers with the servers, and takes further puts for updates.
    for (const std::string& key : all_) ASSERT_TRUE(session_->Put(key, "12345678"));
    PutMany("12345678");
    session_->WaitAll();
  }
  void TearDown() override {
    plan_.silent.clear();
    session_->WaitAll();
    const CheckReport report = cluster_.Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    EXPECT_EQ(report.locks_held, 0u);
  }

  // Whether the leaves' locks share a queue of the compute server.
  bool ShareTurns(OpenSession& session, RemotePtr a, RemotePtr b) {
    const auto place = [&](RemotePtr leaf) {
      return LockPlace{leaf.server(), client_.LockSlot(leaf)};
    };
    const LockTable::Turn turn = table_->TryTake(place(a), session.scheduler());
    return table_->IsAt(turn, place(b));
  }
  bool IsLocked(const std::string& key) {
    const RemotePtr leaf = client_.LeafOf(key);
    const std::vector<std::byte> word =
        client_.Read(leaf.server(), client_.LockSlot(leaf), sizeof(uint64_t), Space::kLockTable);
    return std::ranges::any_of(word, [](std::byte byte) { return byte != std::byte{0}; });
  }
  // Starts to put all keys.
  void PutMany(std::string_view value) {
    pairs_.clear();
    is_done_ = false;
    for (const std::string& key : all_) pairs_.push_back({key, value});
    results_.assign(pairs_.size(), Ok());
    const auto put = [](SilentServerTest& test) -> Task<void> {
      co_await test.session_->AsyncMultiPut(test.pairs_, test.results_);
      test.is_done_ = true;
    };
    session_->Spawn(put(*this));
  }
  // Starts to get each of `keys` by a coroutine of its own, which counts when it ends.
  void Get(std::span<const std::string> keys, size_t& done) {
    const auto get = [](OpenSession& on, const std::string& key, size_t& count) -> Task<void> {
      EXPECT_EQ((co_await on.AsyncGet(key)).value(), "12345678");
      ++count;
    };
    for (const std::string& key : keys) session_->Spawn(get(*session_, key, done));
  }
  // Likewise, to put them.
  void Put(std::span<const std::string> keys, size_t& done) {
    const auto put = [](OpenSession& on, const std::string& key, size_t& count) -> Task<void> {
      EXPECT_TRUE(co_await on.AsyncPut(key, "ABCDEFGH"));
      ++count;
    };
    for (const std::string& key : keys) session_->Spawn(put(*session_, key, done));
  }
  // Sessions of this and of another compute server put the healthy server's keys.
  void ExpectOthersPut() {
    for (TestClient* client : {&other_, &client_}) {
      const std::unique_ptr<OpenSession> session = client->NewSession();
      size_t done = 0;
      const auto put = [](OpenSession& on, const std::string& key, size_t& count) -> Task<void> {
        const Status status = co_await on.AsyncPut(key, "ABCDEFGH");
        EXPECT_TRUE(status) << status.error().ToString();
        ++count;
      };
      for (const std::string& key : healthy_) session->Spawn(put(*session, key, done));
      // A new session registers with the server, which answers from a thread of its own.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(200);
      while (done != healthy_.size() && std::chrono::steady_clock::now() < deadline) {
        session->Poll();
      }
      EXPECT_EQ(done, healthy_.size());
      if (done != healthy_.size()) plan_.silent.clear();  // so that the session can end
      while (session->Poll() != 0) session_->Poll();
    }
  }
  void ExpectAllWritten() {
    plan_.silent.clear();
    session_->WaitAll();
    EXPECT_TRUE(is_done_);
    for (const Status& result : results_) EXPECT_TRUE(result) << result.error().ToString();
    const std::unique_ptr<OpenSession> reader = other_.NewSession();
    for (const std::string& key : silent_) EXPECT_EQ(reader->Get(key).value(), "abcdefgh");
    for (const std::string& key : healthy_) EXPECT_EQ(reader->Get(key).value(), "ABCDEFGH");
  }

  TestCluster cluster_{Options()};
  TestClient client_{cluster_, {kLockTimeoutMs, uint64_t{1} << 20}};
  TestClient other_{cluster_, {kLockTimeoutMs, uint64_t{1} << 20}};
  std::unique_ptr<LockTable> table_ = std::make_unique<LockTable>();
  FaultPlan plan_;
  std::unique_ptr<OpenSession> session_;
  // A key of each of some leaves, by their server.
  std::vector<std::string> healthy_;
  std::vector<std::string> silent_;
  std::vector<std::string> all_;
  // Of the put.
  std::vector<KeyValueView> pairs_;
  std::vector<Status> results_;
  bool is_done_ = false;
};

// The put waits for the locks of the silent server's leaves.
TEST_F(SilentServerTest, APutOfManyKeepsNoOtherLockWhileItTries) {
  plan_.silent = {kSilent};
  PutMany("abcdefgh");
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_FALSE(is_done_);
  for (const std::string& key : silent_) EXPECT_FALSE(IsLocked(key));
  for (const std::string& key : healthy_) EXPECT_FALSE(IsLocked(key));
  ExpectOthersPut();
  ExpectAllWritten();
}

// It has them, and waits for their release.
TEST_F(SilentServerTest, APutOfManyKeepsNoOtherTurnWhileItCommits) {
  PutMany("abcdefgh");
  for (int i = 0; i < kPolls && !IsLocked(silent_.front()); ++i) session_->Poll();
  plan_.silent = {kSilent};
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_FALSE(is_done_);
  for (const std::string& key : silent_) EXPECT_TRUE(IsLocked(key));
  for (const std::string& key : healthy_) EXPECT_FALSE(IsLocked(key));
  ExpectOthersPut();
  ExpectAllWritten();
}

// They go out together.
TEST_F(SilentServerTest, PutsToOtherServersAreDone) {
  size_t on_silent = 0;
  size_t on_healthy = 0;
  const Counters before = session_->counters();
  plan_.silent = {kSilent};
  Put(std::span(silent_).first(10), on_silent);
  Put(std::span(healthy_).first(10), on_healthy);
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_EQ(on_silent, 0u);
  EXPECT_EQ(on_healthy, 10u);
  // The same again, while the first ones wait.
  Put(std::span(silent_).subspan(10), on_silent);
  Put(std::span(healthy_).subspan(10), on_healthy);
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_EQ(on_silent, 0u);
  EXPECT_EQ(on_healthy, healthy_.size());
  EXPECT_EQ(Since(before, session_->counters()).of(OperationClass::kUpdate).operations,
            healthy_.size());
  for (const std::string& key : healthy_) EXPECT_FALSE(IsLocked(key));
  ExpectOthersPut();
  plan_.silent.clear();
  session_->WaitAll();
  EXPECT_EQ(on_silent, silent_.size());
  const std::unique_ptr<OpenSession> reader = other_.NewSession();
  for (const std::string& key : silent_) EXPECT_EQ(reader->Get(key).value(), "ABCDEFGH");
}

TEST_F(SilentServerTest, GetsFromOtherServersAreAnswered) {
  plan_.silent = {kSilent};
  size_t from_silent = 0;
  size_t from_healthy = 0;
  size_t refused = 0;
  const auto get_too_long = [&]() -> Task<void> {
    EXPECT_FALSE(co_await session_->AsyncGet("longer than any key of the store"));
    ++refused;
  };
  Get(std::span(silent_).first(10), from_silent);
  Get(std::span(healthy_).first(10), from_healthy);
  session_->Spawn(get_too_long());
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_EQ(from_silent, 0u);
  EXPECT_EQ(from_healthy, 10u);
  EXPECT_EQ(refused, 1u);
  // The same again, while the first ones wait.
  Get(std::span(silent_).subspan(10), from_silent);
  Get(std::span(healthy_).subspan(10), from_healthy);
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_EQ(from_silent, 0u);
  EXPECT_EQ(from_healthy, healthy_.size());
  plan_.silent.clear();
  session_->WaitAll();
  EXPECT_EQ(from_silent, silent_.size());
}

// Their leaves are on the other server. Its share of the blocks is less than all of them.
TEST_F(SilentServerTest, GetsOfValuesInBlocksOfOtherServersAreAnswered) {
  const std::string value(1000, 'v');
  for (const std::string& key : healthy_) ASSERT_TRUE(session_->Put(key, value));
  session_->WaitAll();
  std::vector<std::unique_ptr<OpenSession>> others;
  for (const std::string& key : healthy_) {  // Each registers with both servers.
    others.push_back(client_.NewSession(plan_));
    ASSERT_EQ(others.back()->Get(key).value(), value);
    ASSERT_EQ(others.back()->Get(silent_.front()).value(), "12345678");
  }
  plan_.silent = {kSilent};
  const auto get = [&](OpenSession& on, const std::string& key, size_t& count) -> Task<void> {
    EXPECT_EQ((co_await on.AsyncGet(key)).value(), value);
    ++count;
  };
  size_t one_by_one = 0;
  for (size_t i = 0; i < healthy_.size(); ++i) {
    others[i]->Spawn(get(*others[i], healthy_[i], one_by_one));
    for (int poll = 0; poll < kPolls; ++poll) others[i]->Poll();
  }
  ASSERT_GT(one_by_one, 0u);
  ASSERT_LT(one_by_one, healthy_.size());
  size_t together = 0;
  for (const std::string& key : healthy_) session_->Spawn(get(*session_, key, together));
  for (int i = 0; i < kPolls; ++i) session_->Poll();
  EXPECT_EQ(together, one_by_one);
  plan_.silent.clear();
  session_->WaitAll();
  EXPECT_EQ(together, healthy_.size());
  for (const auto& other : others) other->WaitAll();
  EXPECT_EQ(one_by_one, healthy_.size());
}

}  // namespace
}  // namespace gossamer
