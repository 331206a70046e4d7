// Runs gossamer-bench as users do: flags, exit codes, signals, and all workloads on a real store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/bootstrap/test_support.h"
#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"
#include "proto/store_parameters.h"

namespace gossamer::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

struct Outcome {
  int status;
  std::string output;
  std::string errors;
};

Outcome RunBench(const Arguments& flags) {
  Arguments arguments = {BuiltFile("bin/gossamer-bench")};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ChildProcess bench(arguments);
  const int status = bench.Wait(std::chrono::seconds(240));
  return {status, bench.standard_output(), bench.standard_error()};
}

// The JSON that a local run without errors prints.
Json Measure(Arguments flags) {
  flags.insert(flags.end(), {"--local", "--json=-"});
  const Outcome outcome = RunBench(flags);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("no errors"));
  const Json json = Json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_object()) << outcome.output;
  EXPECT_EQ(json.at("errors"), Json::object());
  return json;
}

uint64_t Total(const Json& wire, const char* field) {
  uint64_t total = 0;
  for (const auto& [name, counts] : wire.items()) total += counts.at(field).get<uint64_t>();
  return total;
}

TEST(BenchProgramTest, WrongFlagsAreOneSentenceAndStatus2) {
  struct Case {
    Arguments flags;
    const char* sentence;
  };
  const Case cases[] = {
      {{"--workload=z"}, "--workload=z is not one of a, b, c, d, e, f, u"},
      {{"--recods=5"}, "there is no flag --recods; did you mean --records?"},
      {{"--records=many"}, "--records=many does not fit"},
      {{"--records=-1"}, "--records=-1 does not fit"},
      {{"--records=0"}, "--records=0 is not from 1 to"},
      {{"--key_bytes=3"}, "--key_bytes=3 is not from 4 to "},
      {{"--key_bytes=10", "--key_prefix=abc"}, "give --key_bytes=11 at least"},
      {{"--key_form=words"}, "--key_form=words is not one of numbers, ycsb"},
      {{"--keys=words", "--key_bytes=8"}, "leave out --key_bytes"},
      {{"--value_bytes=1048577"}, "--value_bytes=1048577 is not from 0 to 1,048,576"},
      {{"--local=12XB"}, "--local: '12XB' is not a size"},
      {{"--local=1KiB"}, "--local=1KiB: give 264KiB at least, and 8TiB at most"},
      {{"--local=0"}, "--local=0: give 264KiB at least"},
      {{"--local=100TiB"}, "--local=100TiB: give 264KiB at least, and 8TiB at most"},
      {{"--local", "--phase=run"}, "--local opens a store of its own, which is empty"},
      {{"--local", "--store=other"}, "leave out --store"},
      {{"--local", "--design=fast"}, "--design=fast is not one of naive, combined, on_chip, "},
      {{"--notouch"}, "--touch is about the memory of --local: leave it out"},
      {{"--design=sherman"}, "--design=sherman is a store in this process: give --local"},
      {{"--local", "--design=sherman", "--batch=8"}, "leave out --batch"},
      {{"--processes=3"}, "--processes find each other by a name: give --barrier=NAME too"},
      {{"--barrier=b"}, "--barrier is of several processes: give --processes=N too"},
      {{"--barrier=b/c", "--processes=2"}, "--barrier=b/c: use 1 to 64 of the characters"},
      {{"--barrier=b", "--processes=0"}, "--processes=0 is not from 1 to 128"},
      {{"--barrier=b", "--processes=129"}, "--processes=129 is not from 1 to 128"},
      {{"--barrier=b", "--processes=2", "--local"}, "--local is a store of one process: leave o"},
      {{"--barrier=b", "--processes=2", "--progress_ms=9"}, "--progress_ms is of one process: le"},
      {{"run"}, "takes flags only; 'run' is none"},
  };
  for (const Case& wrong : cases) {
    const Outcome outcome = RunBench(wrong.flags);
    EXPECT_EQ(outcome.status, 2) << wrong.sentence;
    EXPECT_THAT(outcome.errors, HasSubstr(wrong.sentence));
    EXPECT_EQ(outcome.output, "");
  }
}

TEST(BenchProgramTest, HelpNamesEveryFlag) {
  const Outcome outcome = RunBench({"--help"});
  EXPECT_EQ(outcome.status, 0);
  // The JSON has every flag that is defined.
  const Json config = Measure({"--records=1000", "--operations=1000", "--nowarm_up"}).at("config");
  EXPECT_TRUE(config.contains("load_order") && config.contains("key_prefix"));
  for (const auto& [flag, value] : config.items()) {
    EXPECT_THAT(outcome.output, ContainsRegex("--(\\[no\\])?" + flag + "[ =\n]")) << flag;
  }
}

TEST(BenchProgramTest, AnAbsentStoreIsASentence) {
  const TemporaryDirectory directory;
  const Outcome outcome = RunBench({"--bootstrap=dir:" + directory.path(), "--store=nowhere"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("gossamer-bench: NotFound: "));
  EXPECT_THAT(outcome.errors, HasSubstr("nowhere"));
}

class WorkloadOnStoreTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, WorkloadOnStoreTest,
                         ::testing::Values("a", "b", "c", "d", "e", "f", "u"),
                         [](const auto& workload) { return workload.param; });

TEST_P(WorkloadOnStoreTest, DoesAllItsOperations) {
  const Json json =
      Measure({"--records=100000", "--operations=100000", "--workload=" + GetParam()});
  EXPECT_EQ(json.at("load").at("operations"), 100'000);
  EXPECT_EQ(json.at("run").at("operations"), 100'000);
  const Json& wire = json.at("wire");
  const Json& latency = json.at("run").at("latency_us");
  const auto measured = [&latency](const char* name) {
    return latency.at(name).at("count").get<uint64_t>();
  };
  EXPECT_EQ(wire.at("read").at("operations"), measured("read"));
  EXPECT_EQ(wire.at("update").at("operations"), measured("update"));
  EXPECT_EQ(wire.at("scan").at("operations"), measured("scan"));
  EXPECT_EQ(wire.at("insert").at("operations").get<uint64_t>() +
                wire.at("insert_split").at("operations").get<uint64_t>(),
            measured("insert"));
  EXPECT_EQ(wire.at("delete").at("operations"), 0);
  // All operations are counted; a read-modify-write is two on the wire.
  const uint64_t whole = GetParam() == "f" ? measured("read_modify_write") : 0;
  EXPECT_EQ(Total(wire, "operations"), 100'000 + whole);
}

// One client with one operation in flight, so that nothing is handed over.
TEST(BenchProgramTest, DesignsOfShermansEvaluationCostWhatTheirTechniquesLeave) {
  struct Case {
    const char* design;
    uint64_t round_trips;
    uint64_t bytes_written;
  };
  constexpr uint64_t kLeaf = 1024;
  constexpr uint64_t kLock = 1;
  constexpr uint64_t kEntry = 18;
  for (const Case& one : {Case{"naive", 4, kLeaf + kLock}, Case{"combined", 3, kLeaf + kLock},
                          Case{"on_chip", 3, kLeaf + kLock}, Case{"hierarchical", 3, kLeaf + kLock},
                          Case{"sherman", 3, kEntry + kLock}}) {
    SCOPED_TRACE(one.design);
    const Json json = Measure({"--records=20000", "--operations=20000", "--workload=a",
                               "--coroutines=1", "--design=" + std::string(one.design)});
    EXPECT_EQ(json.at("config").at("design"), one.design);
    EXPECT_EQ(json.at("run").at("operations"), 20'000);
    const Json& update = json.at("wire").at("update");
    const auto updates = update.at("operations").get<uint64_t>();
    EXPECT_EQ(update.at("round_trips"), one.round_trips * updates);
    EXPECT_EQ(update.at("bytes_read"), kLeaf * updates);
    EXPECT_EQ(update.at("bytes_written"), one.bytes_written * updates);
    const Json& read = json.at("wire").at("read");
    EXPECT_EQ(read.at("round_trips"), read.at("operations"));
  }
}

// One thread: beside another one that splits leaves, a get of Sherman's may miss a key over shm
// (compute/research/sherman/tree.h).
TEST(BenchProgramTest, ADesignRunsEveryWorkload) {
  for (const char* workload : {"b", "c", "d", "e", "f", "u"}) {
    SCOPED_TRACE(workload);
    const Json json = Measure({"--records=20000", "--operations=20000", "--design=sherman",
                               "--workload=" + std::string(workload)});
    EXPECT_EQ(json.at("load").at("operations"), 20'000);
    EXPECT_EQ(json.at("run").at("operations"), 20'000);
  }
}

// The design's claim: a get costs one READ of one group, except for the few keys in overflow
// groups.
TEST(BenchProgramTest, UniformGetsCostOneSmallRead) {
  const Json json = Measure(
      {"--records=100000", "--operations=100000", "--workload=c", "--distribution=uniform"});
  const Json& read = json.at("wire").at("read");
  const auto operations = read.at("operations").get<double>();
  EXPECT_EQ(operations, 100'000);
  EXPECT_LE(read.at("round_trips").get<double>() / operations, 1.03);
  EXPECT_LE(read.at("bytes_read").get<double>() / operations, 190);
  EXPECT_EQ(read.at("writes"), 0);
  EXPECT_EQ(read.at("cas"), 0);
}

TEST(BenchProgramTest, TheCacheCountsWhatAllThreadsLookUp) {
  const Json json = Measure({"--records=100000", "--operations=40000", "--workload=c",
                             "--threads=4", "--coroutines=2", "--cache_bytes=20000"});
  const Json& cache = json.at("cache");
  // A session's first get looks up twice: before and after it registers (rule R9).
  const uint64_t lookups = cache.at("hits").get<uint64_t>() + cache.at("misses").get<uint64_t>();
  EXPECT_GE(lookups, 40'000u);
  EXPECT_LE(lookups, 40'008u);
  EXPECT_GT(cache.at("hits"), 0);
  EXPECT_GT(cache.at("evictions"), 0);
  EXPECT_LE(cache.at("bytes"), 20'000);
}

TEST(BenchProgramTest, ThreadsBatchesAndLongRecords) {
  const Json batches = Measure({"--records=20000", "--operations=20000", "--workload=a",
                                "--threads=2", "--batch=16", "--seed=7"});
  EXPECT_EQ(batches.at("run").at("operations"), 20'000);
  EXPECT_EQ(batches.at("config").at("batch"), 16);
  const Json long_records = Measure({"--records=5000", "--operations=5000", "--workload=f",
                                     "--threads=2", "--key_bytes=24", "--value_bytes=1000"});
  EXPECT_EQ(long_records.at("run").at("operations"), 5'000);
}

TEST(BenchProgramTest, KeysMayBeAsLongAsAStoreTakes) {
  const Json numbers = Measure({"--records=5000", "--operations=5000", "--workload=a",
                                "--key_bytes=" + std::to_string(kMaxKeyBytes)});
  EXPECT_EQ(numbers.at("run").at("operations"), 5'000);
  const Arguments ycsb = {"--records=5000", "--operations=5000", "--workload=d", "--key_form=ycsb"};
  if (kMaxKeyBytes >= 33) {
    EXPECT_EQ(Measure(ycsb).at("config").at("key_bytes"), 33);
  } else {
    const Outcome outcome = RunBench(ycsb);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.errors, HasSubstr("have up to 33 bytes, and a store takes keys of at mo"));
  }
}

TEST(BenchProgramTest, KeysMayHaveAPrefix) {
  const Json json = Measure({"--records=5000", "--operations=5000", "--workload=d",
                             "--key_bytes=24", "--key_prefix=tenant/"});
  EXPECT_EQ(json.at("run").at("operations"), 5'000);
  EXPECT_EQ(json.at("config").at("key_prefix"), "tenant/");
  EXPECT_EQ(json.at("config").at("key_bytes"), 24);
  EXPECT_EQ(json.at("config").at("key_form"), "numbers");
}

TEST(BenchProgramTest, KeysMayBeTheLinesOfAFile) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/words";
  {
    std::ofstream words(file);
    for (int i = 0; i < 10'000; ++i) words << "word " << i << "\n";
  }
  const Json all = Measure({"--keys=" + file, "--operations=5000", "--load_order=sorted"});
  EXPECT_EQ(all.at("load").at("operations"), 10'000);
  EXPECT_EQ(all.at("run").at("operations"), 5'000);
  EXPECT_EQ(all.at("config").at("records"), 10'000);
  EXPECT_EQ(all.at("config").at("keys"), file);
  EXPECT_EQ(all.at("config").at("key_form"), "lines");
  EXPECT_EQ(all.at("config").at("key_bytes"), 9);
  const Json inserts =
      Measure({"--keys=" + file, "--operations=5000", "--workload=e", "--records=9000"});
  EXPECT_EQ(inserts.at("load").at("operations"), 9'000);
  EXPECT_GT(inserts.at("wire").at("insert").at("operations"), 0);

  const Outcome without_rest = RunBench({"--local", "--keys=" + file, "--workload=e"});
  EXPECT_EQ(without_rest.status, 2);
  EXPECT_THAT(without_rest.errors, HasSubstr("--workload=e inserts up to 100,100 of the 10,000 l"));
  std::ofstream(file, std::ios::app) << "word 7\n";
  const Outcome twice = RunBench({"--local", "--keys=" + file});
  EXPECT_EQ(twice.status, 1);
  EXPECT_THAT(twice.errors, HasSubstr("--keys: line 10001 of " + file + " is the same as line 8"));
  EXPECT_EQ(RunBench({"--local", "--keys=" + file, "--records=10000", "--operations=0"}).status, 0);
  EXPECT_EQ(RunBench({"--local", "--keys=" + directory.path() + "/absent"}).status, 1);
}

TEST(BenchProgramTest, TheSummaryGoesToStdoutAndTheJsonToItsFile) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/figures.json";
  const Outcome outcome =
      RunBench({"--local=256MiB", "--records=1000", "--operations=1000", "--json=" + file});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("workload c, zipfian (theta 0.99); 1,000 records"));
  EXPECT_THAT(outcome.output, HasSubstr("store of 256 MiB in this process"));
  std::ifstream stream(file);
  const Json json = Json::parse(stream);
  EXPECT_EQ(json.at("run").at("operations"), 1'000);
  EXPECT_EQ(json.at("config").at("local"), 256u << 20);

  const Outcome unwritable = RunBench(
      {"--local=256MiB", "--records=10", "--operations=10", "--json=" + file + "/below_a_file"});
  EXPECT_EQ(unwritable.status, 1);
  EXPECT_EQ(unwritable.output, "") << "something was measured";
  EXPECT_THAT(unwritable.errors, HasSubstr("--json: cannot write " + file + "/below_a_file: Not"));
}

TEST(BenchProgramTest, MoreThanTheMachineHasIsASentenceWithoutOthersFlags) {
  const Outcome outcome = RunBench({"--local=7TiB", "--records=10", "--operations=10"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("7.00 TiB of memory are more than the "));
  EXPECT_THAT(outcome.errors, ::testing::Not(HasSubstr("--memory")));
}

TEST(BenchProgramTest, TheLeastOfLocalIsEnoughForAStore) {
  const Outcome outcome = RunBench({"--local=264KiB", "--records=10", "--operations=10"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

TEST(BenchProgramTest, AnOlderFileStaysWhereThereAreNoFigures) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/figures.json";
  std::ofstream(file) << "older";
  const Outcome outcome =
      RunBench({"--bootstrap=dir:" + directory.path(), "--store=nowhere", "--json=" + file});
  EXPECT_EQ(outcome.status, 1);
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "older");
}

TEST(BenchProgramTest, TheJsonNamesTheCommit) {
  const Json json = Measure({"--records=10", "--operations=10"});
  EXPECT_THAT(json.at("build").at("commit").get<std::string>(),
              ::testing::ContainsRegex("^([0-9a-f]{40}(-dirty)?|unknown)$"));
}

TEST(BenchProgramTest, PathsNeedNotBeUtf8) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/\xff.json";
  const Outcome outcome =
      RunBench({"--local=256MiB", "--records=10", "--operations=10", "--json=" + file});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  std::ifstream stream(file);
  EXPECT_EQ(Json::parse(stream).at("run").at("operations"), 10);
}

TEST(BenchProgramTest, HelpShowsNumbersAsPeopleWriteThem) {
  const Outcome help = RunBench({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--theta=0.99 "));
}

TEST(BenchProgramTest, FullMemoryIsCounted) {
  const Outcome outcome = RunBench({"--local=8MiB", "--phase=load", "--records=400000"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("Exhausted"));
  EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr("Corruption")));
}

// A store, and the processes of one benchmark of it.
class TogetherTest : public ::testing::Test {
 protected:
  TogetherTest()
      : server_(
            {BuiltFile("bin/gossamer-memory"), "--memory=128MiB", "--create=new", Bootstrap()}) {
    EXPECT_TRUE(server_.WaitForOutput("ready")) << server_.standard_error();
  }

  std::string Bootstrap() const { return "--bootstrap=dir:" + directory_.path() + "/boot"; }

  std::unique_ptr<ChildProcess> Start(const Arguments& flags) const {
    Arguments arguments = {BuiltFile("bin/gossamer-bench"), Bootstrap(), "--barrier=b",
                           "--processes=3", "--json=-"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return std::make_unique<ChildProcess>(arguments);
  }

  // Names of the files in the bootstrap that end so.
  bool HasFiles(const std::string& end) const {
    for (const auto& file : std::filesystem::directory_iterator(directory_.path() + "/boot")) {
      if (file.path().string().ends_with(end)) return true;
    }
    return false;
  }

  const TemporaryDirectory directory_;
  ChildProcess server_;
};

TEST_F(TogetherTest, ThreeProcessesRunOneBenchmark) {
  for (const char* workload : {"d", "e", "f"}) {
    SCOPED_TRACE(workload);
    const Arguments flags = {"--records=30001", "--operations=20002",
                             "--workload=" + std::string(workload)};
    std::vector<std::unique_ptr<ChildProcess>> processes;
    for (int i = 0; i < 3; ++i) processes.push_back(Start(flags));
    Json merged;
    uint64_t reads = 0;
    uint64_t latencies = 0;
    for (const auto& process : processes) {
      ASSERT_EQ(process->Wait(std::chrono::seconds(240)), 0) << process->standard_error();
      const Json json = Json::parse(process->standard_output(), nullptr, false);
      ASSERT_TRUE(json.is_object()) << process->standard_output();
      EXPECT_EQ(json.at("errors"), Json::object()) << "an insert or a read was another process's";
      if (json.contains("processes")) {
        merged = json;
        continue;
      }
      EXPECT_THAT(process->standard_error(), ContainsRegex("rank [12] of 3 alone. That of rank 0, "
                                                           "on .*, reports all"));
      EXPECT_EQ(json.at("run").at("operations"), json.at("rank") == 1 ? 6'667 : 6'668);
      reads += json.at("wire").at("read").at("operations").get<uint64_t>();
      latencies += json.at("run").at("latency_us").at("read").at("count").get<uint64_t>();
    }
    ASSERT_TRUE(merged.is_object());
    EXPECT_EQ(merged.at("load").at("operations"), 30'001);
    EXPECT_EQ(merged.at("run").at("operations"), 20'002);
    EXPECT_EQ(merged.at("processes").size(), 3u);
    EXPECT_EQ(merged.at("processes").at(0).at("run").at("operations"), 6'667);
    EXPECT_GE(merged.at("wire").at("read").at("operations").get<uint64_t>(), reads);
    EXPECT_GE(merged.at("run").at("latency_us").at("read").at("count").get<uint64_t>(), latencies);
    EXPECT_FALSE(HasFiles(".note"));
  }
}

TEST_F(TogetherTest, ThoseThatAreLeftNameTheOneThatDied) {
  std::vector<std::unique_ptr<ChildProcess>> processes;
  for (int i = 0; i < 3; ++i) {
    processes.push_back(Start({"--records=1000", "--operations=1000000000000", "--nowarm_up"}));
  }
  for (const auto& process : processes) {  // each says it once its run has taken a second
    while (process->standard_error().find("running") == std::string::npos && process->Poll(100)) {
    }
  }
  processes[1]->Signal(SIGKILL);
  for (const int i : {0, 2}) {
    EXPECT_EQ(processes[i]->Wait(std::chrono::seconds(240)), 1);
    const std::string& said = processes[i]->standard_error();
    EXPECT_THAT(said, HasSubstr("the benchmark 'b' is broken: the process of rank "));
    // The first to end may be named in place of the one that has died.
    EXPECT_THAT(said, ContainsRegex("pid [0-9]+\\) has (ended|left) before its end"));
    EXPECT_THAT(said, HasSubstr("run: ")) << "its own report";
    EXPECT_THAT(said, HasSubstr("of 3 alone."));
    const Json json = Json::parse(processes[i]->standard_output(), nullptr, false);
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json.at("interrupted"), true);
  }
  const std::string both = processes[0]->standard_error() + processes[2]->standard_error();
  EXPECT_THAT(both, HasSubstr("pid " + std::to_string(processes[1]->pid()) + ") has ended before"));
  EXPECT_FALSE(HasFiles(".note")) << "the last one removes the texts";
}

TEST_F(TogetherTest, WhatCannotComeTogetherEndsAtOnce) {
  const auto first = Start({"--records=1000"});
  while (!HasFiles(".note") && first->Poll(10)) {
  }
  const auto other = Start({"--records=1001"});
  EXPECT_EQ(other->Wait(std::chrono::seconds(240)), 2);
  EXPECT_THAT(other->standard_error(), HasSubstr("--records=1001 here, but --records=1000 on "));
  first->Signal(SIGINT);
  EXPECT_EQ(first->Wait(std::chrono::seconds(240)), 130);
  EXPECT_EQ(first->standard_output(), "");
  EXPECT_FALSE(HasFiles(".note"));
}

TEST(BenchProgramTest, ControlCEndsItWithASummary) {
  ChildProcess bench({BuiltFile("bin/gossamer-bench"), "--local=256MiB", "--records=1000",
                      "--operations=1000000000000", "--json=-"});
  // Said once the run has taken a second.
  while (bench.standard_error().find("running") == std::string::npos && bench.Poll(100)) {
  }
  bench.Signal(SIGINT);
  EXPECT_EQ(bench.Wait(), 130) << bench.standard_error();
  EXPECT_THAT(bench.standard_error(), HasSubstr("Interrupted: the figures are of what ran"));
  const Json json = Json::parse(bench.standard_output(), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << bench.standard_output();
  EXPECT_EQ(json.at("interrupted"), true);
  EXPECT_EQ(json.at("errors"), Json::object());
}

}  // namespace
}  // namespace gossamer::bench
