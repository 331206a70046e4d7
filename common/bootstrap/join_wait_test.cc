// Joining while the bootstrap forgets: a server creates a store, or takes an id, only in place of a
// text that all live members had time to change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>

#include "common/bootstrap/member_test_support.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Call = MemoryBootstrap::Call;

constexpr milliseconds kRepublishWait{300};
constexpr milliseconds kUntilNextLook{100};

class JoinWaitTest : public MemberTest {
 protected:
  // At the joining server's read number `number` calls `what`, and kUntilNextLook later calls
  // `later`, because members look at their own times.
  void AtRead(int number, const std::function<void()>& what, const std::function<void()>& later) {
    bootstrap_.set_republish_wait(kRepublishWait);
    bootstrap_.set_before([this, number, what, later](Call call, const std::string&) {
      if (is_within_ || call != Call::kGet) return;
      is_within_ = true;
      if (++reads_ == number) {
        what();
        later_at_ = steady_clock::now() + kUntilNextLook;
      } else if (later_at_ && steady_clock::now() >= *later_at_) {
        later_at_.reset();
        later();
      }
      is_within_ = false;
    });
  }
  void LoseAndPutBack(Member& member) {
    bootstrap_.LoseAll();
    EXPECT_EQ(member.LookAfterRecord().finding, Finding::kPutBack);
  }
  // The record of a store whose server 0 is dead.
  std::string DeadRecord() {
    constexpr uint64_t kDead = 7;
    states_[kDead] = Liveness::kDead;
    return EncodeStoreRecord({"s", kDead, "shm", {}, 1, {{ServerId{0}, kDead, "h", "-", "a"}}});
  }

 private:
  int reads_ = 0;
  bool is_within_ = false;
  std::optional<steady_clock::time_point> later_at_;
};

// Regression: a flush made a second, empty store, because the server had waited once and took what
// it read then.
TEST_F(JoinWaitTest, ARecordLostAgainIsWaitedForAgain) {
  const Joined first = Join().value();
  Member zero = MemberOf(first);
  LoseAndPutBack(zero);
  AtRead(2, [&] { bootstrap_.LoseAll(); }, [&] { zero.LookAfterRecord(); });
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_NE(joined.value().identity.server, ServerId{0});
  EXPECT_EQ(joined.value().identity.store_id, first.identity.store_id);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
}

// The record was put back without server 1, which had just joined and adds itself at its next look.
TEST_F(JoinWaitTest, ARecordPutBackAgainIsWaitedForAnew) {
  Member zero = MemberOf(Join().value());
  LoseAndPutBack(zero);
  std::optional<Member> one;
  AtRead(
      2,
      [&] {
        bootstrap_.set_republish_wait(milliseconds(0));  // It has waited, and is first.
        one.emplace(MemberOf(Join().value()));
        bootstrap_.set_republish_wait(kRepublishWait);
        LoseAndPutBack(zero);
      },
      [&] { one->LookAfterRecord(); });
  const auto two = Join();
  ASSERT_TRUE(two) << two.error().ToString();
  EXPECT_EQ(two.value().identity.server, ServerId{2});
  EXPECT_EQ(one->LookAfterRecord().finding, Finding::kInPlace);
}

// Between two reads of the waiting server the record was there and is gone again. Both reads are
// equal, except for the note that the server had left.
TEST_F(JoinWaitTest, ALossBetweenTwoReadsIsNoticed) {
  const Joined first = Join().value();
  Member zero = MemberOf(first);
  bootstrap_.LoseAll();
  constexpr int kLastRead = 1 + kRepublishWait / milliseconds(50);
  AtRead(
      kLastRead,
      [&] {
        EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
        bootstrap_.LoseAll();
      },
      [&] { zero.LookAfterRecord(); });
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.store_id, first.identity.store_id);
  EXPECT_EQ(joined.value().identity.server, ServerId{1});
}

// A loss between the end of the wait and the publishing compare-and-swap.
TEST_F(JoinWaitTest, ALossAfterTheWaitIsNoticed) {
  const Joined first = Join().value();
  Member zero = MemberOf(first);
  LoseAndPutBack(zero);
  const auto join = [&] {
    JoinOptions options;
    options.store = "s";
    options.fabric = "shm";
    return JoinStore(bootstrap_, options, Probe(),
                     [&](const MemberIdentity&) -> Result<std::string> {
                       bootstrap_.LoseAll();
                       return std::string("address");
                     });
  };
  auto joined = join();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kContended);
  EXPECT_THAT(joined.error().message, HasSubstr("or lost, while this one started; start it again"));
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
  ASSERT_TRUE(zero.Leave());
  bootstrap_.set_republish_wait(kRepublishWait);
  joined = join();
  ASSERT_FALSE(joined) << "created a store where the note was lost";
  EXPECT_EQ(joined.error().code, Code::kContended);
  EXPECT_EQ(Record(), std::nullopt);
}

// A store that lost its name to another one takes it back once the other is dead. Its members probe
// only at each tenth look, but sooner if a joining server has asked.
TEST_F(JoinWaitTest, AStoreThatLivesComesBeforeANewOne) {
  const Joined first = Join().value();
  Member zero = MemberOf(first);
  const std::string dead = DeadRecord();
  states_[7] = Liveness::kAlive;
  bootstrap_.Overwrite("s", dead);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kOtherStore);
  states_[7] = Liveness::kDead;
  AtRead(2, [] {}, [&] { EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kTookBack); });
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.store_id, first.identity.store_id);
}

TEST_F(JoinWaitTest, ALostStoreIsReplacedOnceNobodyObjects) {
  bootstrap_.Overwrite("s", DeadRecord());
  bootstrap_.set_republish_wait(kRepublishWait);
  const auto joined = Join();
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.server, ServerId{0});
  EXPECT_EQ(Record(), joined.value().record);
}

// The note of a server that died while it waited is no store, and hinders no other server.
TEST_F(JoinWaitTest, ANoteIsNoStore) {
  bootstrap_.set_republish_wait(kRepublishWait);
  JoinOptions options;
  options.store = "s";
  options.fabric = "shm";
  int asked = 0;
  options.is_to_stop = [&] { return ++asked == 2; };
  ASSERT_FALSE(JoinStore(bootstrap_, options, Probe(), nullptr));
  const auto note = bootstrap_.Get("s").value();
  ASSERT_TRUE(note);
  FindOptions find;
  find.store = "s";
  EXPECT_EQ(FindStore(bootstrap_, find).error().code, Code::kNotFound);
  const Joined joined = Join().value();
  EXPECT_EQ(joined.identity.server, ServerId{0});

  Member zero = MemberOf(joined);
  bootstrap_.Overwrite("s", note);
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kPutBack);
  EXPECT_EQ(Servers(), std::vector<int>{0});
  Member one = MemberOf(Join().value());
  EXPECT_EQ(zero.LookAfterRecord().finding, Finding::kInPlace);
  bootstrap_.Overwrite("s", note);
  EXPECT_TRUE(one.Leave());
  EXPECT_EQ(Servers(), std::vector<int>{0});
  bootstrap_.Overwrite("s", note);
  EXPECT_EQ(Join(CreateMode::kNew).value().identity.server, ServerId{0});
}

TEST_F(JoinWaitTest, ServersThatWaitTogetherMakeOneStore) {
  constexpr int kServers = 4;
  bootstrap_.set_republish_wait(kRepublishWait);
  std::vector<Result<Joined>> joined(kServers, MakeError(Code::kContended, ""));
  std::vector<std::thread> threads;
  for (Result<Joined>& each : joined) threads.emplace_back([&] { each = Join(); });
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> stores;
  std::set<ServerId> servers;
  for (const Result<Joined>& each : joined) {
    ASSERT_TRUE(each) << each.error().ToString();
    stores.insert(each.value().identity.store_id);
    servers.insert(each.value().identity.server);
  }
  EXPECT_EQ(stores.size(), 1u);
  EXPECT_EQ(servers.size(), size_t{kServers});
}

TEST_F(JoinWaitTest, ARecordThatIsLostAllTheTimeIsAnError) {
  Member zero = MemberOf(Join().value());
  bootstrap_.set_republish_wait(milliseconds(20));
  bool is_within = false;
  bootstrap_.set_before([&](Call call, const std::string&) {
    if (is_within || call != Call::kGet) return;
    is_within = true;
    LoseAndPutBack(zero);
    is_within = false;
  });
  const auto joined = Join();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kContended);
  EXPECT_THAT(joined.error().message,
              AllOf(HasSubstr("record of store 's' at memory: has not stood for 20 ms in 400 ms"),
                    HasSubstr("start this server again")));
  EXPECT_EQ(Servers(), std::vector<int>{0});
}

}  // namespace
}  // namespace gossamer
