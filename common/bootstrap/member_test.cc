// Members whose record the bootstrap loses, or whose name another store takes.
#include "common/bootstrap/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/bootstrap/member_test_support.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Call = MemoryBootstrap::Call;

TEST_F(MemberTest, ALookAtARecordInPlaceIsOneRead) {
  const Joined joined = Join().value();
  Member member = MemberOf(joined);
  const uint64_t reads = bootstrap_.calls(Call::kGet);
  const uint64_t swaps = bootstrap_.calls(Call::kCompareAndSwap);
  EXPECT_EQ(member.LookAfterRecord().finding, Finding::kInPlace);
  EXPECT_EQ(bootstrap_.calls(Call::kGet) - reads, 1u);
  EXPECT_EQ(bootstrap_.calls(Call::kCompareAndSwap), swaps);
  EXPECT_EQ(Record(), joined.record);
}

TEST_F(MemberTest, ALostRecordIsPutBack) {
  const Joined joined = Join().value();
  Member member = MemberOf(joined);
  bootstrap_.LoseAll();
  const Look look = member.LookAfterRecord();
  EXPECT_EQ(look.finding, Finding::kPutBack);
  EXPECT_THAT(look.sentence, AllOf(HasSubstr("record of store 's' at memory: was gone"),
                                   HasSubstr("memcached flushed")));
  StoreRecord expected = joined.record;
  expected.restored = Record()->restored;
  EXPECT_NE(expected.restored, 0u);
  EXPECT_EQ(Record(), expected);
  EXPECT_EQ(member.LookAfterRecord().finding, Finding::kInPlace);
}

// Server 1 has not looked since server 2 joined. Nothing is lost by that: neither server 0, nor
// server 2, nor its id.
TEST_F(MemberTest, PartialKnowledgeIsCompletedByTheOthers) {
  Member zero = MemberOf(Join().value());
  Member one = MemberOf(Join().value());
  Member two = MemberOf(Join().value());
  bootstrap_.LoseAll();
  EXPECT_EQ(one.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_EQ(Servers(), (std::vector<int>{0, 1}));
  EXPECT_EQ(Record()->next_server, 2);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  EXPECT_EQ(two.LookAfterRecord().finding, Finding::kMerged);
  EXPECT_EQ(Servers(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(Record()->next_server, 3);
  EXPECT_NE(Record()->restored, 0u);
  EXPECT_EQ(Join().value().identity.server, ServerId{3});
  EXPECT_EQ(Record()->restored, 0u);
}

// An assigned id stays assigned, even if its server left before the loss.
TEST_F(MemberTest, NextServerIsNeverLowered) {
  Member zero = MemberOf(Join().value());
  Member one = MemberOf(Join().value());
  Member two = MemberOf(Join().value());
  ASSERT_TRUE(two.Leave());
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  bootstrap_.LoseAll();
  EXPECT_EQ(one.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_EQ(Record()->next_server, 2);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kMerged);
  EXPECT_EQ(Record()->next_server, 3);
}

// Server 2 adds itself while the joining server waits; without that wait both would be server 2.
TEST_F(MemberTest, AJoiningServerWaitsForMembersThatARestoredRecordLacks) {
  Member zero = MemberOf(Join().value());
  Member one = MemberOf(Join().value());
  Member two = MemberOf(Join().value());
  bootstrap_.LoseAll();
  EXPECT_EQ(one.LookAfterRecord().finding, Finding::kPutBack);
  int reads = 0;
  bootstrap_.set_before([&](Call call, const std::string&) {
    if (call == Call::kGet && ++reads == 2) {
      EXPECT_EQ(two.LookAfterRecord().finding, Finding::kMerged);
    }
  });
  EXPECT_EQ(Join().value().identity.server, ServerId{3});
}

// memcached was just flushed: the store lives, and its member has not looked yet.
TEST_F(MemberTest, AJoiningServerAsksBeforeItCreates) {
  const Joined first = Join().value();
  Member zero = MemberOf(first);
  bootstrap_.LoseAll();
  bootstrap_.set_republish_wait(std::chrono::minutes(10));
  int reads = 0;
  bootstrap_.set_before([&](Call call, const std::string&) {
    if (call == Call::kGet && ++reads == 3) {
      EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
      bootstrap_.set_republish_wait(milliseconds(0));
    }
  });
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.store_id, first.identity.store_id);
  EXPECT_EQ(joined.value().identity.server, ServerId{1});
  EXPECT_GE(reads, 3);
}

TEST_F(MemberTest, AServerThatWaitsCanBeStopped) {
  bootstrap_.set_republish_wait(std::chrono::hours(1));
  int asked = 0;
  JoinOptions options;
  options.fabric = "shm";
  options.is_to_stop = [&] { return ++asked == 2; };
  const auto joined = JoinStore(bootstrap_, options, Probe(), nullptr);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kContended);
  EXPECT_THAT(joined.error().message, HasSubstr("stopped while it waited for the record of store"));
}

TEST_F(MemberTest, AStoreThatLivesIsNotOverwritten) {
  const Joined old = Join().value();
  Member zero = MemberOf(old);
  bootstrap_.LoseAll();
  const Joined other = Join(CreateMode::kNew).value();
  ASSERT_NE(other.identity.store_id, old.identity.store_id);
  for (const Liveness state : {Liveness::kAlive, Liveness::kSilent, Liveness::kUnreachable}) {
    states_[other.identity.incarnation] = state;
    const Look look = zero.LookAfterRecord();
    EXPECT_EQ(look.finding, Finding::kOtherStore);
    EXPECT_THAT(look.sentence, AllOf(HasSubstr("store 's' at memory: is another one now"),
                                     HasSubstr("clients that have the store of this server"),
                                     HasSubstr("stop the memory servers of the one")));
    EXPECT_EQ(Record(), other.record);
  }
  // The other one ends: the name is free for the live store.
  states_[other.identity.incarnation] = Liveness::kDead;
  Look look;
  for (int i = 0; i < 20 && look.finding != Finding::kTookBack; ++i) look = zero.LookAfterRecord();
  EXPECT_EQ(look.finding, Finding::kTookBack);
  EXPECT_EQ(Record()->store_id, old.identity.store_id);
  EXPECT_NE(Record()->restored, 0u);
}

TEST_F(MemberTest, AStoreWhoseServerZeroLeftIsReplacedByOneThatLives) {
  Member zero = MemberOf(Join().value());
  bootstrap_.LoseAll();
  Member other = MemberOf(Join(CreateMode::kNew).value());
  ASSERT_TRUE(Join());
  ASSERT_TRUE(other.Leave());
  EXPECT_EQ(Servers(), std::vector<int>{1});
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kTookBack);
}

TEST_F(MemberTest, AnotherStoreIsAskedAtEachTenthLook) {
  Member zero = MemberOf(Join().value());
  bootstrap_.LoseAll();
  ASSERT_TRUE(Join(CreateMode::kNew));
  probes_ = 0;
  for (int i = 0; i < 30; ++i) EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kOtherStore);
  EXPECT_EQ(probes_.load(), 3);
}

TEST_F(MemberTest, AStoreThatLostItsRootMakesWay) {
  const Joined root = Join().value();
  Member one = MemberOf(Join().value());
  states_[root.identity.incarnation] = Liveness::kDead;
  const Joined other = Join().value();
  ASSERT_EQ(other.identity.server, ServerId{0});
  states_[other.identity.incarnation] = Liveness::kDead;
  const Look look = one.LookAfterRecord();
  EXPECT_EQ(look.finding, Finding::kStoreLost);
  EXPECT_THAT(look.sentence,
              HasSubstr("is lost with its server 0, which held the root: stop this"));
  EXPECT_EQ(Record(), other.record);
}

// The root may live: the store is not called lost, and the other store's record is not replaced.
TEST_F(MemberTest, AStoreWhoseRootIsSilentIsNotCalledLost) {
  const Joined root = Join().value();
  Member one = MemberOf(Join().value());
  bootstrap_.LoseAll();
  const Joined other = Join(CreateMode::kNew).value();
  states_[root.identity.incarnation] = Liveness::kSilent;
  states_[other.identity.incarnation] = Liveness::kDead;
  EXPECT_EQ(one.LookAfterRecord().finding, Finding::kOtherStore);
  EXPECT_EQ(Record(), other.record);
}

TEST_F(MemberTest, AnIdThatAnotherServerHasIsNotTakenBack) {
  const Joined first = Join().value();
  Member one = MemberOf(Join().value());
  bootstrap_.Overwrite("s", EncodeStoreRecord(first.record));
  const Joined thief = Join().value();
  ASSERT_EQ(thief.identity.server, ServerId{1});
  const Look look = one.LookAfterRecord();
  EXPECT_EQ(look.finding, Finding::kIdTaken);
  EXPECT_THAT(look.sentence,
              AllOf(HasSubstr("under the id 1 of this one"),
                    HasSubstr("dump --salvage, then stop all servers of the store")));
  EXPECT_EQ(Record(), thief.record);
}

TEST_F(MemberTest, WhatIsNoRecordIsLeftAloneUntilItIsGone) {
  Member zero = MemberOf(Join().value());
  bootstrap_.Overwrite("s", "gossamer-store 7\n");
  const Look look = zero.LookAfterRecord();
  EXPECT_EQ(look.finding, Finding::kUnreadable);
  EXPECT_THAT(look.sentence, AllOf(HasSubstr("cannot be understood"), HasSubstr("remove it"),
                                   HasSubstr("puts its own back once it is gone")));
  EXPECT_EQ(bootstrap_.Get("s").value(), "gossamer-store 7\n");
  bootstrap_.Lose("s");
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
}

TEST_F(MemberTest, ABootstrapThatDoesNotAnswerIsAskedAgain) {
  Member zero = MemberOf(Join().value());
  bootstrap_.LoseAll();
  bootstrap_.Fail(Call::kGet, 1);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kNoBootstrap);
  bootstrap_.Fail(Call::kCompareAndSwap, 1, MemoryBootstrap::Failure::kAfter);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kNoBootstrap);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
}

// A stale read shows a past text: no change rests on it.
TEST_F(MemberTest, ALateReadChangesNothing) {
  Member zero = MemberOf(Join().value());  // Before that, there was no record.
  const auto before = Record();
  bootstrap_.ServeStale("s", 3);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  EXPECT_EQ(Record(), before);
}

// Otherwise another member would put it back, and later joiners would find it dead.
TEST_F(MemberTest, AMemberThatLeavesWithoutARecordIsForgotten) {
  Member zero = MemberOf(Join().value());
  Member one = MemberOf(Join().value());
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);  // It knows server 1.
  bootstrap_.LoseAll();
  ASSERT_TRUE(one.Leave());
  EXPECT_EQ(Servers(), std::vector<int>{0});
  EXPECT_EQ(Record()->next_server, 2);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  bootstrap_.LoseAll();
  ASSERT_TRUE(zero.Leave());
  EXPECT_EQ(bootstrap_.Get("s").value(), std::nullopt);
}

// Server 0 has not looked since server 1 left, and puts it back: a dead server, like one that was
// killed with its keys. No server could join any more.
TEST_F(MemberTest, ADeadMemberThatComesBackWithTheRecordCanBeForgotten) {
  Member zero = MemberOf(Join().value());
  const Joined second = Join().value();
  Member one = MemberOf(second);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  ASSERT_TRUE(one.Leave());
  states_[second.identity.incarnation] = Liveness::kDead;
  bootstrap_.LoseAll();
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_EQ(Servers(), (std::vector<int>{0, 1}));

  const auto refused = Join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("server 1 (host "), HasSubstr("is dead; the keys it held are lost"),
                    HasSubstr("start this server with --forget_dead")));
  const auto joined = Join(CreateMode::kAuto, /*forget_dead=*/true);
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.server, ServerId{2});
  EXPECT_EQ(Servers(), (std::vector<int>{0, 2}));
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  bootstrap_.LoseAll();
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_EQ(Servers(), (std::vector<int>{0, 2}));
  EXPECT_TRUE(Join());
}

// The server is in the record, and would be a dead one there if it gave up.
TEST_F(MemberTest, APublicationWhoseAnswerIsLostCounts) {
  bootstrap_.Fail(Call::kCompareAndSwap, 1, MemoryBootstrap::Failure::kAfter);
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(Record(), joined.value().record);
  bootstrap_.Fail(Call::kCompareAndSwap, 1);
  EXPECT_EQ(Join().error().code, Code::kNodeUnreachable);
  EXPECT_EQ(Servers(), std::vector<int>{0});
}

TEST_F(MemberTest, ClientsAreToldThatALostRecordComesBack) {
  Member zero = MemberOf(Join().value());
  bootstrap_.LoseAll();
  FindOptions find;
  find.store = "s";
  const auto found = FindStore(bootstrap_, find);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("there is no store 's'"), HasSubstr("it puts it back within")));
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_TRUE(FindStore(bootstrap_, find));
}

}  // namespace
}  // namespace gossamer
