// Mutants: each broken rule is noticed where mutants.txt says, by one of the first seeds, and the
// same run with all rules kept passes.
#include "common/mutants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"

namespace gossamer::simulator {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// Of so many seeds one notices each broken rule. A row of the table may say where to begin.
constexpr const char* kSeeds = "--seeds=2000";

struct Outcome {
  int status;
  std::string output;
  std::string errors;
};

Outcome RunMutant(const std::string& mutant, const Words& flags) {
  Words arguments = {BuiltFile("test/gossamer-sim-mutants"), "--mutant=" + mutant};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ChildProcess sim(arguments);
  const int status = sim.Wait(std::chrono::seconds(300));
  return {status, sim.standard_output(), sim.standard_error()};
}

// The lines of the table without comments: a mutant and flags.
std::vector<Words> Table() {
  const std::string path = SourceFile("compute/verify/sim/mutants.txt");
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<Words> table;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line.substr(0, line.find('#')));
    Words row{std::istream_iterator<std::string>(words), {}};
    if (!row.empty()) table.push_back(std::move(row));
  }
  return table;
}

TEST(MutantsTest, EveryRuleHasARow) {
  std::set<std::string> missing;
  for (const std::string_view name : kMutantNames) missing.emplace(name);
  for (const Words& row : Table()) missing.erase(row[0]);
  missing.erase("none");
  EXPECT_TRUE(missing.empty()) << ::testing::PrintToString(missing);
}

TEST(MutantsTest, EachIsCaughtAndOnlyIt) {
  const std::regex failed("FAILED [^ ]*gossamer-sim-mutants --mutant=([^ ]+) --seed=([0-9]+) ");
  for (const Words& row : Table()) {
    SCOPED_TRACE(::testing::PrintToString(row));
    // Later flags override earlier ones.
    Words flags{kSeeds};
    flags.insert(flags.end(), row.begin() + 1, row.end());
    const Outcome outcome = RunMutant(row[0], flags);
    // By the checkers, or by an assertion.
    EXPECT_THAT(outcome.status, AnyOf(1, -SIGABRT)) << outcome.errors;
    std::smatch match;
    const bool found = std::regex_search(outcome.output, match, failed);
    EXPECT_TRUE(found) << outcome.output;
    if (!found) continue;
    EXPECT_EQ(match[1], row[0]);
    flags.push_back("--seed=" + match[2].str());
    flags.emplace_back("--seeds=1");
    const Outcome right = RunMutant("none", flags);
    EXPECT_EQ(right.status, 0) << right.output;
    EXPECT_THAT(right.output, HasSubstr("1 seed, 0 failed"));
  }
}

}  // namespace
}  // namespace gossamer::simulator
