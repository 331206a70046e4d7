#include "common/bootstrap/rejoin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/member_test_support.h"
#include "common/bootstrap/requests.h"
#include "common/process.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RejoinTest : public MemberTest {
 protected:
  static JoinOptions Options() {
    JoinOptions options;
    options.store = "s";
    options.fabric = "shm";
    options.region = "/dev/shm/r";
    return options;
  }
  Result<Joined> JoinWithRegion() {
    return JoinStore(bootstrap_, Options(), Probe(),
                     [](const MemberIdentity& identity) -> Result<std::string> {
                       return fmt::format("address-{}", ToInteger(identity.server));
                     });
  }
  // What the region of `joined` says of it. Its process has ended.
  Returning Leave(const Joined& joined) {
    states_[joined.identity.incarnation] = Liveness::kDead;
    Returning returning;
    returning.identity = joined.identity;
    returning.identity.incarnation = RandomId();
    returning.earlier = joined.earlier;
    returning.earlier.insert(returning.earlier.begin(), joined.identity.incarnation);
    returning.parameters = joined.record.parameters;
    returning.known = EncodeStoreRecord(joined.record);
    return returning;
  }
  Result<Joined> Rejoin(const Returning& returning, const JoinOptions& options = Options()) {
    return RejoinStore(bootstrap_, options, returning, Probe(),
                       [this](const MemberIdentity&) -> Result<std::string> {
                         ++served_;
                         return std::string("address-back");
                       });
  }
  void LoseRecord() {
    const auto text = bootstrap_.Get("s").value();
    ASSERT_TRUE(bootstrap_.CompareAndSwap("s", text, std::nullopt).value());
  }

  int served_ = 0;
};

TEST_F(RejoinTest, TakesItsOwnPlace) {
  const Joined first = JoinWithRegion().value();
  const Joined second = JoinWithRegion().value();
  const Returning returning = Leave(first);
  const Result<Joined> back = Rejoin(returning);
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(back.value().identity.store_id, first.identity.store_id);
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
  const StoreRecord record = Record().value();
  EXPECT_EQ(record.servers[0].incarnation, returning.identity.incarnation);
  EXPECT_EQ(record.servers[0].address, "address-back");
  EXPECT_EQ(record.servers[0].region, "/dev/shm/r");
  EXPECT_EQ(record.servers[1].incarnation, second.identity.incarnation);
  EXPECT_EQ(record.next_server, 2);
  EXPECT_EQ(record.restored, 0u);
  EXPECT_EQ(served_, 1);
}

// It was killed after it had begun another life, and before that was recorded.
TEST_F(RejoinTest, TakesItsPlaceFromAnyLifeBefore) {
  const Joined first = JoinWithRegion().value();
  Returning returning = Leave(first);
  returning.earlier.insert(returning.earlier.begin(), RandomId());
  ASSERT_TRUE(Rejoin(returning));
  EXPECT_EQ(Record().value().servers[0].incarnation, returning.identity.incarnation);
}

TEST_F(RejoinTest, ADeadServerWithItsMemoryIsNotReplaced) {
  const Joined first = JoinWithRegion().value();
  const Joined second = JoinWithRegion().value();
  states_[second.identity.incarnation] = Liveness::kDead;
  ASSERT_TRUE(JoinWithRegion()) << "server 1 comes back";
  states_[first.identity.incarnation] = Liveness::kDead;
  const Result<Joined> refused = JoinWithRegion();
  ASSERT_FALSE(refused) << "server 0 has the store's root";
  EXPECT_EQ(refused.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(refused.error().message, HasSubstr("start it again, with --region=/dev/shm/r"));
  FindOptions find;
  find.store = "s";
  find.probe = Probe();
  EXPECT_THAT(FindStore(bootstrap_, find).error().message, HasSubstr("--region=/dev/shm/r"));
}

// Only somebody who knows the units can say whether it is another one's.
TEST_F(RejoinTest, AServiceOfWhichSystemdHasLostTheMemoryIsNoOtherServer) {
  JoinOptions options = Options();
  options.region = kKeptBySystemd;
  const auto join = [&] {
    return JoinStore(
        bootstrap_, options, Probe(),
        [](const MemberIdentity&) -> Result<std::string> { return std::string("address"); });
  };
  const Joined first = join().value();
  const Joined second = join().value();
  states_[second.identity.incarnation] = Liveness::kDead;
  EXPECT_THAT(join().error().message,
              AllOf(HasSubstr("server 1"), HasSubstr("which has none of this service"),
                    HasSubstr("--forget_dead takes it out of the record")));
  ASSERT_TRUE(JoinWithRegion()) << "one with a file is another one";
  options.forget_dead = true;
  ASSERT_TRUE(join());
  EXPECT_THAT(Servers(), ElementsAre(0, 2, 3));
  states_[first.identity.incarnation] = Liveness::kDead;
  EXPECT_THAT(join().error().message,
              AllOf(HasSubstr("server 0"), HasSubstr("the store is lost: --replace_store begins")));
  EXPECT_THAT(JoinWithRegion().error().message, HasSubstr("start it again"));
  options.replace_store = true;
  ASSERT_TRUE(join());
  EXPECT_NE(Record().value().store_id, first.identity.store_id);
}

TEST_F(RejoinTest, AFileThatIsNotThereBringsNobodyBack) {
  MemberRecord member;
  EXPECT_FALSE(MayReturn(member)) << "without a file";
  member.region = "/dev/null/none";
  member.host = HostName();
  member.process = "-";
  EXPECT_TRUE(MayReturn(member)) << "nobody knows where that is";
  const std::string own = OwnProcessIdentity();
  member.process = own.substr(0, own.rfind('/')) + "/1";  // a process of before, with this one's id
  EXPECT_FALSE(MayReturn(member));
  member.region = "/dev/null";
  EXPECT_TRUE(MayReturn(member));
  member.region = "/dev/null/none";
  member.host = "another";
  EXPECT_TRUE(MayReturn(member));
}

TEST_F(RejoinTest, PutsALostRecordBack) {
  const Joined first = JoinWithRegion().value();
  const Joined second = JoinWithRegion().value();
  Returning returning = Leave(second);
  LoseRecord();
  ASSERT_TRUE(Rejoin(returning));
  EXPECT_THAT(Servers(), ElementsAre(0, 1)) << "as the region has noted it";
  EXPECT_NE(Record().value().restored, 0u);
  EXPECT_EQ(Record().value().store_id, first.identity.store_id);

  // Nothing was noted: others add themselves.
  returning = Leave(Joined{{first.identity.store_id, returning.identity.incarnation, ServerId{1}},
                           Record().value(),
                           {}});
  returning.known.clear();
  LoseRecord();
  ASSERT_TRUE(Rejoin(returning));
  EXPECT_THAT(Servers(), ElementsAre(1));
  EXPECT_EQ(Record().value().next_server, 2);
  EXPECT_EQ(MemberOf(first).LookAfterRecord().finding, Finding::kMerged);
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
}

// Another member puts back a record that it read before the server came back.
TEST_F(RejoinTest, AMemberTakesItsPlaceFromALifeBefore) {
  const Joined first = JoinWithRegion().value();
  const auto text = bootstrap_.Get("s").value();
  const Joined back = Rejoin(Leave(first)).value();
  Member member = MemberOf(back);
  EXPECT_EQ(member.LookAfterRecord().finding, Finding::kInPlace);
  const auto now = bootstrap_.Get("s").value();
  ASSERT_TRUE(bootstrap_.CompareAndSwap("s", now, text).value());
  EXPECT_EQ(member.LookAfterRecord().finding, Finding::kMerged);
  EXPECT_EQ(Record().value().servers.size(), 1u);
  EXPECT_EQ(Record().value().servers[0].incarnation, back.identity.incarnation);
}

TEST_F(RejoinTest, AnOldRegionIsRefused) {
  const Joined first = JoinWithRegion().value();
  const Returning old = Leave(first);
  ASSERT_TRUE(Rejoin(old));
  Returning copy = Leave(first);  // a copy of the file, from before
  const Result<Joined> refused = Rejoin(copy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("what this server has is not what"));
  EXPECT_EQ(served_, 1) << "nobody was served from it";
}

TEST_F(RejoinTest, AnotherStoreOfThatNameIsLeftAlone) {
  const Returning returning = Leave(JoinWithRegion().value());
  LoseRecord();
  const Joined other = Join(CreateMode::kNew).value();
  Result<Joined> refused = Rejoin(returning);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("is another one now"));
  states_[other.identity.incarnation] = Liveness::kSilent;
  EXPECT_FALSE(Rejoin(returning)) << "it may live";
  EXPECT_EQ(served_, 0);

  states_[other.identity.incarnation] = Liveness::kDead;
  ASSERT_TRUE(Rejoin(returning)) << "its memory is gone";
  EXPECT_EQ(Record().value().store_id, returning.identity.store_id);
}

TEST_F(RejoinTest, AnotherStoreThatComesBackIsLeftAloneToo) {
  const Returning returning = Leave(JoinWithRegion().value());
  LoseRecord();
  const Joined other = JoinWithRegion().value();
  states_[other.identity.incarnation] = Liveness::kDead;
  EXPECT_FALSE(Rejoin(returning));
}

TEST_F(RejoinTest, ServesOnlyWithTheParametersOfTheStore) {
  Returning returning = Leave(JoinWithRegion().value());
  JoinOptions options = Options();
  options.parameters.node_bytes = 512;
  Result<Joined> refused = Rejoin(returning, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--node_bytes=1024"));
  // No record has them any more.
  LoseRecord();
  returning.known.clear();
  refused = Rejoin(returning, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--node_bytes=1024"));
  EXPECT_EQ(served_, 0);
}

// ---- With what was loaded from a saved file

class GoBackTest : public RejoinTest {
 protected:
  static constexpr uint64_t kSet = 0xabc;

  static JoinOptions OptionsOfSaving() {
    JoinOptions options = Options();
    options.region = "";
    options.saved = kSet;
    options.patience = std::chrono::milliseconds(0);
    return options;
  }
  Result<Joined> JoinAndSave(bool forget_dead = false) {
    JoinOptions options = OptionsOfSaving();
    options.saved = 0;
    options.forget_dead = forget_dead;
    return JoinStore(bootstrap_, options, Probe(),
                     [](const MemberIdentity& identity) -> Result<std::string> {
                       return fmt::format("address-{}", ToInteger(identity.server));
                     });
  }
  Returning Save(const Joined& joined, uint64_t set = kSet) {
    Returning returning = Leave(joined);
    returning.set = set;
    return returning;
  }
  // Each with the record as it was last.
  std::pair<Returning, Returning> SaveBoth(const Joined& first, const Joined& second) {
    const std::string known = EncodeStoreRecord(Record().value());
    std::pair both(Save(first), Save(second));
    both.first.known = both.second.known = known;
    return both;
  }
  Result<Joined> Load(const Returning& returning) { return Rejoin(returning, OptionsOfSaving()); }
};

TEST_F(GoBackTest, ReturnsWhereNothingWentOn) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const Result<Joined> back = Load(Save(second));
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(back.value().identity.store_id, first.identity.store_id);
  EXPECT_TRUE(Record().value().awaited.empty());
  EXPECT_EQ(Record().value().servers[1].saved, kSet);
}

TEST_F(GoBackTest, IsAnotherStoreIfTheRecordIsLost) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  // In any order.
  const Joined back = Load(other).value();
  EXPECT_NE(back.identity.store_id, first.identity.store_id);
  EXPECT_EQ(back.identity.server, ServerId{1});
  EXPECT_EQ(Record().value().AwaitedSetOf(ServerId{0}), kSet);
  EXPECT_EQ(Record().value().next_server, 2);
  const Joined joined = Load(one).value();
  EXPECT_EQ(joined.identity.store_id, back.identity.store_id);
  EXPECT_TRUE(Record().value().awaited.empty());
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
}

TEST_F(GoBackTest, SetsAreNotMixed) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  auto [one, older] = SaveBoth(first, second);
  older.set = kSet - 1;
  LoseRecord();
  const Joined back = Load(one).value();
  const int served = served_;
  const Result<Joined> refused = Load(older);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message,
              HasSubstr("awaits server 1 with that; this server has loaded set"));
  EXPECT_EQ(served_, served);
  EXPECT_EQ(Record().value().store_id, back.identity.store_id);
}

// Regression: it came back into the running store, with what it had held when that was saved.
TEST_F(GoBackTest, OneThatWasForgottenDoesNotComeBackWithItsFile) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  ASSERT_TRUE(Load(one));
  const Joined lost = Load(other).value();
  states_[lost.identity.incarnation] = Liveness::kDead;
  ASSERT_TRUE(JoinAndSave(/*forget_dead=*/true));
  EXPECT_THAT(Servers(), ElementsAre(0, 2));
  const Result<Joined> refused = Load(other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is another one now"));
  EXPECT_THAT(Servers(), ElementsAre(0, 2));
}

// Nor where the store went on without it before it came.
TEST_F(GoBackTest, OneThatIsGivenUpDoesNotComeBackWithItsFile) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  ASSERT_TRUE(Load(one));
  ASSERT_TRUE(JoinAndSave(/*forget_dead=*/true));
  EXPECT_TRUE(Record().value().awaited.empty());
  ASSERT_FALSE(Load(other));
  EXPECT_THAT(Servers(), ElementsAre(0, 2));
}

// It stopped without saving again, and its file is that of before.
TEST_F(GoBackTest, OneThatLeftDoesNotComeBackWithItsFile) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  ASSERT_TRUE(Load(one));
  const Joined back = Load(other).value();
  ASSERT_TRUE(Member(bootstrap_, back, Probe()).Leave());
  ASSERT_FALSE(Load(other));
  EXPECT_THAT(Servers(), ElementsAre(0));
}

// Server 0 comes with another set: it must not put up a store of its own beside the other one.
TEST_F(GoBackTest, ServerZeroFollowsToo) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  ASSERT_TRUE(Load(other));
  one.set = kSet - 1;
  const Result<Joined> refused = Load(one);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("awaits server 0 with that"));
  // Nor does one that knows nothing of the store create one in its place.
  JoinOptions options = OptionsOfSaving();
  const auto bring_up = [](const MemberIdentity&) -> Result<std::string> {
    return std::string("new");
  };
  const Result<Joined> created = JoinStore(bootstrap_, options, Probe(), bring_up);
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, HasSubstr("server 0, which has the tree's root, has not"));
  EXPECT_THAT(Servers(), ElementsAre(1));
  one.set = kSet;
  ASSERT_TRUE(Load(one));
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
}

// Regression: the record was lost while the server that put it back did not know of the last life.
TEST_F(GoBackTest, AnOldFileIsNotTakenForTheLastThoughTheRecordNamesIt) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  auto [one, other] = SaveBoth(first, second);
  EXPECT_EQ(Record().value().servers[1].incarnation, second.identity.incarnation);
  other.been_in = first.identity.store_id;
  const Result<Joined> back = Load(other);
  ASSERT_TRUE(back) << "server 0 is dead: the store goes back";
  EXPECT_NE(back.value().identity.store_id, first.identity.store_id);
}

TEST_F(GoBackTest, OneThatWasBackDoesNotComeBackOnceMore) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  const Joined back = Load(one).value();
  other.been_in = back.identity.store_id;
  const Result<Joined> refused = Load(other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("server 1 has been back in store 's'"));
  other.been_in = first.identity.store_id;
  EXPECT_TRUE(Load(other));
}

// A server that has all that it held comes back to a record that was put back without it, and knows
// of servers that the record lacks.
TEST_F(RejoinTest, NoIdIsGivenAgain) {
  const Joined first = JoinWithRegion().value();
  const Joined second = JoinWithRegion().value();
  Returning early = Leave(second);
  const Joined third = JoinWithRegion().value();
  Returning late = Leave(first);
  late.known = EncodeStoreRecord(Record().value());
  Leave(third);
  LoseRecord();
  ASSERT_TRUE(Rejoin(early));
  EXPECT_EQ(Record().value().next_server, 2);
  ASSERT_TRUE(Rejoin(late));
  EXPECT_EQ(Record().value().next_server, 3);
}

// A server that is saved while another one is awaited still awaits that one, with its file of
// before.
TEST_F(GoBackTest, OneThatWasAwaitedStaysSo) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  LoseRecord();
  const Joined back = Load(one).value();
  EXPECT_FALSE(HaveAllSaved(Record().value(), kSet));
  Returning later = Save(back, kSet + 1);
  later.known = EncodeStoreRecord(Record().value());
  LoseRecord();
  ASSERT_TRUE(Load(later));
  EXPECT_EQ(Record().value().AwaitedSetOf(ServerId{1}), kSet);
  ASSERT_TRUE(Load(other));
  EXPECT_TRUE(Record().value().awaited.empty());
}

TEST_F(RejoinTest, AnotherStoresNameIsRefused) {
  const Joined joined = JoinWithRegion().value();
  Returning returning = Leave(joined);
  JoinOptions options = Options();
  options.store = "other";
  const Result<Joined> refused = Rejoin(returning, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is of store 's', and --store says 'other'"));
  EXPECT_EQ(served_, 0);
}

// The record outlived the machine; the memory, which the store went on with, did not.
TEST_F(GoBackTest, GoesBackWhereTheMemoryIsGone) {
  const Joined first = JoinAndSave().value();
  const Joined second = JoinAndSave().value();
  const auto [one, other] = SaveBoth(first, second);
  const Joined later_one = Load(one).value();
  const Joined later_other = Load(other).value();
  EXPECT_EQ(later_one.identity.store_id, first.identity.store_id);
  // While a server of it lives, the store is not gone.
  states_[later_other.identity.incarnation] = Liveness::kDead;
  const Result<Joined> refused = Load(other);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("went on after the file was saved"));
  states_[later_one.identity.incarnation] = Liveness::kDead;
  const Joined back = Load(other).value();
  EXPECT_NE(back.identity.store_id, first.identity.store_id);
  EXPECT_EQ(Load(one).value().identity.store_id, back.identity.store_id);
  // The same once more, with the same files.
  const StoreRecord record = Record().value();
  for (const auto& member : record.servers) states_[member.incarnation] = Liveness::kDead;
  const Joined again = Load(one).value();
  EXPECT_NE(again.identity.store_id, back.identity.store_id);
  EXPECT_EQ(Load(other).value().identity.store_id, again.identity.store_id);
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
}

}  // namespace
}  // namespace gossamer
