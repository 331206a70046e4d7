#include "compute/bench/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/bench/key_list_test_support.h"
#include "compute/bench/keys.h"
#include "compute/testing/fake_store.h"

namespace gossamer::bench {
namespace {

RunnerOptions Options(const char* workload, uint64_t records, uint64_t operations) {
  RunnerOptions options;
  options.workload = *FindWorkload(workload);
  options.records = records;
  options.operations = operations;
  options.seed = 42;
  return options;
}

uint64_t Count(const PhaseResult& result, BenchOperation kind) {
  return result.latency(kind).count();
}

TEST(LoadTest, PutsEveryRecordOnce) {
  for (const uint32_t threads : {1u, 3u}) {
    for (const uint32_t batch : {1u, 7u}) {
      for (const uint32_t key_bytes : {8u, 24u}) {
        FakeStore store;
        RunnerOptions options = Options("c", 1'000, 0);
        options.threads = threads;
        options.batch = batch;
        options.keys.key_bytes = key_bytes;
        options.value_bytes = 20;
        const PhaseResult result = LoadRecords(store, options).value();
        EXPECT_EQ(result.operations, 1'000u);
        EXPECT_EQ(Count(result, BenchOperation::kInsert), 1'000u);
        EXPECT_EQ(result.counters.of(OperationClass::kInsert).operations, 1'000u);
        EXPECT_EQ(result.errors.total(), 0u);

        const FakeStore::Map& contents = store.state().map;
        ASSERT_EQ(contents.size(), 1'000u);
        const KeyCodec codec(key_bytes);
        KeyBuffer buffer;
        std::string value(20, '\0');
        for (uint64_t id = 0; id < 1'000; ++id) {
          const auto found = contents.find(codec.Encode(id, buffer));
          ASSERT_NE(found, contents.end()) << "record " << id;
          FillValue(id, 42, value);
          ASSERT_EQ(found->second, value) << "record " << id;
        }
      }
    }
  }
}

TEST(LoadTest, EveryOrderPutsEveryRecordOnce) {
  for (const LoadOrder order :
       {LoadOrder::kRuns, LoadOrder::kSorted, LoadOrder::kAscending, LoadOrder::kDescending}) {
    for (const uint32_t threads : {1u, 3u}) {
      for (const uint32_t key_bytes : {8u, 24u}) {
        FakeStore store;
        RunnerOptions options = Options("c", 20'000, 0);
        options.threads = threads;
        options.batch = 7;
        options.keys.key_bytes = key_bytes;
        options.load_order = order;
        const PhaseResult result = LoadRecords(store, options).value();
        EXPECT_EQ(result.operations, 20'000u);
        EXPECT_EQ(Count(result, BenchOperation::kInsert), 20'000u);
        EXPECT_EQ(store.state().map.size(), 20'000u);
        options.operations = 500;
        EXPECT_EQ(RunWorkload(store, options).value().errors.total(), 0u) << "a key is absent";
      }
    }
  }
}

TEST(RunTest, TheSessionsOfAThreadShareItsCoroutines) {
  for (const uint32_t sessions : {1u, 4u}) {
    FakeStore store;
    RunnerOptions options = Options("a", 500, 10'000);
    options.threads = 2;
    options.coroutines = 8;
    options.sessions = sessions;
    ASSERT_TRUE(LoadRecords(store, options));
    const PhaseResult result = RunWorkload(store, options).value();
    EXPECT_EQ(result.operations, 10'000u);
    EXPECT_EQ(result.counters.of(OperationClass::kRead).operations,
              Count(result, BenchOperation::kRead));
    EXPECT_EQ(store.state().most_in_flight, 8u / sessions);
  }
}

// In every order: what one process loads, and no record twice.
TEST(LoadTest, ProcessesLoadEveryRecordOnce) {
  for (const LoadOrder order :
       {LoadOrder::kRandom, LoadOrder::kRuns, LoadOrder::kSorted, LoadOrder::kDescending}) {
    for (const uint32_t processes : {1u, 2u, 3u, 8u}) {
      FakeStore store;
      RunnerOptions options = Options("c", 10'001, 0);
      options.threads = 2;
      options.batch = 7;
      options.load_order = order;
      uint64_t operations = 0;
      for (uint32_t rank = 0; rank < processes; ++rank) {
        options.share = {.processes = processes, .rank = rank};
        const PhaseResult result = LoadRecords(store, options).value();
        EXPECT_EQ(result.errors.total(), 0u);
        operations += result.operations;
      }
      EXPECT_EQ(operations, 10'001u);
      EXPECT_EQ(store.state().map.size(), 10'001u);
    }
  }
}

TEST(RunTest, ProcessesShareTheOperationsAndInsertNoRecordTwice) {
  for (const char* workload : {"c", "d", "e"}) {
    FakeStore store;
    RunnerOptions options = Options(workload, 500, 10'001);
    options.threads = 2;
    ASSERT_TRUE(LoadRecords(store, options));
    uint64_t operations = 0;
    uint64_t inserts = 0;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      options.share = {.processes = 3, .rank = rank};
      const PhaseResult result = RunWorkload(store, options).value();
      EXPECT_EQ(result.errors.total(), 0u);
      operations += result.operations;
      inserts += Count(result, BenchOperation::kInsert);
    }
    EXPECT_EQ(operations, 10'001u);
    EXPECT_EQ(store.state().map.size(), 500 + inserts);
  }
}

// The latencies' counts of kinds stand for the operations that were drawn.
TEST(RunTest, EachProcessDrawsOperationsOfItsOwn) {
  std::map<uint64_t, int> reads;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    FakeStore store;
    RunnerOptions options = Options("a", 500, 40'000);
    options.share = {.processes = 4, .rank = rank};
    ASSERT_TRUE(LoadRecords(store, Options("a", 500, 0)));
    ++reads[Count(RunWorkload(store, options).value(), BenchOperation::kRead)];
  }
  EXPECT_GT(reads.size(), 1u);
}

TEST(LoadTest, RunsAreOfNeighboursInRandomOrder) {
  const KeyCodec codec(8);
  const auto key_of = [&](uint64_t id) {
    KeyBuffer buffer;
    return std::string(codec.Encode(id, buffer));
  };
  const std::vector<uint64_t> sorted = OrderOfIds(LoadOrder::kSorted, codec, 1'003, 10, 1);
  const std::vector<uint64_t> runs = OrderOfIds(LoadOrder::kRuns, codec, 1'003, 10, 1);
  ASSERT_EQ(sorted.size(), 1'003u);
  ASSERT_EQ(runs.size(), 1'003u);
  std::map<uint64_t, size_t> rank;
  for (size_t i = 0; i < sorted.size(); ++i) {
    rank[sorted[i]] = i;
    if (i != 0) {
      ASSERT_LT(key_of(sorted[i - 1]), key_of(sorted[i]));
    }
  }
  ASSERT_EQ(rank.size(), 1'003u);
  size_t breaks = 0;
  for (size_t i = 1; i < runs.size(); ++i) breaks += rank[runs[i]] != rank[runs[i - 1]] + 1 ? 1 : 0;
  EXPECT_GT(breaks, 80u);
  EXPECT_LE(breaks, 100u);
  EXPECT_TRUE(std::ranges::is_permutation(runs, sorted));
  EXPECT_EQ(OrderOfIds(LoadOrder::kAscending, codec, 1'003, 10, 1), sorted);
  std::vector<uint64_t> descending = OrderOfIds(LoadOrder::kDescending, codec, 1'003, 10, 1);
  std::ranges::reverse(descending);
  EXPECT_EQ(descending, sorted);
}

TEST(LoadTest, LinesOfAFileAreLoadedAndInserted) {
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += std::to_string(i) + "\n";
  const KeyFile file(text);
  KeyList list = KeyList::Read(file.options()).value();
  list.Shuffle(1'000);
  const auto keys = std::make_shared<const KeyList>(std::move(list));
  const std::vector<uint64_t> as_in_file =
      OrderOfIds(LoadOrder::kFile, KeyCodec({.form = KeyForm::kLines, .list = keys}), 1'000, 1, 1);
  for (size_t i = 0; i < 1'000; ++i) ASSERT_EQ(keys->line(as_in_file[i]), std::to_string(i));
  for (const LoadOrder order : {LoadOrder::kRandom, LoadOrder::kSorted}) {
    for (const uint32_t batch : {1u, 7u}) {
      FakeStore store;
      RunnerOptions options = Options("d", 1'000, 5'000);
      options.keys = {.form = KeyForm::kLines, .key_bytes = 8, .prefix = "k", .list = keys};
      options.load_order = order;
      options.batch = batch;
      EXPECT_EQ(LoadRecords(store, options).value().operations, 1'000u);
      const FakeStore::Map& contents = store.state().map;
      ASSERT_EQ(contents.size(), 1'000u);
      for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(contents.contains("k" + std::to_string(i))) << i;
      const PhaseResult run = RunWorkload(store, options).value();
      EXPECT_EQ(run.errors.total(), 0u);
      EXPECT_EQ(contents.size(), 1'000u + Count(run, BenchOperation::kInsert));
    }
  }
}

TEST(RunTest, PointsOfProgressAscend) {
  FakeStore store;
  RunnerOptions options = Options("c", 100, 300'000);
  options.progress_ms = 1;
  ASSERT_TRUE(LoadRecords(store, options));
  const PhaseResult result = RunWorkload(store, options).value();
  uint64_t before = 0;
  double seconds = 0;
  for (const ProgressPoint& point : result.progress) {
    EXPECT_GE(point.operations, before);
    EXPECT_GT(point.seconds, seconds);
    before = point.operations;
    seconds = point.seconds;
  }
  ASSERT_FALSE(result.progress.empty());
  EXPECT_EQ(result.progress.back().operations, 300'000u);
  EXPECT_EQ(result.progress.back().seconds, result.seconds);
}

TEST(RunTest, EveryWorkloadDoesItsOperationsWithoutError) {
  for (const char* workload : {"a", "b", "c", "d", "e", "f", "u"}) {
    for (const uint32_t threads : {1u, 2u}) {
      for (const uint32_t batch : {1u, 16u}) {
        SCOPED_TRACE(testing::Message()
                     << workload << ", " << threads << " threads, batch " << batch);
        FakeStore store;
        RunnerOptions options = Options(workload, 500, 5'000);
        options.threads = threads;
        options.batch = batch;
        ASSERT_TRUE(LoadRecords(store, options));
        const PhaseResult result = RunWorkload(store, options).value();
        EXPECT_EQ(result.operations, 5'000u);
        EXPECT_EQ(result.errors.total(), 0u);
        const uint64_t whole = Count(result, BenchOperation::kReadModifyWrite);
        // Both halves of a read-modify-write are measured, but it is one operation.
        EXPECT_EQ(Count(result, BenchOperation::kRead) + Count(result, BenchOperation::kUpdate) +
                      Count(result, BenchOperation::kInsert) +
                      Count(result, BenchOperation::kScan) - whole,
                  5'000u);
        const Counters& counters = result.counters;
        EXPECT_EQ(counters.of(OperationClass::kRead).operations,
                  Count(result, BenchOperation::kRead));
        EXPECT_EQ(counters.of(OperationClass::kUpdate).operations,
                  Count(result, BenchOperation::kUpdate));
        EXPECT_EQ(counters.of(OperationClass::kInsert).operations,
                  Count(result, BenchOperation::kInsert));
        EXPECT_EQ(counters.of(OperationClass::kScan).operations,
                  Count(result, BenchOperation::kScan));
        EXPECT_EQ(counters.cache.hits, 5'000u + whole) << "of the phase alone, and of all threads";
        EXPECT_EQ(counters.cache.bytes, 4096u) << "of the store, not of each thread";
        EXPECT_EQ(store.state().map.size(), 500u + Count(result, BenchOperation::kInsert));
      }
    }
  }
}

TEST(RunTest, KeepsTheAskedNumberInFlight) {
  for (const uint32_t coroutines : {1u, 64u}) {
    FakeStore store;
    RunnerOptions options = Options("c", 100, 10'000);
    options.coroutines = coroutines;
    ASSERT_TRUE(LoadRecords(store, options));
    ASSERT_TRUE(RunWorkload(store, options));
    EXPECT_EQ(store.state().most_in_flight, coroutines);
  }
}

TEST(RunTest, FewerOperationsThanThreadsAndCoroutines) {
  FakeStore store;
  RunnerOptions options = Options("a", 1, 3);
  options.threads = 8;
  EXPECT_EQ(LoadRecords(store, options).value().operations, 1u);
  EXPECT_EQ(RunWorkload(store, options).value().operations, 3u);
  options.operations = 0;
  EXPECT_EQ(RunWorkload(store, options).value().operations, 0u);
}

TEST(RunTest, FailuresAreCountedByCodeAndTheRunGoesOn) {
  for (const uint32_t batch : {1u, 16u}) {
    FakeStore store;
    RunnerOptions options = Options("a", 500, 5'000);
    options.batch = batch;
    ASSERT_TRUE(LoadRecords(store, options));
    store.state().fail_with = MakeError(Code::kContended, "as the test asked");
    store.state().fail_interval = 10;
    const PhaseResult result = RunWorkload(store, options).value();
    EXPECT_EQ(result.operations, 4'500u);
    EXPECT_EQ(result.errors.counts[static_cast<size_t>(Code::kContended)], 500u);
    EXPECT_EQ(result.errors.total(), 500u);
    EXPECT_EQ(result.errors.messages[static_cast<size_t>(Code::kContended)], "as the test asked");
    EXPECT_FALSE(result.gave_up);
    EXPECT_FALSE(result.interrupted);
  }
}

TEST(RunTest, AnAbsentRecordIsAnError) {
  FakeStore store;
  RunnerOptions options = Options("c", 50, 0);
  ASSERT_TRUE(LoadRecords(store, options));
  options.records = 100;  // half of them were not loaded
  options.operations = 900;
  options.workload.distribution = Distribution::kUniform;
  const PhaseResult result = RunWorkload(store, options).value();
  const uint64_t absent = result.errors.counts[static_cast<size_t>(Code::kNotFound)];
  EXPECT_NEAR(static_cast<double>(absent), 450, 100);
  EXPECT_EQ(result.operations + absent, 900u);
}

TEST(RunTest, GivesUpOnAStoreThatOnlyFails) {
  for (const LoadOrder order : {LoadOrder::kRandom, LoadOrder::kSorted}) {
    SCOPED_TRACE(static_cast<int>(order));
    FakeStore store;
    store.state().fail_with = MakeError(Code::kNodeUnreachable);
    RunnerOptions options = Options("c", 1'000'000, 0);
    options.load_order = order;
    const PhaseResult result = LoadRecords(store, options).value();
    EXPECT_TRUE(result.gave_up);
    EXPECT_EQ(result.operations, 0u);
    EXPECT_GE(result.errors.total(), kFailuresToGiveUp);
    EXPECT_LT(result.errors.total(), 2 * kFailuresToGiveUp);
  }
}

TEST(RunTest, NoSessionIsAnError) {
  FakeStore store;
  store.state().refuse_sessions = true;
  RunnerOptions options = Options("c", 100, 100);
  options.threads = 3;
  EXPECT_EQ(LoadRecords(store, options).error().code, Code::kNodeUnreachable);
  EXPECT_EQ(RunWorkload(store, options).error().code, Code::kNodeUnreachable);
  EXPECT_EQ(WarmUp(store, options).error().code, Code::kNodeUnreachable);
}

TEST(RunTest, StopsWhenAskedAndKeepsWhatItDid) {
  for (const uint32_t batch : {1u, 16u}) {
    FakeStore store;
    RunnerOptions options = Options("a", 100, uint64_t{1} << 50);
    options.batch = batch;
    options.threads = 2;
    ASSERT_TRUE(LoadRecords(store, options));
    options.should_stop = [] { return true; };
    const PhaseResult result = RunWorkload(store, options).value();
    EXPECT_TRUE(result.interrupted);
    EXPECT_LT(result.operations, uint64_t{1} << 50);
    EXPECT_EQ(Count(result, BenchOperation::kRead) + Count(result, BenchOperation::kUpdate),
              result.operations);
  }
}

TEST(WarmUpTest, SeesEveryKey) {
  FakeStore store;
  const RunnerOptions options = Options("c", 1'234, 0);
  EXPECT_EQ(WarmUp(store, options).value().keys, 0u);
  ASSERT_TRUE(LoadRecords(store, options));
  EXPECT_EQ(WarmUp(store, options).value().keys, 1'234u);
}

}  // namespace
}  // namespace gossamer::bench
