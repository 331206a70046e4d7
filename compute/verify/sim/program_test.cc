// gossamer-sim as users run it: flags, exit codes, and the same run in another process.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"
#include "common/testing/seed.h"

namespace gossamer::simulator {
namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

struct Outcome {
  int status;
  std::string output;
  std::string errors;
};

Outcome RunSim(const Arguments& flags) {
  Arguments arguments = {BuiltFile("bin/gossamer-sim")};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ChildProcess sim(arguments);
  const int status = sim.Wait(std::chrono::seconds(240));
  return {status, sim.standard_output(), sim.standard_error()};
}

// "hash 0123456789abcdef"
std::string HashOf(const std::string& output) {
  const size_t at = output.find("hash ");
  EXPECT_NE(at, std::string::npos) << output;
  return at == std::string::npos ? std::string() : output.substr(at, 21);
}

TEST(SimProgramTest, WrongFlagsAreOneSentenceAndStatus2) {
  struct Case {
    Arguments flags;
    const char* sentence;
  };
  for (const Case& one :
       {Case{{"--faults=rust"}, "'rust' is no fault; give none, all, or some of"},
        Case{{"--profile=fun"}, "no profile 'fun'; give one of any, mixed"},
        Case{{"--clients=0"}, "--clients=0: give 1 to"},
        Case{{"--keys=0"}, "--keys=0: give 1 to"},
        Case{{"--failures=0"}, "--failures: give 1 or more"},
        Case{{"--seeds=0"}, "--seeds=0: give 1 or more"},
        Case{{"--seed=18446744073709551615", "--seeds=2"},
             "--seeds=2: the last seed is 18446744073709551615"},
        Case{{"--json=-"}, "--json is for --measure alone"},
        Case{{"--theta=0.9"}, "--theta is for --measure alone"},
        Case{{"--measure=all", "--faults=tear"}, "--faults is of no use with --measure"},
        Case{{"--measure=all", "--profile=one_slot"}, "--profile is of no use with --measure"},
        Case{{"--measure=all", "--seeds=1"}, "--seeds is of no use with --measure"},
        Case{{"--measure=theta", "--theta=0.5"}, "--measure=theta has its own --theta"},
        Case{{"--measure=large", "--clients=3"}, "--measure=large has its own --clients"},
        Case{{"--regressions=/"}, "--regressions: cannot read /"},
        Case{{"--regressions=/dev/null"}, "--regressions: /dev/null has no runs"},
        Case{{"--regressions=/nowhere"}, "cannot read /nowhere"},
        Case{{"--sed=1"}, "did you mean --seed?"},
        Case{{"--measure=speed"}, "--measure=speed: give techniques, large, ranks, one_by_one,"},
        Case{{"--measure=all", "--threads=0"}, "--threads=0: give 1 to 64"},
        Case{{"--measure=all", "--theta=1"}, "give a number above 0 and below 1"},
        Case{{"--mutant=R1"}, "there is no flag --mutant"},
        Case{{"now"}, "takes flags only; 'now' is none"}}) {
    const Outcome outcome = RunSim(one.flags);
    EXPECT_EQ(outcome.status, 2) << one.sentence;
    EXPECT_THAT(outcome.errors, HasSubstr(one.sentence));
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  }
}

TEST(SimProgramTest, HelpAndListOfProfiles) {
  const Outcome help = RunSim({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--seeds"));
  const Outcome list = RunSim({"--profile=list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.output, HasSubstr("few_keys_many_splits"));
}

TEST(SimProgramTest, TheSameSeedGivesTheSameRunInAnotherProcess) {
  const Arguments flags = {fmt::format("--seed={}", TestSeed()), "--seeds=5"};
  const Outcome first = RunSim(flags);
  const Outcome second = RunSim(flags);
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_EQ(HashOf(first.output), HashOf(second.output));
}

TEST(SimProgramTest, ATraceTellsWhatHappened) {
  const Outcome outcome = RunSim({fmt::format("--seed={}", TestSeed()), "--trace"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("begin "));
  EXPECT_THAT(outcome.output, HasSubstr("end   "));
}

TEST(SimProgramTest, MeasuresTheDesigns) {
  const Outcome outcome =
      RunSim({"--measure=techniques", "--records=1000", "--milliseconds=1", "--clients=2",
              "--threads=2", fmt::format("--seed={}", TestSeed()), "--json=-"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("+ two-level versions"));  // the table
  EXPECT_THAT(outcome.output, HasSubstr("\"design\": \"naive\""));
  EXPECT_THAT(outcome.output, HasSubstr("\"compute_servers\": 2"));
}

TEST(SimProgramTest, AFileThatCannotBeWrittenIsToldBeforeAnythingIsMeasured) {
  const Outcome outcome = RunSim({"--measure=all", "--json=/nowhere/figures.json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors, HasSubstr("--json: cannot write /nowhere/figures.json: No such"));
  // The file keeps its content until there are figures.
  const std::string path = fmt::format("{}sim-json-{}", ::testing::TempDir(), TestSeed());
  std::ofstream(path) << "older";
  EXPECT_EQ(RunSim({"--measure=speed", "--json=" + path}).status, 2);
  EXPECT_EQ(RunSim({"--measure=theta", "--records=0", "--json=" + path}).status, 2);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "older");
  std::remove(path.c_str());
}

TEST(SimProgramTest, TheLastSeedIsOne) {
  EXPECT_EQ(RunSim({"--seed=18446744073709551615", "--operations=20"}).status, 0);
}

TEST(SimProgramTest, RunsTheLinesOfAFile) {
  const std::string path = fmt::format("{}sim-regressions-{}", ::testing::TempDir(), TestSeed());
  std::ofstream(path)
      << "# a comment\n\n--seed=3 --operations=50 --faults=tear  # why\n--seed=9 --seeds=2 "
         "--faults=none --clients=2\n";
  const Outcome outcome = RunSim({"--regressions=" + path});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("3 seeds, 0 failed"));
  struct Case {
    const char* line;
    const char* sentence;
  };
  for (const Case& one :
       {Case{"--seed=3 --nonsense", "there is no flag --nonsense"},
        Case{"nonsense", "'nonsense' is no flag"}, Case{"--seeds=0", "--seeds=0: give 1 or more"},
        Case{"--clients=0", "--clients=0: give 1 to"},
        Case{"--theta=0.9", "--theta is for --measure alone"},
        Case{"--measure=all", "--measure is not for the line of a run"}}) {
    std::ofstream(path) << "# a comment\n--seed=3\n" << one.line << '\n';
    const Outcome wrong = RunSim({"--regressions=" + path});
    EXPECT_EQ(wrong.status, 2) << one.line;
    EXPECT_EQ(wrong.output, "") << one.line;
    EXPECT_THAT(wrong.errors, HasSubstr(path + " line 3: " + one.sentence));
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace gossamer::simulator
