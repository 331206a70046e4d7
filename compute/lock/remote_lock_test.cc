#include "compute/lock/remote_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compute/lock/testing/lock_session.h"

namespace gossamer {
namespace {

using Attempt = RemoteLock::Attempt;
using After = RemoteLock::After;
using Fate = ScriptedEndpoint::Fate;
using testing::ElementsAre;

constexpr ServerId kServer{1};
const RemotePtr kNode(kServer, 8192, 0);
const LockWord kOthers(Lease{ComputeId{9}, 4}, kNode);

class RemoteLockTest : public ::testing::Test {
 protected:
  uint64_t WordOf(const RemoteLock& lock) const {
    return session_.endpoint.LockWordAt(kServer, lock.place().slot);
  }
  // Tries a lock that another has, and waits for it once.
  static void WaitOnce(LockSession& session, RemoteLock& lock) {
    session.endpoint.SetLockWord(kServer, lock.place().slot, kOthers.word());
    EXPECT_EQ(session.Run(lock.Try({})).value(), Attempt::kRefused);
    EXPECT_TRUE(session.Run(lock.BackOff()));
  }
  Verb ReadNode() { return Verb::Read(kNode.offset(), 8, session_.image.address()); }
  Verb WriteNode() { return Verb::Write(kNode.offset(), 8, session_.image.address()); }
  // The names of the verbs so far.
  std::vector<std::string> Verbs() const {
    std::vector<std::string> names;
    for (const ScriptedEndpoint::Posted& posted : session_.endpoint.posted) {
      names.emplace_back(TraitsOf(posted.verb.opcode).name);
    }
    return names;
  }
  void Take(RemoteLock& lock) {
    ASSERT_EQ(session_.Run(lock.Try({})).value(), Attempt::kTaken);
    session_.endpoint.posted.clear();
  }
  Status CommitOneWrite(RemoteLock& lock, After after = After::kRelease) {
    InlineBatch<2> batch(kServer);
    batch.Add(WriteNode());
    return session_.Run(lock.Commit(batch, after));
  }
  // The `number`th verb from now on, from 1, meets `fate`.
  void At(int number, Fate fate) {
    session_.endpoint.decide = [number, fate](ServerId, const Verb&) mutable {
      return --number == 0 ? fate : Fate::kApplied;
    };
  }

  LockSharing sharing_;
  LockSession session_{sharing_};
  Op op_;
};

TEST_F(RemoteLockTest, ReadsBehindItsCasInOneRoundTrip) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  ASSERT_TRUE(session_.Run(session_.links.Register(op_, kServer)));
  op_.wire = {};
  const Verb read = ReadNode();
  EXPECT_EQ(session_.Run(lock.Try({&read, 1})).value(), Attempt::kTaken);
  EXPECT_THAT(Verbs(), ElementsAre("CAS", "READ"));
  EXPECT_EQ(op_.wire.round_trips, 1U);
  EXPECT_EQ(WordOf(lock), lock.held().word.word());
  EXPECT_TRUE(session_.Run(lock.Release()));
  EXPECT_EQ(op_.wire.round_trips, 2U);
  EXPECT_EQ(WordOf(lock), 0U);
}

TEST_F(RemoteLockTest, IsRefusedWhereAnotherHasIt) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  session_.endpoint.SetLockWord(kServer, lock.place().slot, kOthers.word());
  EXPECT_EQ(session_.Run(lock.Try({})).value(), Attempt::kRefused);
  EXPECT_FALSE(lock.is_held());
  EXPECT_EQ(WordOf(lock), kOthers.word());
}

TEST_F(RemoteLockTest, IsTakenFromAHolderWhoseLeaseHasEnded) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  session_.endpoint.SetLockWord(kServer, lock.place().slot, kOthers.word());
  for (int tries = 0; tries < 100 && !lock.is_held(); ++tries) {
    if (session_.Run(lock.Try({})).value() == Attempt::kTaken) break;
    // In force for a while: it is not taken from the living.
    if (tries == 50) session_.endpoint.ended_incarnations.insert(4);
    ASSERT_TRUE(session_.Run(lock.BackOff()));
    EXPECT_EQ(lock.holder_is_dead() && tries < 50, false);
    session_.endpoint.Pass(LeaseStatus::kAskInterval);
  }
  ASSERT_TRUE(lock.is_held());
  EXPECT_TRUE(session_.Run(lock.Release()));
}

TEST_F(RemoteLockTest, GivesUpAfterTheTimeOut) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  WaitOnce(session_, lock);
  session_.endpoint.Pass(std::chrono::seconds(11));
  const Status late = session_.Run(lock.BackOff());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kContended);
}

// Regression: an operation that waited behind one that waited for a server ended as Contended,
// though it would have waited for the server itself.
TEST_F(RemoteLockTest, TheWaitForAServerIsNoneForALock) {
  LockSession patient(sharing_, std::chrono::seconds(60));
  Op op;
  RemoteLock lock = patient.LockOf(kNode, op);
  WaitOnce(patient, lock);
  {
    const ReturnWaits::Scope another(&sharing_.waits, patient.scheduler);
    patient.endpoint.Pass(std::chrono::seconds(50));
    EXPECT_TRUE(patient.Run(lock.BackOff()));
  }
  patient.endpoint.Pass(std::chrono::seconds(9));
  EXPECT_TRUE(patient.Run(lock.BackOff()));
  patient.endpoint.Pass(std::chrono::seconds(2));
  EXPECT_FALSE(patient.Run(lock.BackOff()));
}

// One that never comes back must not make waits for locks endless.
TEST_F(RemoteLockTest, TheWaitForAServerCountsForNoLongerThanThePatience) {
  LockSession patient(sharing_, std::chrono::seconds(20));
  Op op;
  RemoteLock lock = patient.LockOf(kNode, op);
  WaitOnce(patient, lock);
  const ReturnWaits::Scope another(&sharing_.waits, patient.scheduler);
  patient.endpoint.Pass(std::chrono::seconds(29));
  EXPECT_TRUE(patient.Run(lock.BackOff()));
  patient.endpoint.Pass(std::chrono::seconds(2));
  EXPECT_FALSE(patient.Run(lock.BackOff()));
}

TEST_F(RemoteLockTest, CommitsAndReleasesInOneBatch) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  Take(lock);
  op_.wire = {};
  EXPECT_TRUE(CommitOneWrite(lock));
  EXPECT_THAT(Verbs(), ElementsAre("WRITE", "CAS"));
  EXPECT_EQ(op_.wire.round_trips, 1U);
  EXPECT_EQ(WordOf(lock), 0U);
  EXPECT_FALSE(lock.is_held());
}

TEST_F(RemoteLockTest, FindsOutThatALostCasTookIt) {
  for (const Fate fate : {Fate::kLost, Fate::kAppliedAndLost}) {
    Op op;
    RemoteLock lock = session_.LockOf(kNode, op);
    At(1, fate);
    const uint32_t replaced = session_.endpoint.replaced;
    EXPECT_EQ(session_.Run(lock.Try({})).value(), Attempt::kTaken);
    EXPECT_EQ(session_.endpoint.replaced, replaced + 1) << "rule U1";
    EXPECT_EQ(WordOf(lock), lock.held().word.word());
    EXPECT_TRUE(session_.Run(lock.Release()));
  }
}

TEST_F(RemoteLockTest, ARepeatedCommitIsAppliedOnce) {
  // The WRITE is lost; the WRITE is applied, and all behind it lost; all was applied.
  struct Case {
    int verb;
    Fate fate;
    std::vector<std::string> verbs;
  };
  const std::vector<Case> cases = {
      {1, Fate::kLost, {"WRITE", "fetch-add", "WRITE", "CAS"}},
      {1, Fate::kAppliedAndLost, {"WRITE", "fetch-add", "WRITE", "CAS"}},
      {2, Fate::kLost, {"WRITE", "CAS", "fetch-add", "WRITE", "CAS"}},
      {2, Fate::kAppliedAndLost, {"WRITE", "CAS", "fetch-add"}},
  };
  for (const Case& one : cases) {
    Op op;
    RemoteLock lock = session_.LockOf(kNode, op);
    Take(lock);
    At(one.verb, one.fate);
    EXPECT_TRUE(CommitOneWrite(lock));
    EXPECT_EQ(Verbs(), one.verbs);
    EXPECT_EQ(WordOf(lock), 0U);
  }
}

TEST_F(RemoteLockTest, ACommitOfAnEndedLeaseMayBeApplied) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  Take(lock);
  At(1, Fate::kLost);
  session_.endpoint.lease[kServer].incarnation = 2;
  const Status committed = CommitOneWrite(lock);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kMaybeApplied);
  EXPECT_FALSE(lock.is_held());
  EXPECT_THAT(Verbs(), ElementsAre("WRITE", "fetch-add")) << "nothing is written again (rule L4)";
}

TEST_F(RemoteLockTest, AKeptLockThatWasLostIsNotHeld) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  Take(lock);
  At(1, Fate::kLost);
  session_.endpoint.SetLockWord(kServer, lock.place().slot, kOthers.word());
  const Status committed = CommitOneWrite(lock, After::kKeep);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kMaybeApplied);
  EXPECT_FALSE(lock.is_held());
}

TEST_F(RemoteLockTest, OutOfReachItsPlaceIsClosed) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  Take(lock);
  At(2, Fate::kLost);
  session_.endpoint.unreachable.insert(kServer);
  const Status committed = CommitOneWrite(lock);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kMaybeApplied);
  EXPECT_FALSE(lock.is_held());
  EXPECT_TRUE(sharing_.table.IsClosed(lock.place())) << "rule U5";
  EXPECT_FALSE(sharing_.orphans.empty());
  Op other;
  RemoteLock next(session_.locks, other);
  ASSERT_TRUE(next.AimAt(kNode));
  EXPECT_FALSE(next.TryTakeTurn());
  sharing_.orphans.Stop();
}

TEST_F(RemoteLockTest, IsHandedOverWithItsWord) {
  RemoteLock first = session_.LockOf(kNode, op_);
  Take(first);
  Op op;
  RemoteLock second(session_.locks, op);
  second.UseWords(session_.words.address(16), session_.words.address(24));
  ASSERT_TRUE(second.AimAt(kNode));
  LockTable::Answer answer = LockTable::Answer::kClosed;
  session_.scheduler.Spawn([](RemoteLock& lock, LockTable::Answer& out) -> Task<void> {
    out = co_await lock.TakeTurn(nullptr);
  }(second, answer));
  LockTable::Waiter* next = first.NextWaiter();
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(CommitOneWrite(first, After::kKeep));
  EXPECT_THAT(Verbs(), ElementsAre("WRITE"));
  first.HandOver(*next);
  EXPECT_FALSE(first.is_held());
  session_.scheduler.RunUntil(0);
  EXPECT_EQ(answer, LockTable::Answer::kTurn);
  ASSERT_TRUE(second.is_held());
  session_.endpoint.posted.clear();
  EXPECT_EQ(session_.Run(second.Try({})).value(), Attempt::kTaken);
  EXPECT_THAT(Verbs(), ElementsAre()) << "no CAS";
  EXPECT_TRUE(session_.Run(second.Release()));
}

TEST_F(RemoteLockTest, IsHandedOverSoOftenInARowAndNoMore) {
  RemoteLock first = session_.LockOf(kNode, op_);
  Take(first);
  Op op;
  RemoteLock second(session_.locks, op);
  second.UseWords(session_.words.address(16), session_.words.address(24));
  ASSERT_TRUE(second.AimAt(kNode));
  RemoteLock* holder = &first;
  RemoteLock* waiter = &second;
  const auto wait = [&] {
    session_.scheduler.Spawn([](RemoteLock& lock) -> Task<void> {
      EXPECT_EQ(co_await lock.TakeTurn(nullptr), LockTable::Answer::kTurn);
    }(*waiter));
  };
  for (uint32_t i = 0; i < RemoteLock::kMaxHandovers; ++i) {
    wait();
    LockTable::Waiter* const next = holder->NextWaiter();
    ASSERT_NE(next, nullptr) << i;
    holder->HandOver(*next);
    session_.scheduler.RunUntil(0);
    ASSERT_TRUE(waiter->is_held());
    std::swap(holder, waiter);
  }
  wait();
  EXPECT_EQ(holder->NextWaiter(), nullptr) << "other compute servers come first";
  EXPECT_TRUE(session_.Run(holder->Release()));
  holder->GiveUpTurn();
  session_.scheduler.RunUntil(0);
  EXPECT_FALSE(waiter->is_held());
}

// Another session, which has registered anew, gets a lock of the lease before.
TEST_F(RemoteLockTest, AHandedOverLockOfAnEndedLeaseIsVoid) {
  RemoteLock first = session_.LockOf(kNode, op_);
  Take(first);
  LockSession other(sharing_);
  other.endpoint.lease[kServer].incarnation = 2;
  Op op;
  RemoteLock second(other.locks, op);
  second.UseWords(other.words.address(), other.words.address(8));
  ASSERT_TRUE(second.AimAt(kNode));
  other.scheduler.Spawn([](RemoteLock& lock) -> Task<void> {
    const LockTable::Answer answer = co_await lock.TakeTurn(nullptr);
    EXPECT_EQ(answer, LockTable::Answer::kTurn);
  }(second));
  first.HandOver(*first.NextWaiter());
  other.scheduler.RunUntil(0);
  ASSERT_TRUE(second.is_held());
  const Result<Attempt> tried = other.Run(second.Try({}));
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().code, Code::kFenced);
  EXPECT_FALSE(second.is_held());
}

// An operation waits for its turn while its compute server gets a new lease. Its lock comes along
// (rule R9).
TEST_F(RemoteLockTest, AHandedOverLockIsNotForAnOperationOfThePast) {
  session_.lease_number = 2;
  op_.began.leases = 2;
  RemoteLock first = session_.LockOf(kNode, op_);
  Take(first);
  LockSession other(sharing_);
  other.lease_number = 2;
  Op op;
  op.began.leases = 1;
  RemoteLock second(other.locks, op);
  second.UseWords(other.words.address(), other.words.address(8));
  ASSERT_TRUE(second.AimAt(kNode));
  other.scheduler.Spawn([](RemoteLock& lock) -> Task<void> {
    const LockTable::Answer answer = co_await lock.TakeTurn(nullptr);
    EXPECT_EQ(answer, LockTable::Answer::kTurn);
  }(second));
  first.HandOver(*first.NextWaiter());
  other.scheduler.RunUntil(0);
  ASSERT_TRUE(second.is_held());
  const uint64_t slot = second.place().slot;
  other.endpoint.SetLockWord(kServer, slot, second.held().word.word());
  const Result<Attempt> tried = other.Run(second.Try({}));
  ASSERT_FALSE(tried);
  EXPECT_TRUE(op.is_of_the_past);
  EXPECT_FALSE(second.is_held());
  EXPECT_EQ(other.endpoint.LockWordAt(kServer, slot), 0u) << "the lock is released";
}

TEST_F(RemoteLockTest, OfAServerThatIsNotKnownIsForTheOperationToBeginAnew) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  session_.find_server = [](ServerSearch& search) {
    ADD_FAILURE() << "others of the queue would wait for the server";
    search.found = MakeError(Code::kNodeUnreachable, "none");
    return SearchState::kEnded;
  };
  const Status aimed = lock.AimAt(RemotePtr(ServerId{5}, 8192, 0));
  ASSERT_FALSE(aimed);
  EXPECT_EQ(aimed.error().code, Code::kNodeUnreachable);
  EXPECT_TRUE(op_.is_of_the_past);
  ASSERT_TRUE(op_.lost);
  EXPECT_EQ(op_.lost->server, ServerId{5});
}

TEST_F(RemoteLockTest, ReleasesAndReadsInOneBatch) {
  RemoteLock lock = session_.LockOf(kNode, op_);
  Take(lock);
  EXPECT_EQ(session_.Run(lock.ReleaseAndRead(ReadNode())).value(), RemoteLock::ReadState::kRead);
  EXPECT_THAT(Verbs(), ElementsAre("READ", "CAS"));
  EXPECT_EQ(WordOf(lock), 0U);
}

using RemoteLockDeathTest = RemoteLockTest;

TEST_F(RemoteLockDeathTest, ALockThatIsDroppedWhileItIsHeldAborts) {
  EXPECT_DEATH(
      {
        RemoteLock lock = session_.LockOf(kNode, op_);
        Take(lock);
      },
      "is dropped while it is held");
}

}  // namespace
}  // namespace gossamer
