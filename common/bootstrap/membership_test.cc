#include "common/bootstrap/membership.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/bootstrap/member.h"
#include "common/bootstrap/test_support.h"
#include "common/process.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JoinOptions Options() {
  JoinOptions options;
  options.store = "s";
  options.fabric = "shm";
  options.patience = std::chrono::milliseconds(0);
  return options;
}

Result<std::string> Address(const MemberIdentity& identity) {
  return fmt::format("address-{}", ToInteger(identity.server));
}

class MembershipTest : public BothBootstraps {
 protected:
  LivenessProbe Probe() {
    return [this](const StoreRecord&, const MemberRecord& member) {
      const auto found = states_.find(ToInteger(member.server));
      return found == states_.end() ? Liveness::kAlive : found->second;
    };
  }
  Result<Joined> Join(const JoinOptions& options = Options(), const BringUp& bring_up = Address) {
    return JoinStore(*bootstrap_, options, Probe(), bring_up);
  }
  std::string RefusedJoin(Code code, const JoinOptions& options = Options()) {
    const auto joined = Join(options);
    if (joined)
      return fmt::format("joined as server {}", ToInteger(joined.value().identity.server));
    EXPECT_EQ(joined.error().code, code);
    return joined.error().message;
  }
  Result<StoreRecord> Find(LivenessProbe probe = nullptr) {
    FindOptions options;
    options.store = "s";
    options.probe = std::move(probe);
    return FindStore(*bootstrap_, options);
  }

  Status Leave(const Joined& joined) {
    Joined as_named = joined;
    for (MemberRecord& member : as_named.record.servers) {
      if (member.server == joined.identity.server) member.incarnation = joined.identity.incarnation;
    }
    return Member(*bootstrap_, as_named, nullptr).Leave();
  }

  std::map<uint16_t, Liveness> states_;
};
INSTANTIATE_TEST_SUITE_P(All, MembershipTest, ::testing::Values("dir", "memcached"),
                         [](const auto& kind) { return kind.param; });

TEST_P(MembershipTest, ServersJoinInOrder) {
  const auto first = Join();
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(first.value().identity.server, ServerId{0});
  const auto second = Join();
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_NE(second.value().identity.server, ServerId{0});
  EXPECT_EQ(second.value().identity.server, ServerId{1});
  EXPECT_EQ(second.value().identity.store_id, first.value().identity.store_id);
  EXPECT_NE(second.value().identity.incarnation, first.value().identity.incarnation);
  const auto record = Find(Probe());
  ASSERT_TRUE(record) << record.error().ToString();
  EXPECT_EQ(record.value(), second.value().record);
  EXPECT_EQ(record.value().servers[1].address, "address-1");
}

TEST_P(MembershipTest, LaterServersMustAgree) {
  ASSERT_TRUE(Join());
  JoinOptions options = Options();
  options.parameters.node_bytes = 512;
  EXPECT_THAT(RefusedJoin(Code::kInvalidArgument, options),
              AllOf(HasSubstr("created with --node_bytes=1024"),
                    HasSubstr("started with --node_bytes=512")));
  options = Options();
  options.parameters.max_key_bytes = 8;
  EXPECT_THAT(RefusedJoin(Code::kInvalidArgument, options),
              AllOf(HasSubstr("--max_key_bytes=250"), HasSubstr("--max_key_bytes=8")));
  options = Options();
  options.parameters.inline_value_bytes = 0;
  EXPECT_THAT(RefusedJoin(Code::kInvalidArgument, options),
              AllOf(HasSubstr("--inline_value_bytes=16"), HasSubstr("--inline_value_bytes=0")));
  options = Options();
  options.fabric = "verbs";
  EXPECT_THAT(RefusedJoin(Code::kInvalidArgument, options),
              AllOf(HasSubstr("--fabric=shm"), HasSubstr("--fabric=verbs")));
}

TEST_P(MembershipTest, AbsentStoreSaysHowToStartOne) {
  const auto record = Find();
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kNotFound);
  EXPECT_THAT(
      record.error().message,
      AllOf(HasSubstr("store 's' at " + bootstrap_->url()),
            HasSubstr("gossamer-memory --memory=1GiB --store=s --bootstrap=" + bootstrap_->url())));
}

TEST_P(MembershipTest, FindWaitsForAStoreThatIsBeingStarted) {
  FindOptions options;
  options.store = "s";
  options.patience = std::chrono::seconds(30);
  std::thread later([this] { ASSERT_TRUE(JoinStore(*Open(), Options(), Probe(), Address)); });
  EXPECT_TRUE(FindStore(*bootstrap_, options));
  later.join();
}

TEST_P(MembershipTest, StoreDiesWithServerZero) {
  const auto old = Join();
  ASSERT_TRUE(old);
  ASSERT_TRUE(Join());
  states_[0] = Liveness::kDead;
  const auto found = Find(Probe());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("server 0 (host "), HasSubstr("address-0"), HasSubstr("is dead")));

  JoinOptions options = Options();
  options.parameters.max_key_bytes = 8;  // A new store has its own parameters.
  const auto joined = Join(options);
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.server, ServerId{0});
  EXPECT_EQ(joined.value().identity.server, ServerId{0});
  EXPECT_NE(joined.value().identity.store_id, old.value().identity.store_id);
  EXPECT_EQ(Find().value().servers.size(), 1u);
  // A server of the lost store leaves the new record unchanged.
  ASSERT_TRUE(Leave(old.value()));
  EXPECT_EQ(Find().value(), joined.value().record);
}

TEST_P(MembershipTest, SilentServerZeroIsNotReplacedUnasked) {
  ASSERT_TRUE(Join());
  states_[0] = Liveness::kSilent;
  EXPECT_THAT(RefusedJoin(Code::kNodeUnreachable),
              AllOf(HasSubstr("does not answer"), HasSubstr("--replace_store")));
  JoinOptions options = Options();
  options.replace_store = true;
  const auto joined = Join(options);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined.value().identity.server, ServerId{0});
}

// Its process is known to run: replacing the store would orphan live data.
TEST_P(MembershipTest, LivingServerZeroThatCannotBeReachedIsNamed) {
  ASSERT_TRUE(Join());
  states_[0] = Liveness::kUnreachable;
  EXPECT_THAT(RefusedJoin(Code::kNodeUnreachable),
              AllOf(HasSubstr(fmt::format("lives as process {} on this host", getpid())),
                    HasSubstr("does not answer at its address"), HasSubstr("address-0"),
                    Not(HasSubstr("--replace_store"))));
  JoinOptions options = Options();
  options.replace_store = true;
  EXPECT_EQ(Join(options).value().identity.server, ServerId{0});
}

// A reason such as that nobody listens there. A client that lacks memory, or that reads a damaged
// header, is not told of silence.
TEST_P(MembershipTest, WhatAProbeFindsOutIsPassedOn) {
  ASSERT_TRUE(Join());
  for (const Code code : {Code::kNodeUnreachable, Code::kExhausted, Code::kCorruption}) {
    for (const Liveness liveness : {Liveness::kUnreachable, Liveness::kSilent}) {
      const LivenessProbe probe = [&](const StoreRecord&, const MemberRecord&) {
        return Probed(liveness, MakeError(code, "the reason"));
      };
      const auto found = Find(probe);
      ASSERT_FALSE(found);
      EXPECT_EQ(found.error().code, code);
      EXPECT_THAT(found.error().message,
                  AllOf(HasSubstr("server 0 (host "), HasSubstr(": the reason")));
      EXPECT_EQ(found.error().message.find("does not answer") != std::string::npos,
                code == Code::kNodeUnreachable);
      const auto joined = JoinStore(*bootstrap_, Options(), probe, Address);
      ASSERT_FALSE(joined);
      EXPECT_EQ(joined.error().code, code);
      EXPECT_THAT(joined.error().message, HasSubstr(": the reason; "));
    }
  }
}

TEST_P(MembershipTest, ReplaceStoreSparesAStoreThatAnswers) {
  ASSERT_TRUE(Join());
  JoinOptions options = Options();
  options.replace_store = true;
  EXPECT_NE(Join(options).value().identity.server, ServerId{0});
}

TEST_P(MembershipTest, DeadOtherServerRefusesNewOnes) {
  ASSERT_TRUE(Join());
  ASSERT_TRUE(Join());
  states_[1] = Liveness::kDead;
  EXPECT_THAT(
      RefusedJoin(Code::kNodeUnreachable),
      AllOf(HasSubstr("server 1 (host "), HasSubstr("is dead"), HasSubstr("start them anew"),
            HasSubstr("dump --salvage"), HasSubstr("--forget_dead")));
  states_[1] = Liveness::kSilent;
  EXPECT_TRUE(Join());
}

TEST_P(MembershipTest, LastServerRemovesTheRecord) {
  const Joined first = Join().value();
  const Joined second = Join().value();
  ASSERT_TRUE(Leave(second));
  EXPECT_EQ(Find().value().servers.size(), 1u);
  const Joined third = Join().value();
  EXPECT_EQ(third.identity.server, ServerId{2});  // Never 1 again.
  ASSERT_TRUE(Leave(first));
  EXPECT_THAT(Find().error().message, HasSubstr("server 0, which held the root, has stopped"));
  Joined stranger = third;
  stranger.identity.incarnation ^= 1;
  ASSERT_TRUE(Leave(stranger));  // Not in the record.
  EXPECT_EQ(Find().error().code, Code::kNodeUnreachable);
  const auto anew = Join();
  ASSERT_TRUE(anew);
  EXPECT_EQ(anew.value().identity.server, ServerId{0});
  ASSERT_TRUE(Leave(anew.value()));
  EXPECT_EQ(Find().error().code, Code::kNotFound);
  EXPECT_TRUE(Leave(anew.value()));
}

// Clients know only so many ids: one more server would lock every new client out.
TEST_P(MembershipTest, NoMoreServersThanClientsKnow) {
  StoreRecord record = Join().value().record;
  record.next_server = kMaxMemoryServers - 1;
  const auto before = bootstrap_->Get("s").value();
  ASSERT_TRUE(bootstrap_->CompareAndSwap("s", before, EncodeStoreRecord(record)).value());
  ASSERT_FALSE(Join(Options(), [](const MemberIdentity&) -> Result<std::string> {
    return MakeError(Code::kExhausted, "no memory");
  }));
  const auto last = Join();  // The failed one used up no id.
  ASSERT_TRUE(last) << last.error().ToString();
  EXPECT_EQ(last.value().identity.server, ServerId{kMaxMemoryServers - 1});
  ASSERT_TRUE(Leave(last.value()));
  EXPECT_THAT(RefusedJoin(Code::kExhausted),
              AllOf(HasSubstr("has had 256 memory servers"), HasSubstr("gossamer dump")));
  EXPECT_TRUE(Find(Probe()));
}

TEST_P(MembershipTest, PeopleDecideWhatIsCreated) {
  JoinOptions join = Options();
  join.create = CreateMode::kJoin;
  JoinOptions create = Options();
  create.create = CreateMode::kNew;
  EXPECT_THAT(
      RefusedJoin(Code::kNotFound, join),
      AllOf(HasSubstr("there is no store 's'"), HasSubstr("to join"), HasSubstr("--create=new")));
  EXPECT_EQ(Join(create).value().identity.server, ServerId{0});
  EXPECT_THAT(RefusedJoin(Code::kInvalidArgument, create),
              AllOf(HasSubstr("store 's'"), HasSubstr("lives, with server 0"),
                    HasSubstr("leave out --create=new")));
  EXPECT_NE(Join(join).value().identity.server, ServerId{0});
  states_[0] = Liveness::kDead;
  EXPECT_THAT(
      RefusedJoin(Code::kNodeUnreachable, join),
      AllOf(HasSubstr("is lost with its server 0"), HasSubstr("--create=join creates none")));
  EXPECT_EQ(Join(create).value().identity.server, ServerId{0});
  EXPECT_EQ(ParseCreateMode("join").value(), CreateMode::kJoin);
  EXPECT_EQ(ParseCreateMode("never").error().message, "--create=never: give auto, new or join");
}

TEST_P(MembershipTest, CorruptRecordIsNotTouched) {
  ASSERT_TRUE(bootstrap_->CompareAndSwap("s", {}, "gossamer-store 7\n").value());
  EXPECT_THAT(RefusedJoin(Code::kCorruption), HasSubstr("cannot be understood (line 1"));
  EXPECT_EQ(Find().error().code, Code::kCorruption);
  EXPECT_EQ(bootstrap_->Get("s").value(), "gossamer-store 7\n");
}

TEST_P(MembershipTest, FailedBringUpLeavesNothing) {
  const auto joined = Join(Options(), [](const MemberIdentity&) -> Result<std::string> {
    return MakeError(Code::kExhausted, "no memory");
  });
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kExhausted);
  EXPECT_EQ(bootstrap_->Get("s").value(), std::nullopt);
  EXPECT_EQ(Join().value().identity.server, ServerId{0});
}

// A path may contain any bytes, a record may not: nothing could parse it any more.
TEST_P(MembershipTest, AddressThatDoesNotFitTheRecordIsRefused) {
  for (const std::string& address : {std::string("/tmp/\xc3\xa9.sock"), std::string("a b"),
                                     std::string(), std::string(256, 'x')}) {
    const auto joined =
        Join(Options(), [&](const MemberIdentity&) -> Result<std::string> { return address; });
    ASSERT_FALSE(joined) << address;
    EXPECT_EQ(joined.error().code, Code::kInvalidArgument);
    EXPECT_THAT(joined.error().message, HasSubstr("--listen="));
    EXPECT_EQ(bootstrap_->Get("s").value(), std::nullopt);
  }
  EXPECT_TRUE(Join());
}

// The lock passed to another server while this one was stopped: the compare-and-swap detects it.
TEST_P(MembershipTest, LateServerDoesNotOverwrite) {
  const auto joined = Join(Options(), [this](const MemberIdentity& identity) {
    StoreRecord other{"s", 77, "shm", {}, 1, {{ServerId{0}, 1, "h", "-", "elsewhere"}}};
    EXPECT_TRUE(bootstrap_->CompareAndSwap("s", {}, EncodeStoreRecord(other)).value());
    return Address(identity);
  });
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kContended);
  EXPECT_EQ(Find().value().servers[0].address, "elsewhere");
}

TEST_P(MembershipTest, ThreadsThatRaceMakeOneStore) {
  constexpr int kServers = 4;
  std::mutex mutex;
  std::set<uint16_t> servers;
  std::set<uint64_t> stores;
  int creators = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kServers; ++i) {
    threads.emplace_back([&] {
      const auto joined = JoinStore(*Open(), Options(), Probe(), Address);
      ASSERT_TRUE(joined) << joined.error().ToString();
      const std::lock_guard guard(mutex);
      servers.insert(ToInteger(joined.value().identity.server));
      stores.insert(joined.value().identity.store_id);
      if (joined.value().identity.server == ServerId{0}) ++creators;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(servers, (std::set<uint16_t>{0, 1, 2, 3}));
  EXPECT_EQ(stores.size(), 1u);
  EXPECT_EQ(creators, 1);
}

// A process killed between its region's start and the publication leaves no trace in the record.
TEST(DirectoryMembership, ServerKilledBeforePublishingIsForgotten) {
  const TemporaryDirectory directory;
  const std::string url = "dir:" + directory.path();
  const LivenessProbe alive = [](const StoreRecord&, const MemberRecord&) {
    return Liveness::kAlive;
  };
  const pid_t child = fork();
  if (child == 0) {
    const auto bootstrap = OpenBootstrap(url).value();
    (void)JoinStore(*bootstrap, Options(), alive,
                    [](const MemberIdentity&) -> Result<std::string> { _exit(0); });
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto joined = JoinStore(*OpenBootstrap(url).value(), Options(), alive, Address);
  ASSERT_TRUE(joined) << joined.error().ToString();
  EXPECT_EQ(joined.value().identity.server, ServerId{0});
}

TEST(ProcessIdentity, TellsRunningFromGone) {
  EXPECT_EQ(LookUpProcess(OwnProcessIdentity()), ProcessState::kRunning);
  EXPECT_EQ(LookUpProcess("-"), ProcessState::kUnknown);
  EXPECT_EQ(LookUpProcess("0000000000000000/1/2/3"), ProcessState::kOtherBoot);
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = OwnProcessIdentity();
    _exit(write(fds[1], own.data(), own.size()) > 0 ? 0 : 1);
  }
  char buffer[256];
  const ssize_t got = read(fds[0], buffer, sizeof buffer);
  close(fds[0]);
  close(fds[1]);
  ASSERT_GT(got, 0);
  waitpid(child, nullptr, 0);
  const std::string identity(buffer, static_cast<size_t>(got));
  EXPECT_EQ(LookUpProcess(identity), ProcessState::kGone);
  const std::string without_start = identity.substr(0, identity.rfind('/') + 1);
  EXPECT_EQ(LookUpProcess(without_start), ProcessState::kUnknown);
  EXPECT_EQ(ProcessIdOf("a/b//c"), "?");

  const MemberRecord member{ServerId{0}, 1, "h", identity, "a"};
  EXPECT_EQ(JudgeSilence({"s", 1, "verbs", {}, 1, {member}}, member), Liveness::kDead);
  const MemberRecord running{ServerId{0}, 1, "h", OwnProcessIdentity(), "a"};
  EXPECT_EQ(JudgeSilence({"s", 1, "shm", {}, 1, {running}}, running), Liveness::kUnreachable);
  const MemberRecord elsewhere{ServerId{0}, 1, "h", "0000000000000000/1/2/3", "a"};
  EXPECT_EQ(JudgeSilence({"s", 1, "shm", {}, 1, {elsewhere}}, elsewhere), Liveness::kDead);
  EXPECT_EQ(JudgeSilence({"s", 1, "verbs", {}, 1, {elsewhere}}, elsewhere), Liveness::kSilent);
  const MemberRecord nameless{ServerId{0}, 1, "h", "-", "a"};
  EXPECT_EQ(JudgeSilence({"s", 1, "shm", {}, 1, {nameless}}, nameless), Liveness::kSilent);
}

}  // namespace
}  // namespace gossamer
