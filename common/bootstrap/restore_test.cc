// A store of three servers that save, as restore.h has them go back together: after a save that was
// cut short anywhere, started in any order, with a kill anywhere.
#include "common/bootstrap/restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/member_test_support.h"
#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/rejoin.h"
#include "common/bootstrap/requests.h"
#include "common/process.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RestoreTest : public MemberTest {
 protected:
  static constexpr size_t kServers = 3;

  struct File {
    uint64_t set = 0;
    MemberIdentity identity;  // of the life that was saved
    std::vector<uint64_t> earlier;
    std::string known;
  };
  struct Server {
    std::vector<File> files;  // the newest first
    std::optional<Joined> joined;
    std::unique_ptr<Member> member;  // while it lives
    uint64_t loaded = 0;             // the set that its first life has begun with

    std::vector<uint64_t> sets() const {
      std::vector<uint64_t> sets;
      for (const File& file : files) sets.push_back(file.set);
      return sets;
    }
  };
  using Order = std::array<size_t, kServers>;

  static std::vector<Order> Orders() {
    std::vector<Order> orders;
    Order order = {0, 1, 2};
    do orders.push_back(order);
    while (std::ranges::next_permutation(order).found);
    return orders;
  }
  static JoinOptions Options() {
    JoinOptions options;
    options.store = "s";
    options.fabric = "shm";
    options.saved = 0;
    options.patience = std::chrono::milliseconds(0);
    return options;
  }
  static Result<std::string> BringUp(const MemberIdentity& identity) {
    return fmt::format("address-{}", ToInteger(identity.server));
  }

  // ---- What a server does

  void Found() {
    servers_.clear();
    servers_.resize(kServers);
    for (Server& server : servers_) {
      server.joined = JoinStore(bootstrap_, Options(), Probe(), BringUp).value();
      server.member = std::make_unique<Member>(MemberOf(*server.joined));
    }
    BeginSaving();
    for (size_t i = 0; i < kServers; ++i) WriteFile(i);
    for (size_t i = 0; i < kServers; ++i) NoteFile(i);
    for (size_t i = 0; i < kServers; ++i) RemoveOthers(i);
    for (size_t i = 0; i < kServers; ++i) GoOn(i);
  }
  // All lives end, and the record is read.
  void BeginSaving() {
    record_ = Record().value();
    for (Server& server : servers_) server.member.reset();
  }
  void WriteFile(size_t i) {
    Server& server = servers_[i];
    File file;
    file.set = SetOf(record_);
    file.identity = server.joined->identity;
    file.earlier = server.joined->earlier;
    file.earlier.insert(file.earlier.begin(), file.identity.incarnation);
    file.known = EncodeStoreRecord(record_);
    server.files.insert(server.files.begin(), file);
  }
  void NoteFile(size_t i) {
    const File& file = servers_[i].files.front();
    ASSERT_TRUE(NoteSaved(bootstrap_, "s", file.identity, file.set, "/saved/s.saved"));
  }
  void RemoveOthers(size_t i) {
    ASSERT_TRUE(HaveAllSaved(Record().value(), servers_[i].files.front().set));
    servers_[i].files.resize(1);
  }
  // The next life, on the same memory.
  void GoOn(size_t i) {
    Server& server = servers_[i];
    Returning returning;
    returning.identity = server.joined->identity;
    returning.identity.incarnation = RandomId();
    returning.earlier = server.joined->earlier;
    returning.earlier.insert(returning.earlier.begin(), server.joined->identity.incarnation);
    returning.parameters = record_.parameters;
    JoinOptions options = Options();
    options.saved = server.files.front().set;
    server.joined = RejoinStore(bootstrap_, options, returning, Probe(), BringUp).value();
    server.member = std::make_unique<Member>(MemberOf(*server.joined));
  }
  void Kill(size_t i) {
    Server& server = servers_[i];
    if (server.joined) states_[server.joined->identity.incarnation] = Liveness::kDead;
    server.member.reset();
  }
  void KillAll() {
    for (size_t i = 0; i < kServers; ++i) Kill(i);
  }

  // As ServerLives does it.
  Status Start(size_t i, bool forget_dead = false) {
    Server& server = servers_[i];
    constexpr int kMostTries = 5;
    Status last = Ok();
    for (int attempt = 0; attempt < kMostTries; ++attempt) {
      BOOST_OUTCOME_TRY(set, Choose(i));
      const auto file = std::ranges::find(server.files, set, &File::set);
      Returning returning;
      returning.identity = file->identity;
      returning.identity.incarnation = RandomId();
      returning.earlier = file->earlier;
      returning.parameters = record_.parameters;
      returning.known = file->known;
      returning.set = set;
      JoinOptions options = Options();
      options.saved = set;
      options.sets = server.sets();
      options.forget_dead = forget_dead;
      options.replace_store = replaces_;
      Result<Joined> joined = RejoinStore(bootstrap_, options, returning, Probe(), BringUp);
      if (joined) {
        server.joined = joined.value();
        server.member = std::make_unique<Member>(MemberOf(*server.joined));
        server.loaded = set;
        return Ok();
      }
      last = joined.error();
      if (joined.error().code != Code::kContended) break;
    }
    return last;
  }
  // As SavedFiles does it.
  Result<uint64_t> Choose(size_t i) {
    const Server& server = servers_[i];
    const std::optional<StoreRecord> record = Record();
    for (const File& file : server.files) {
      if (record && EntryOf(*record, file.identity) != nullptr) return file.set;
    }
    return SetToBeginWith(bootstrap_, "s", static_cast<ServerId>(i), server.sets(), Probe());
  }
  // All that live look at the record, and go back as it says.
  Status LookAround() {
    for (size_t i = 0; i < kServers; ++i) {
      if (!servers_[i].member) continue;
      if (servers_[i].member->LookAfterRecord().finding != Finding::kGoesBack) continue;
      Kill(i);
      BOOST_OUTCOME_TRYV(Start(i));
    }
    return Ok();
  }
  bool IsFound() {
    FindOptions find;
    find.store = "s";
    find.probe = Probe();
    return FindStore(bootstrap_, find).has_value();
  }

  // Stops one server, which saves, and comes back.
  void RestartAlone(size_t i) {
    record_ = Record().value();
    WriteFile(i);
    NoteFile(i);
    Kill(i);
    ASSERT_TRUE(Start(i));
    EXPECT_TRUE(Record().value().is_open()) << "the others live";
  }

  // ---- A save that is cut short

  // What a server has done when all are killed.
  enum Progress : uint8_t { kNothing, kWritten, kNoted, kSeen };
  using Cut = std::array<Progress, kServers>;

  static std::vector<Cut> Cuts() {
    std::vector<Cut> cuts;
    for (const Progress a : {kNothing, kWritten, kNoted, kSeen}) {
      for (const Progress b : {kNothing, kWritten, kNoted, kSeen}) {
        for (const Progress c : {kNothing, kWritten, kNoted, kSeen}) {
          const Cut cut = {a, b, c};
          if (std::ranges::count(cut, kSeen) == 0 || std::ranges::min(cut) >= kNoted) {
            cuts.push_back(cut);
          }
        }
      }
    }
    return cuts;
  }
  // Makes a store, and has its second save cut there. Returns the newest set that all have.
  uint64_t CutSave(const Cut& cut, bool is_record_lost) {
    bootstrap_.Lose("s");
    states_.clear();
    Found();
    return CutNextSave(cut, is_record_lost);
  }
  // Likewise, of the store that there is.
  uint64_t CutNextSave(const Cut& cut, bool is_record_lost) {
    const uint64_t before = Record().value().servers.front().saved.value();
    BeginSaving();
    for (const auto& [step, act] :
         {std::pair(kWritten, &RestoreTest::WriteFile), std::pair(kNoted, &RestoreTest::NoteFile),
          std::pair(kSeen, &RestoreTest::RemoveOthers)}) {
      for (size_t i = 0; i < kServers; ++i) {
        if (cut[i] >= step) (this->*act)(i);
      }
    }
    KillAll();
    if (is_record_lost) bootstrap_.Lose("s");
    return std::ranges::min(cut) == kNothing ? before : SetOf(record_);
  }
  void ExpectWhole(uint64_t set) {
    ASSERT_TRUE(LookAround());
    const StoreRecord record = Record().value();
    EXPECT_THAT(record.awaits, IsEmpty());
    ASSERT_EQ(record.servers.size(), kServers);
    for (size_t i = 0; i < kServers; ++i) {
      EXPECT_EQ(servers_[i].loaded, set);
      EXPECT_NE(EntryOf(record, servers_[i].joined->identity), nullptr);
      EXPECT_THAT(record.servers[i].sets, IsEmpty());
    }
    EXPECT_TRUE(IsFound());
  }

  StoreRecord record_;  // when the last save began
  std::vector<Server> servers_;
  bool replaces_ = false;  // servers that start overrule those that are silent
};

std::string Text(const auto& numbers) {
  std::string text;
  for (const auto number : numbers) text += fmt::format(" {}", static_cast<int>(number));
  return text;
}

TEST_F(RestoreTest, AnyOrderEndsWithTheNewestSetOfAll) {
  for (const bool is_record_lost : {false, true}) {
    for (const Cut& cut : Cuts()) {
      for (const Order& order : Orders()) {
        SCOPED_TRACE(fmt::format("lost {} cut{} order{}", is_record_lost, Text(cut), Text(order)));
        const uint64_t set = CutSave(cut, is_record_lost);
        for (size_t at = 0; at < kServers; ++at) {
          const Status started = Start(order[at]);
          ASSERT_TRUE(started) << started.error().ToString();
          if (at + 1 < kServers) {
            EXPECT_FALSE(IsFound()) << "not all have come";
          }
        }
        ExpectWhole(set);
      }
    }
  }
}

// The second store that comes back is the one that came back.
TEST_F(RestoreTest, AStoreComesBackAgain) {
  for (const bool is_record_lost : {false, true}) {
    for (const Cut& first : {Cut{kNothing, kWritten, kNoted}, Cut{kSeen, kNoted, kSeen}}) {
      for (const Cut& cut : Cuts()) {
        for (const Order& order : Orders()) {
          SCOPED_TRACE(fmt::format("lost {} cut{} then{} order{}", is_record_lost, Text(first),
                                   Text(cut), Text(order)));
          const uint64_t once = CutSave(first, is_record_lost);
          for (const size_t i : order) ASSERT_TRUE(Start(i));
          ExpectWhole(once);
          const uint64_t again = CutNextSave(cut, is_record_lost);
          for (const size_t i : order) {
            const Status started = Start(i);
            ASSERT_TRUE(started) << started.error().ToString();
          }
          ExpectWhole(again);
        }
      }
    }
  }
}

// One, or all, are killed after some have come back, and started again in the order of numbers.
TEST_F(RestoreTest, AKillDuringARestoreChangesNothing) {
  for (const bool is_record_lost : {false, true}) {
    for (const Cut& cut : Cuts()) {
      for (const Order& order : Orders()) {
        for (size_t killed = 0; killed <= kServers; ++killed) {
          for (size_t after = 1; after < kServers; ++after) {
            SCOPED_TRACE(fmt::format("lost {} cut{} order{} kill {} after {}", is_record_lost,
                                     Text(cut), Text(order), killed, after));
            const uint64_t set = CutSave(cut, is_record_lost);
            for (size_t at = 0; at < after; ++at) ASSERT_TRUE(Start(order[at]));
            if (killed % 2 == 0) {
              ASSERT_TRUE(LookAround());
            }
            if (killed == kServers) {
              KillAll();
            } else {
              Kill(killed);
            }
            for (size_t at = after; at < kServers; ++at) {
              const Status started = Start(order[at]);
              ASSERT_TRUE(started) << started.error().ToString();
            }
            for (size_t i = 0; i < kServers; ++i) {
              if (servers_[i].member) continue;
              const Status started = Start(i);
              ASSERT_TRUE(started) << started.error().ToString();
            }
            ExpectWhole(set);
          }
        }
      }
    }
  }
}

// Each has a newer set that no other one has.
TEST_F(RestoreTest, AfterARollingRestartTheSetBeforeThatIsTheNewest) {
  for (const bool is_record_lost : {false, true}) {
    for (const Order& order : Orders()) {
      SCOPED_TRACE(fmt::format("lost {} order{}", is_record_lost, Text(order)));
      bootstrap_.Lose("s");
      Found();
      const uint64_t set = servers_[0].files.front().set;
      for (size_t i = 0; i < kServers; ++i) RestartAlone(i);
      RestartAlone(1);
      KillAll();
      if (is_record_lost) bootstrap_.Lose("s");
      for (const size_t i : order) {
        const Status started = Start(i);
        ASSERT_TRUE(started) << started.error().ToString();
      }
      ExpectWhole(set);
    }
  }
}

// Two have a newer set, and the third one has gone again after they have gone back with it.
TEST_F(RestoreTest, NobodyGoesForwardAgain) {
  const uint64_t set = CutSave({kWritten, kNothing, kWritten}, true);
  ASSERT_TRUE(Start(0));
  EXPECT_NE(servers_[0].loaded, set);
  ASSERT_TRUE(Start(1));
  ASSERT_TRUE(LookAround());
  EXPECT_EQ(servers_[0].loaded, set);
  Kill(1);
  ASSERT_TRUE(Start(2));
  EXPECT_EQ(servers_[2].loaded, set);
  EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{1}));
}

// The store has gone back while a server loaded its file.
TEST_F(RestoreTest, WhoHasLoadedAnotherSetBeginsAgain) {
  const uint64_t set = CutSave({kWritten, kNothing, kWritten}, true);
  ASSERT_TRUE(Start(1));
  const File& file = servers_[0].files.front();
  Returning returning;
  returning.identity = file.identity;
  returning.earlier = file.earlier;
  returning.parameters = record_.parameters;
  returning.known = file.known;
  returning.set = file.set;
  JoinOptions options = Options();
  options.sets = servers_[0].sets();
  int served = 0;
  const auto bring_up = [&](const MemberIdentity& identity) {
    ++served;
    return BringUp(identity);
  };
  const Result<Joined> refused = RejoinStore(bootstrap_, options, returning, Probe(), bring_up);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kContended);
  EXPECT_EQ(served, 0);
  ASSERT_TRUE(Start(0));
  EXPECT_EQ(servers_[0].loaded, set);
}

TEST_F(RestoreTest, AStoreThatIsNotOpenIsJoinedSavedAndFoundByNobody) {
  CutSave({kNothing, kNothing, kNothing}, true);
  ASSERT_TRUE(Start(1));
  EXPECT_THAT(Servers(), ElementsAre(1));
  EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{0}, ServerId{2}));
  FindOptions find;
  find.store = "s";
  EXPECT_THAT(FindStore(bootstrap_, find).error().message,
              HasSubstr("opens once server 0 and server 2 are there: start each with its saved"));
  const Result<Joined> joined = JoinStore(bootstrap_, Options(), Probe(), BringUp);
  ASSERT_FALSE(joined) << "a new store would take the place of this one";
  EXPECT_THAT(joined.error().message, HasSubstr("opens once server 0 and server 2"));
  EXPECT_THAT(RequestSave(bootstrap_, "s").error().message, HasSubstr("opens once"));
  ASSERT_TRUE(Start(0));
  EXPECT_EQ(servers_[0].member->LookAfterRecord().finding, Finding::kAwaits);
  EXPECT_FALSE(HaveAllSaved(Record().value(), servers_[0].loaded));
  ASSERT_TRUE(Start(2));
  EXPECT_EQ(servers_[0].member->LookAfterRecord().finding, Finding::kInPlace);
  EXPECT_TRUE(HaveAllSaved(Record().value(), servers_[0].loaded));
}

TEST_F(RestoreTest, AServerThatIsStoppedBeforeIsAwaitedAgain) {
  CutSave({kNothing, kNothing, kNothing}, true);
  ASSERT_TRUE(Start(0));
  ASSERT_TRUE(Start(1));
  const StoreRecord before = LeaveUnopened(bootstrap_, "s", servers_[0].joined->identity).value();
  EXPECT_EQ(before.servers.size(), 2u);
  EXPECT_FALSE(before.is_open());
  Kill(0);
  EXPECT_THAT(Servers(), ElementsAre(1));
  EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{0}, ServerId{2}));
  ASSERT_TRUE(LeaveUnopened(bootstrap_, "s", servers_[1].joined->identity));
  EXPECT_FALSE(Record()) << "the last one";
  Kill(1);
  EXPECT_THAT(LeaveUnopened(bootstrap_, "s", servers_[1].joined->identity).value().servers,
              IsEmpty());
  for (const size_t i : {2, 0, 1}) ASSERT_TRUE(Start(i));
  EXPECT_EQ(LeaveUnopened(bootstrap_, "s", servers_[1].joined->identity).value(), Record())
      << "of an open store nobody leaves so";
}

TEST_F(RestoreTest, AServerThatWillNotComeIsForgotten) {
  CutSave({kNothing, kNothing, kNothing}, true);
  const Status refused = Start(1, true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("awaits server 0, which has the root"));
  ASSERT_TRUE(Start(0));
  ASSERT_TRUE(Start(1, true));
  EXPECT_THAT(Servers(), ElementsAre(0, 1));
  EXPECT_TRUE(IsFound());
  EXPECT_TRUE(Start(2)) << "of the same set, and what it held was not touched";
  EXPECT_THAT(Servers(), ElementsAre(0, 1, 2));
}

TEST_F(RestoreTest, ANewServerTakesThePlaceOfOneThatWillNotCome) {
  CutSave({kNothing, kNothing, kNothing}, true);
  JoinOptions options = Options();
  options.forget_dead = true;
  ASSERT_TRUE(Start(1));
  EXPECT_THAT(JoinStore(bootstrap_, options, Probe(), BringUp).error().message,
              HasSubstr("awaits server 0"));
  ASSERT_TRUE(Start(0));
  Kill(1);
  ASSERT_TRUE(Start(1));
  ASSERT_TRUE(JoinStore(bootstrap_, options, Probe(), BringUp));
  EXPECT_THAT(Servers(), ElementsAre(0, 1, 3));
  EXPECT_TRUE(IsFound());
}

TEST_F(RestoreTest, AllOfItGoesOnlyIfThatIsAskedFor) {
  CutSave({kNothing, kNothing, kNothing}, true);
  ASSERT_TRUE(Start(0));
  JoinOptions options = Options();
  options.replace_store = true;
  EXPECT_FALSE(JoinStore(bootstrap_, options, Probe(), BringUp)) << "server 0 lives";
  Kill(0);
  options.create = CreateMode::kNew;
  options.replace_store = false;
  EXPECT_FALSE(JoinStore(bootstrap_, options, Probe(), BringUp));
  options.replace_store = true;
  const Joined anew = JoinStore(bootstrap_, options, Probe(), BringUp).value();
  EXPECT_EQ(anew.identity.server, ServerId{0});
  EXPECT_EQ(Record().value().set, 0u);
}

// The store went on while that server was down: nothing goes back from what the others have.
TEST_F(RestoreTest, WhileAServerLivesNothingGoesBack) {
  CutSave({kNoted, kNothing, kNoted}, false);
  states_[servers_[2].joined->identity.incarnation] = Liveness::kAlive;
  ASSERT_TRUE(Start(0));
  EXPECT_THAT(Record().value().awaits, IsEmpty());
  const Status refused = Start(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("went on after the file was saved"));
  states_[servers_[0].joined->identity.incarnation] = Liveness::kSilent;
  states_[servers_[2].joined->identity.incarnation] = Liveness::kDead;
  EXPECT_FALSE(Start(1)) << "server 0 may live";
}

// As after a loss of power, where nobody can tell what runs on another machine.
TEST_F(RestoreTest, ServersThatDoNotAnswerAreOverruled) {
  const uint64_t set = CutSave({kNothing, kNothing, kNothing}, false);
  for (const Server& server : servers_) {
    states_[server.joined->identity.incarnation] = Liveness::kSilent;
  }
  const Status refused = Start(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--replace_store"));
  // What server 0 itself held is lost for certain.
  for (const size_t i : {0, 1, 2}) ASSERT_TRUE(Start(i));
  ExpectWhole(set);

  CutNextSave({kNoted, kNothing, kNothing}, false);
  for (const Server& server : servers_) {
    states_[server.joined->identity.incarnation] = Liveness::kSilent;
  }
  EXPECT_FALSE(Start(1)) << "server 0 comes back with its last state, if it has ended";
  replaces_ = true;
  ASSERT_TRUE(Start(1));
  replaces_ = false;
  for (const size_t i : {0, 2}) ASSERT_TRUE(Start(i));
  ExpectWhole(set);
}

// As above, in the middle of a save: server 0 comes back as it was, and what the others held may
// live, as far as anybody can tell.
TEST_F(RestoreTest, AServerThatMayLiveIsWaitedFor) {
  const auto cut = [this](const Cut& progress) {
    const uint64_t newest = CutSave(progress, false);
    for (const Server& server : servers_) {
      states_[server.joined->identity.incarnation] = Liveness::kSilent;
    }
    EXPECT_TRUE(Start(0));
    EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{1}, ServerId{2}));
    return newest;
  };
  uint64_t set = cut({kNoted, kNothing, kNoted});
  ASSERT_TRUE(Start(1)) << "the record says that server 2 is in a file";
  ASSERT_TRUE(Start(2));
  ExpectWhole(set);

  set = cut({kNoted, kNothing, kNothing});
  const Status refused = Start(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("server 2 (host"));
  EXPECT_THAT(refused.error().message, HasSubstr("does not answer, and may have what no file has"));
  ASSERT_TRUE(Start(2)) << "server 1 has told that its life is lost";
  ASSERT_TRUE(Start(1));
  ExpectWhole(set);

  set = cut({kNoted, kNothing, kNothing});
  replaces_ = true;
  ASSERT_TRUE(Start(1));
  replaces_ = false;
  ASSERT_TRUE(Start(2));
  ExpectWhole(set);

  cut({kNoted, kNothing, kNothing});
  ASSERT_FALSE(Start(1));
  states_[servers_[2].joined->identity.incarnation] = Liveness::kAlive;
  servers_[2].member = std::make_unique<Member>(MemberOf(*servers_[2].joined));
  EXPECT_EQ(servers_[2].member->LookAfterRecord().finding, Finding::kMerged);
  EXPECT_THAT(Start(1).error().message, HasSubstr("has none of set")) << "it lives";
}

// A server whose region has outlived it has what no file has: it names no sets.
TEST_F(RestoreTest, NothingGoesBackFromARegion) {
  CutSave({kNoted, kNothing, kNothing}, false);
  ASSERT_TRUE(Start(0));
  EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{1}, ServerId{2}));
  GoOn(2);
  const Status refused = Start(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has none of set"));
  GoOn(1);
  EXPECT_TRUE(IsFound());
}

// It was thought silent, and was not.
TEST_F(RestoreTest, AServerThatLivesTakesItsPlaceAgain) {
  CutSave({kNoted, kNoted, kNoted}, false);
  ASSERT_TRUE(Start(0));
  ASSERT_TRUE(Start(1));
  const uint64_t incarnation = servers_[1].joined->identity.incarnation;
  states_[incarnation] = Liveness::kSilent;
  ASSERT_TRUE(Start(2));
  EXPECT_THAT(Record().value().awaits, ElementsAre(ServerId{1}));
  states_[incarnation] = Liveness::kAlive;
  EXPECT_EQ(servers_[1].member->LookAfterRecord().finding, Finding::kMerged);
  EXPECT_TRUE(IsFound());
  EXPECT_EQ(servers_[1].member->LookAfterRecord().finding, Finding::kInPlace);
}

// A server joined, and the save after that was cut short: the set of before is not its own.
TEST_F(RestoreTest, AServerThatJoinedLaterIsNotOfTheSet) {
  const uint64_t set = CutSave({kNothing, kNothing, kNothing}, true);
  servers_[2].files.front().set = set + 1;  // with server 0; server 1 has not saved that
  servers_[0].files.insert(servers_[0].files.begin(), servers_[0].files.front());
  servers_[0].files.front().set = set + 1;
  StoreRecord two = record_;
  two.servers.pop_back();
  servers_[0].files.back().known = EncodeStoreRecord(two);
  servers_[1].files.back().known = EncodeStoreRecord(two);
  ASSERT_TRUE(Start(2));
  ASSERT_TRUE(Start(0));
  Status refused = Start(1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("server 2 (host " + HostName() + ", address address-2) has none of set"));
  Kill(2);
  ASSERT_TRUE(Start(1));
  ASSERT_TRUE(LookAround());
  EXPECT_TRUE(IsFound());
  EXPECT_EQ(servers_[0].loaded, set);
  refused = Start(2);
  ASSERT_FALSE(refused);
}

}  // namespace
}  // namespace gossamer
