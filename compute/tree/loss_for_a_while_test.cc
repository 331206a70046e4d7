// A memory server becomes unreachable during a session's operation, and then reachable again: no
// lock stays behind, no queue stays closed, and nothing accumulates meanwhile.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "common/fabric/open/open_port.h"
#include "compute/store/keeping/lease_keeper.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr uint32_t kLockTimeoutMs = 500;

class LossForAWhileTest : public testing::Test {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    return options;
  }
  // Retries, because a session pauses between attempts to reach the server.
  static Status PutAtLast(OpenSession& session, const std::string& key) {
    constexpr int kMaxTries = 1000;
    Status put = session.Put(key, "ABCDEFGH");
    for (int tries = 0; !put && put.error().code == Code::kNodeUnreachable && tries < kMaxTries;
         ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      put = session.Put(key, "ABCDEFGH");
    }
    return put;
  }
  void ExpectNoLockLeft(OpenSession& session, const std::string& key) {
    const Status own = PutAtLast(session, key);
    EXPECT_TRUE(own) << own.error().ToString();
    const Status of_another = other_.NewSession()->Put(key, "ABCDEFGH");
    EXPECT_TRUE(of_another) << of_another.error().ToString();
    EXPECT_EQ(cluster_.Check().locks_held, 0u);
  }
  // A session whose CAS at the lock of `key_` was applied before its server was lost; null if that
  // failed.
  std::unique_ptr<OpenSession> SessionWithALostLock(FaultPlan& plan) {
    if (!client_.NewSession()->Put(key_, "12345678")) return nullptr;
    plan.break_at = 1;
    plan.applied = 1;
    std::unique_ptr<OpenSession> session = client_.NewSession(plan);
    return session->Put(key_, "abcdefgh") ? nullptr : std::move(session);
  }
  static Task<void> Write(OpenSession& session, WriteMode mode, std::string key,
                          std::optional<Status>& result) {
    result = co_await session.AsyncWrite(key, "zzzzzzzz", mode);
  }
  static Task<void> Get(OpenSession& session, std::string key, std::optional<Status>& result) {
    const Result<std::string> value = co_await session.AsyncGet(key);
    result = value ? Status(Ok()) : Status(value.error());
  }
  // Puts keys from 1 on until one splits its leaf: the leaf's lock is then held and the request for
  // memory waits.
  static void PutUntilMemoryIsAskedFor(OpenSession& session, FaultPlan& plan,
                                       std::optional<Status>& put, std::string* key = nullptr) {
    ASSERT_TRUE(session.Put(NumberKey(1), "12345678"));
    plan.calls = FaultPlan::Calls::kWait;
    for (uint64_t i = 2; plan.waiting_calls.empty(); ++i) {
      put.reset();
      if (key != nullptr) *key = NumberKey(i);
      session.Spawn(Write(session, WriteMode::kPut, NumberKey(i), put));
      ASSERT_NO_FATAL_FAILURE(
          PollUntil(session, [&] { return put || !plan.waiting_calls.empty(); }));
    }
  }
  template <typename Done>
  static void PollUntil(OpenSession& session, Done&& done) {
    constexpr int kMaxPolls = 1'000'000;
    for (int i = 0; i < kMaxPolls && !done(); ++i) session.Poll();
    ASSERT_TRUE(done());
  }

  TestCluster cluster_{Options()};
  TestClient client_{cluster_, {kLockTimeoutMs, uint64_t{1} << 20}};
  TestClient other_{cluster_, {kLockTimeoutMs, uint64_t{1} << 20}};
  const std::string key_ = NumberKey(10);
};

TEST_F(LossForAWhileTest, AtAnyVerbOfAWrite) {
  ASSERT_TRUE(client_.NewSession()->Put(key_, "12345678"));
  for (uint64_t verb = 1;; ++verb) {
    SCOPED_TRACE(fmt::format("lost at verb {}", verb));
    FaultPlan plan;
    plan.break_at = verb;
    const std::unique_ptr<OpenSession> session = client_.NewSession(plan);
    const Status put = session->Put(key_, "abcdefgh");
    plan.can_reconnect = true;
    if (!plan.broke) break;
    ASSERT_FALSE(put);
    ASSERT_NO_FATAL_FAILURE(ExpectNoLockLeft(*session, key_));
    EXPECT_EQ(session->Get(key_).value(), "ABCDEFGH");
  }
}

// A split asks for memory under its leaf's lock. Meanwhile another coroutine replaces the queue
// pair, and loses the server before this session's lease is known again.
TEST_F(LossForAWhileTest, UnderALockAndWithTheLeaseUnknown) {
  FaultPlan plan;
  plan.can_reconnect = true;
  const std::unique_ptr<OpenSession> session = client_.NewSession(plan);
  std::optional<Status> put;
  std::string key;
  ASSERT_NO_FATAL_FAILURE(PutUntilMemoryIsAskedFor(*session, plan, put, &key));
  const std::vector<ControlCall*> waiting = std::exchange(plan.waiting_calls, {});
  plan.calls = FaultPlan::Calls::kFail;
  plan.reconnects_left = 1;
  plan.break_at = plan.verbs + 1;
  std::optional<Status> get;
  session->Spawn(Get(*session, NumberKey(1), get));
  ASSERT_NO_FATAL_FAILURE(PollUntil(*session, [&] { return get.has_value(); }));
  EXPECT_EQ(get->error().code, Code::kNodeUnreachable);

  plan.waiting_calls = waiting;
  plan.calls = FaultPlan::Calls::kPass;
  ASSERT_NO_FATAL_FAILURE(PollUntil(*session, [&] { return put.has_value(); }));
  EXPECT_FALSE(*put);
  plan.reconnects_left = FaultPlan::kNever;
  ExpectNoLockLeft(*session, key);
}

// Rule L4: the lease is unknown between a new queue pair and the registration over it. A coroutine
// that holds a lock posts nothing under the earlier lease, which may have ended.
TEST_F(LossForAWhileTest, NothingIsPostedUnderALockWhileTheSessionRegisters) {
  FaultPlan plan;
  plan.can_reconnect = true;
  const std::unique_ptr<OpenSession> session = client_.NewSession(plan);
  std::optional<Status> put;
  ASSERT_NO_FATAL_FAILURE(PutUntilMemoryIsAskedFor(*session, plan, put));
  std::vector<ControlCall*> allocation = std::exchange(plan.waiting_calls, {});
  plan.break_at = plan.verbs + 1;
  std::optional<Status> get;
  session->Spawn(Get(*session, NumberKey(1), get));
  ASSERT_NO_FATAL_FAILURE(PollUntil(*session, [&] { return !plan.waiting_calls.empty(); }));
  EXPECT_TRUE(plan.broke);
  std::vector<ControlCall*> registration = std::exchange(plan.waiting_calls, {});

  const uint64_t before = plan.verbs;
  plan.waiting_calls = std::move(allocation);
  plan.calls = FaultPlan::Calls::kPass;
  for (int i = 0; i < 30; ++i) {
    session->Poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(plan.verbs, before);
  EXPECT_FALSE(put);

  plan.waiting_calls = std::move(registration);
  session->WaitAll();
  EXPECT_TRUE(*get) << get->error().ToString();
  EXPECT_TRUE(*put) << put->error().ToString();
  EXPECT_EQ(cluster_.Check().locks_held, 0u);
}

TEST_F(LossForAWhileTest, AServerThatRegistersNobodyIsNamedOnce) {
  FaultPlan plan;
  plan.can_reconnect = true;
  const std::unique_ptr<OpenSession> session = client_.NewSession(plan);
  ASSERT_TRUE(session->Put(key_, "12345678"));
  plan.calls = FaultPlan::Calls::kFail;
  plan.break_at = plan.verbs + 1;
  const std::string said = session->Get(key_).error().message;
  const std::string address = client_.shared().servers.Find(ServerId{0})->address;
  EXPECT_EQ(said.find("memory server 0 at " + address + " cannot be reached (64 registrations"), 0u)
      << said;
  EXPECT_EQ(said.find("cannot be reached"), said.rfind("cannot be reached")) << said;
}

TEST_F(LossForAWhileTest, WhenALockIsHandedOver) {
  ASSERT_TRUE(client_.NewSession()->Put(key_, "12345678"));
  FaultPlan plan_one;
  plan_one.allowed_verbs = 0;
  FaultPlan plan_two;
  plan_two.calls = FaultPlan::Calls::kFail;
  plan_two.reconnects_left = 0;
  const std::unique_ptr<OpenSession> one = client_.NewSession(plan_one);
  const std::unique_ptr<OpenSession> two = client_.NewSession(plan_two);
  std::optional<Status> first;
  std::optional<Status> second;
  // Not combined: the deleted key may have to come back in another unit.
  one->Spawn(Write(*one, WriteMode::kDelete, key_, first));
  ASSERT_NO_FATAL_FAILURE(PollUntil(*one, [&] { return plan_one.holds_back; }));
  two->Spawn(Write(*two, WriteMode::kPut, key_, second));
  plan_one.allowed_verbs = FaultPlan::kNever;
  ASSERT_NO_FATAL_FAILURE(PollUntil(*one, [&] {
    two->Poll();
    return first && second;
  }));
  EXPECT_TRUE(*first);
  EXPECT_EQ(two->counters().locks.handed_over, 1u);
  EXPECT_EQ(second->error().code, Code::kNodeUnreachable);
  plan_two.calls = FaultPlan::Calls::kPass;
  plan_two.reconnects_left = FaultPlan::kNever;
  ExpectNoLockLeft(*two, key_);
}

// A write that needs a lock waits while the lock is being released.
TEST_F(LossForAWhileTest, WhileALockIsReleased) {
  client_.settler_plan().allowed_verbs = 0;
  FaultPlan plan;
  const std::unique_ptr<OpenSession> session = SessionWithALostLock(plan);
  ASSERT_NE(session, nullptr);
  plan.can_reconnect = true;
  const std::unique_ptr<OpenSession> another = client_.NewSession();
  std::optional<Status> put;
  another->Spawn(Write(*another, WriteMode::kPut, key_, put));
  ASSERT_NO_FATAL_FAILURE(PollUntil(*another, [&] { return client_.settler_plan().holds_back; }));
  for (int i = 0; i < 100; ++i) another->Poll();
  EXPECT_FALSE(put);
  client_.settler_plan().allowed_verbs = FaultPlan::kNever;
  another->WaitAll();
  EXPECT_TRUE(*put) << put->error().ToString();
  EXPECT_TRUE(client_.shared().orphans.empty());
}

// No operation on that server is needed.
TEST_F(LossForAWhileTest, ASessionThatIsPolledFindsTheServerAgain) {
  client_.settler_plan().reconnects_left = 0;
  FaultPlan plan;
  const std::unique_ptr<OpenSession> session = SessionWithALostLock(plan);
  ASSERT_NE(session, nullptr);
  for (const bool can_reconnect : {false, true}) {
    client_.settler_plan().reconnects_left = can_reconnect ? FaultPlan::kNever : 0;
    for (int i = 0; i < 130; ++i) {
      session->Poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(cluster_.Check().locks_held, can_reconnect ? 0U : 1U);
  }
  const Status of_another = other_.NewSession()->Put(key_, "ABCDEFGH");
  EXPECT_TRUE(of_another) << of_another.error().ToString();
  const Status of_the_same = client_.NewSession()->Put(key_, "ABCDEFGH");
  EXPECT_TRUE(of_the_same) << of_the_same.error().ToString();
}

// Rule U5: when a session closes, the store takes over locks in an unknown state.
TEST_F(LossForAWhileTest, AClosedSessionLeavesItsLockToTheStore) {
  FaultPlan plan;
  std::unique_ptr<OpenSession> session = SessionWithALostLock(plan);
  ASSERT_NE(session, nullptr);
  session.reset();
  const Status of_the_same = client_.NewSession()->Put(key_, "ABCDEFGH");
  EXPECT_TRUE(of_the_same) << of_the_same.error().ToString();
  const Status of_another = other_.NewSession()->Put(key_, "ABCDEFGH");
  EXPECT_TRUE(of_another) << of_another.error().ToString();
  EXPECT_EQ(client_.shared().locks.CountTurns(), 0u);
}

// Session 1 closes while its WRITE may still land. Session 2 loses the CAS at the same lock, and
// finds session 1's word, which equals the one it would have written itself.
TEST_F(LossForAWhileTest, ALatePacketOfAClosedSessionOverwritesNothing) {
  ASSERT_TRUE(client_.NewSession()->Put(key_, "12345678"));
  client_.settler_plan().reconnects_left = 0;
  FaultPlan plan_one;
  plan_one.break_at = 3;  // after CAS and READ
  std::unique_ptr<OpenSession> one = client_.NewSession(plan_one);
  EXPECT_EQ(one->Put(key_, "of one..").error().code, Code::kMaybeApplied);
  ASSERT_EQ(plan_one.late_writes.size(), 1u);
  one.reset();

  FaultPlan plan_two;
  plan_two.break_at = 1;
  plan_two.can_reconnect = true;
  const std::unique_ptr<OpenSession> two = client_.NewSession(plan_two);
  EXPECT_EQ(two->Put(key_, "of two..").error().code, Code::kNodeUnreachable)
      << "acknowledged while the WRITE of session 1 may still land";
  const FaultPlan::LateWrite& late = plan_one.late_writes[0];
  client_.Write(late.server, late.offset, late.bytes);

  client_.settler_plan().reconnects_left = FaultPlan::kNever;
  const Status put = PutAtLast(*two, key_);
  EXPECT_TRUE(put) << put.error().ToString();
  EXPECT_EQ(two->Get(key_).value(), "ABCDEFGH");
}

TEST_F(LossForAWhileTest, TheLeaseKeeperSettlesWhatNoSessionDoes) {
  LeaseKeeper keeper(client_.shared().servers, {}, &client_.shared().orphans);
  ComputePortOptions options;
  options.client_uuid = 1;
  ASSERT_TRUE(keeper.Start(OpenComputePort(FabricKind::kShm, options).value()));
  client_.on_first_orphan = [&] { keeper.Wake(); };
  FaultPlan plan;
  std::unique_ptr<OpenSession> session = SessionWithALostLock(plan);
  ASSERT_NE(session, nullptr);
  session.reset();
  for (int i = 0; i < 1000 && !client_.shared().orphans.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(cluster_.Check().locks_held, 0u);
  keeper.Stop();
}

// Places that share a local queue are otherwise independent.
TEST_F(LossForAWhileTest, AClosedPlaceConcernsNoOther) {
  LockTable& locks = client_.shared().locks;
  const std::unique_ptr<OpenSession> session = client_.NewSession();
  Scheduler& scheduler = session->scheduler();
  const LockPlace place{ServerId{0}, 8};
  const LockPlace stranger{ServerId{0}, 8 + LockTable::kQueues * sizeof(uint64_t)};
  LockTable::Turn turn = locks.TryTake(place, scheduler);
  ASSERT_TRUE(locks.IsAt(turn, stranger)) << "of the same queue";
  {
    const LockTable::ClosedPlace closed = turn.Close(place);
    EXPECT_FALSE(locks.TryTake(place, scheduler));
    const LockTable::Turn of_stranger = locks.TryTake(stranger, scheduler);
    EXPECT_TRUE(of_stranger);
    EXPECT_FALSE(locks.IsAt(of_stranger, place)) << "a turn at the place that is closed";
    EXPECT_EQ(locks.CountTurns(), 2u);
  }
  EXPECT_TRUE(locks.TryTake(place, scheduler));
  EXPECT_EQ(locks.CountTurns(), 0u);
}

// Nothing is posted to a server known to be unreachable.
TEST_F(LossForAWhileTest, NothingPilesUp) {
  TestClient client(cluster_, {kLockTimeoutMs, uint64_t{1} << 20});
  FaultPlan plan;
  const std::unique_ptr<OpenSession> session = client.NewSession(plan);
  ASSERT_TRUE(session->Put(key_, "12345678"));
  plan.break_at = plan.verbs + 1;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(session->Put(key_, "12345678").error().code, Code::kNodeUnreachable);
  }
  plan.can_reconnect = true;
  const uint64_t before = plan.verbs;
  const Status put = PutAtLast(*session, key_);
  ASSERT_TRUE(put) << put.error().ToString();
  EXPECT_LE(plan.verbs - before, 16u);
}

}  // namespace
}  // namespace gossamer
