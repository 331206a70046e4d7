#include "compute/bench/barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/bootstrap/testing/memory_bootstrap.h"
#include "common/process.h"

namespace gossamer::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Joined = Result<std::unique_ptr<Barrier>>;

// Of processes that live: however slow the test is, they beat in time.
constexpr milliseconds kForever = std::chrono::hours(1);
const std::string kNote = "bench+b";
// What is in an identity of another machine's process is not known.
const std::string kElsewhere = "-";

BarrierOptions Options(uint32_t processes) {
  BarrierOptions options;
  options.name = "b";
  options.processes = processes;
  options.settings = {{"records", "1000"}, {"workload", "c"}};
  options.beat = milliseconds(10);
  options.silence = kForever;
  return options;
}

RosterMember Member(const std::string& process, uint32_t round) {
  return {.incarnation = 7,
          .host = "ant",
          .process = process,
          .round = round,
          .beat = 1,
          .left = false};
}

std::string GoneProcess() { return OwnProcessIdentity() + "0"; }

void Plant(MemoryBootstrap& bootstrap, const BarrierOptions& options,
           const std::vector<RosterMember>& members) {
  bootstrap.Overwrite(kNote, EncodeRoster({.id = 5,
                                           .processes = options.processes,
                                           .settings = options.settings,
                                           .members = members}));
}

// From now on, whenever somebody looks, the planted member gathers and beats until `lives` is
// false.
void LetBeat(MemoryBootstrap& bootstrap, std::atomic<bool>& lives) {
  bootstrap.set_before([&bootstrap, &lives, beat = uint64_t{100}](MemoryBootstrap::Call call,
                                                                  const std::string& name) mutable {
    if (call != MemoryBootstrap::Call::kGet || name != kNote || !lives) return;
    const auto text = bootstrap.Peek(kNote);
    std::optional<Roster> roster = text ? ParseRoster(*text) : std::nullopt;
    if (!roster) return;
    RosterMember* const planted = roster->Find(7);
    if (planted == nullptr) return;
    planted->beat = ++beat;
    if (planted->round == 0) planted->round = 1;
    bootstrap.Overwrite(kNote, EncodeRoster(*roster));
  });
}

// Runs the body of each process in a thread.
void RunTogether(uint32_t processes, const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < processes; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(BarrierTest, ProcessesMeetAndHandIn) {
  constexpr uint32_t kProcesses = 5;
  MemoryBootstrap bootstrap;
  // The name can be used again at once.
  for (int benchmark = 0; benchmark < 2; ++benchmark) {
    std::array<std::atomic<uint32_t>, 3> arrived{};
    std::array<std::atomic<uint32_t>, kProcesses> of_rank{};
    std::vector<std::string> results;
    RunTogether(kProcesses, [&](uint32_t /*thread*/) {
      Joined barrier = Barrier::Join(bootstrap, Options(kProcesses));
      ASSERT_TRUE(barrier) << barrier.error().ToString();
      const uint32_t rank = barrier.value()->share().rank;
      ++of_rank[rank];
      for (std::atomic<uint32_t>& count : arrived) {
        ++count;
        const Status met = barrier.value()->Meet();
        ASSERT_TRUE(met) << met.error().ToString();
        EXPECT_EQ(count, kProcesses);
      }
      auto handed_in = barrier.value()->HandIn("of " + std::to_string(rank));
      ASSERT_TRUE(handed_in) << handed_in.error().ToString();
      if (rank == 0) results = handed_in.value();
      EXPECT_EQ(handed_in.value().empty(), rank != 0);
    });
    for (const std::atomic<uint32_t>& count : of_rank) EXPECT_EQ(count, 1u);
    EXPECT_THAT(results, ::testing::ElementsAre("of 0", "of 1", "of 2", "of 3", "of 4"));
    EXPECT_EQ(bootstrap.Peek(kNote), std::nullopt);
    EXPECT_EQ(bootstrap.Peek("bench+b+0"), std::nullopt);
    EXPECT_EQ(bootstrap.Peek("bench+b+4"), std::nullopt);
  }
}

TEST(BarrierTest, OneThatLeavesEndsItForAll) {
  MemoryBootstrap bootstrap;
  std::atomic<uint32_t> broken = 0;
  std::latch met_once(3);
  RunTogether(3, [&](uint32_t thread) {
    std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, Options(3)).value();
    EXPECT_TRUE(barrier->Meet());
    met_once.arrive_and_wait();
    if (thread == 2) return;
    // As in a phase that would last forever.
    while (!barrier->IsBroken()) std::this_thread::sleep_for(milliseconds(1));
    const Status met = barrier->Meet();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code, Code::kNodeUnreachable);
    // The second one to see it may name the first.
    EXPECT_THAT(met.error().message,
                AllOf(HasSubstr("the benchmark 'b' is broken: the process of "), HasSubstr("rank "),
                      HasSubstr("host " + HostName()), HasSubstr("has left before its end")));
    EXPECT_FALSE(barrier->HandIn("x"));
    ++broken;
  });
  EXPECT_EQ(broken, 2u);
  EXPECT_EQ(bootstrap.Peek(kNote), std::nullopt) << "the last one removes it";
}

TEST(BarrierTest, ASilentMemberEndsIt) {
  MemoryBootstrap bootstrap;
  BarrierOptions options = Options(2);
  options.silence = milliseconds(100);
  Plant(bootstrap, options, {Member(kElsewhere, 0)});
  std::atomic<bool> lives = true;
  LetBeat(bootstrap, lives);
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, options).value();
  EXPECT_EQ(barrier->share().rank, 1u);
  lives = false;
  const Status met = barrier->Meet();
  ASSERT_FALSE(met);
  EXPECT_THAT(met.error().message, HasSubstr("rank 0 (host ant, pid ?) has given no sign for 0 s"));
}

TEST(BarrierTest, AMemberWhoseProcessIsGoneEndsIt) {
  MemoryBootstrap bootstrap;
  Plant(bootstrap, Options(2), {Member(kElsewhere, 0)});
  std::atomic<bool> lives = true;
  LetBeat(bootstrap, lives);
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, Options(2)).value();
  std::optional<Roster> roster = ParseRoster(*bootstrap.Peek(kNote));
  roster->Find(7)->process = GoneProcess();
  lives = false;
  // The keeper may write at the same time.
  while (!barrier->IsBroken()) {
    if (std::optional<Roster> now = ParseRoster(*bootstrap.Peek(kNote)); now) {
      now->Find(7)->process = GoneProcess();
      bootstrap.Overwrite(kNote, EncodeRoster(*now));
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_THAT(barrier->Meet().error().message, HasSubstr("rank 0 (host ant, pid "));
  EXPECT_THAT(barrier->Meet().error().message, HasSubstr("has ended before its end"));
}

TEST(BarrierTest, ANameThatACrashLeftIsFree) {
  for (const uint32_t round : {0u, 1u, 4u}) {
    for (const std::string& process : {GoneProcess(), kElsewhere}) {
      for (const size_t members : {1u, 2u}) {
        SCOPED_TRACE(testing::Message() << round << " " << process << " " << members);
        MemoryBootstrap bootstrap;
        BarrierOptions options = Options(2);
        std::vector<RosterMember> left(members, Member(process, round));
        left.back().incarnation = 8;
        Plant(bootstrap, options, left);
        // Of another machine's process only silence tells. One that lives is never silent.
        options.silence = process == kElsewhere ? milliseconds(300) : kForever;
        std::array<std::atomic<uint32_t>, 2> of_rank{};
        RunTogether(2, [&](uint32_t /*thread*/) {
          Joined barrier = Barrier::Join(bootstrap, options);
          ASSERT_TRUE(barrier) << barrier.error().ToString();
          ++of_rank[barrier.value()->share().rank];
          EXPECT_NE(barrier.value()->HostOf(0), "ant");
          EXPECT_NE(barrier.value()->HostOf(1), "ant");
        });
        EXPECT_EQ(of_rank[0], 1u);
        EXPECT_EQ(of_rank[1], 1u);
      }
    }
  }
}

TEST(BarrierTest, AResultThatACrashLeftIsReplaced) {
  MemoryBootstrap bootstrap;
  bootstrap.Overwrite("bench+b+0", "gossamer-bench 1 00000000000000ff\nold");
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, Options(1)).value();
  EXPECT_THAT(barrier->HandIn("new").value(), ::testing::ElementsAre("new"));
}

TEST(BarrierTest, MoreThanAllAreRefused) {
  for (const std::string& process : {OwnProcessIdentity(), kElsewhere}) {
    MemoryBootstrap bootstrap;
    RosterMember first = Member(process, 3);
    RosterMember second = first;
    second.incarnation = 8;
    Plant(bootstrap, Options(2), {first, second});
    std::atomic<bool> lives = true;
    LetBeat(bootstrap, lives);
    const Joined barrier = Barrier::Join(bootstrap, Options(2));
    ASSERT_FALSE(barrier);
    EXPECT_EQ(barrier.error().code, Code::kInvalidArgument);
    EXPECT_THAT(barrier.error().message,
                HasSubstr("the benchmark 'b' has its 2 processes already, on ant, ant: give"));
    EXPECT_EQ(ParseRoster(*bootstrap.Peek(kNote))->members.size(), 2u);
  }
}

TEST(BarrierTest, OtherSettingsAreRefused) {
  MemoryBootstrap bootstrap;
  Plant(bootstrap, Options(3), {Member(OwnProcessIdentity(), 0)});
  BarrierOptions options = Options(3);
  options.settings["records"] = "5";
  const Joined other_records = Barrier::Join(bootstrap, options);
  ASSERT_FALSE(other_records);
  EXPECT_EQ(other_records.error().code, Code::kInvalidArgument);
  EXPECT_EQ(other_records.error().message,
            "--records=5 here, but --records=1000 on ant: give the processes of the benchmark 'b' "
            "the same");
  const Joined other_number = Barrier::Join(bootstrap, Options(2));
  ASSERT_FALSE(other_number);
  EXPECT_THAT(other_number.error().message,
              HasSubstr("--processes=2 here, but --processes=3 on a"));
  EXPECT_EQ(ParseRoster(*bootstrap.Peek(kNote))->members.size(), 1u);
  // Those of a crash are in nobody's way.
  Plant(bootstrap, Options(3), {Member(GoneProcess(), 0)});
  options.processes = 1;
  EXPECT_TRUE(Barrier::Join(bootstrap, options));
}

TEST(BarrierTest, SettingsMayBeAnyBytes) {
  MemoryBootstrap bootstrap;
  RunTogether(2, [&](uint32_t /*thread*/) {
    BarrierOptions options = Options(2);
    options.settings["key_prefix"] = "\xff\n\"";
    EXPECT_TRUE(Barrier::Join(bootstrap, options));
  });
}

TEST(BarrierTest, AWaitCanBeStopped) {
  MemoryBootstrap bootstrap;
  BarrierOptions options = Options(2);
  options.should_stop = [] { return true; };
  const Joined alone = Barrier::Join(bootstrap, options);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kContended);
  EXPECT_EQ(bootstrap.Peek(kNote), std::nullopt);

  std::atomic<bool> stops = false;
  options.should_stop = [&stops] { return stops.load(); };
  Plant(bootstrap, options, {Member(OwnProcessIdentity(), 0)});
  std::atomic<bool> lives = true;
  LetBeat(bootstrap, lives);
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, options).value();
  stops = true;
  EXPECT_EQ(barrier->Meet().error().code, Code::kContended);
}

TEST(BarrierTest, SaysForHowManyItWaits) {
  MemoryBootstrap bootstrap;
  BarrierOptions options = Options(3);
  std::atomic<bool> stops = false;
  std::string said;
  options.say = [&](const std::string& sentence) {
    said = sentence;
    stops = true;
  };
  options.should_stop = [&stops] { return stops.load(); };
  EXPECT_FALSE(Barrier::Join(bootstrap, options));
  EXPECT_EQ(said, "waiting for 2 of 3 processes of the benchmark 'b'");
}

TEST(BarrierTest, ALostTextEndsIt) {
  MemoryBootstrap bootstrap;
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, Options(1)).value();
  bootstrap.LoseAll();
  const Status met = barrier->Meet();
  ASSERT_FALSE(met);
  EXPECT_THAT(met.error().message, HasSubstr("its text is gone from memory:"));
}

TEST(BarrierTest, CallsThatAreNotAnsweredAreRepeated) {
  MemoryBootstrap bootstrap;
  std::latch joined(2);  // Join does not repeat calls, and one may still be at it
  RunTogether(2, [&](uint32_t thread) {
    std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, Options(2)).value();
    joined.arrive_and_wait();
    for (int round = 0; round < 20; ++round) {
      if (thread == 0) {
        bootstrap.Fail(MemoryBootstrap::Call::kGet, 2);
        bootstrap.Fail(MemoryBootstrap::Call::kCompareAndSwap, 1, MemoryBootstrap::Failure::kAfter);
      }
      EXPECT_TRUE(barrier->Meet());
    }
    bootstrap.EndFaults();
    EXPECT_TRUE(barrier->HandIn(""));
  });
}

TEST(BarrierTest, ABootstrapThatNeverAnswersEndsIt) {
  MemoryBootstrap bootstrap;
  BarrierOptions options = Options(1);
  options.silence = milliseconds(50);
  std::unique_ptr<Barrier> barrier = Barrier::Join(bootstrap, options).value();
  bootstrap.Fail(MemoryBootstrap::Call::kGet, 1'000'000);
  while (!barrier->IsBroken()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_THAT(barrier->Meet().error().message, HasSubstr("memory: does not answer"));
  EXPECT_EQ(Barrier::Join(bootstrap, options).error().code, Code::kNodeUnreachable);
}

TEST(BarrierTest, ATextOfAnotherProgramIsRefused) {
  for (const char* text : {"gossamer-store 1\n", "{}", "{\"format\": \"gossamer-bench 2\"}",
                           "{\"format\": \"gossamer-bench 1\", \"id\": -1}"}) {
    MemoryBootstrap bootstrap;
    bootstrap.Overwrite(kNote, text);
    const Joined barrier = Barrier::Join(bootstrap, Options(1));
    ASSERT_FALSE(barrier);
    EXPECT_EQ(barrier.error().code, Code::kCorruption) << text;
    EXPECT_EQ(bootstrap.Peek(kNote), text);
  }
}

}  // namespace
}  // namespace gossamer::bench
