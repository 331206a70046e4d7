// Every tree against std::map, the steps of runs, and the flags of gossamer-lab.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <span>

#include "compute/research/lab/catalogue.h"
#include "compute/research/lab/check.h"
#include "compute/research/lab/plan.h"
#include "compute/research/lab/report.h"
#include "compute/research/lab/separators.h"
#include "compute/research/lab/sequential_tree.h"
#include "proto/testing/rounds.h"

namespace gossamer::lab {
namespace {

using ::testing::HasSubstr;

// ---- trees

class TreeTest : public ::testing::TestWithParam<TreeEntry> {};

// Trees with workers are checked alone, with each number of these, by CheckTree below.
TEST_P(TreeTest, AloneIsAsStdMap) {
  for (uint64_t seed = 1; !GetParam().parallel && seed <= 4; ++seed) {
    const Status status = CheckAlone(GetParam().make, {.partitions = 3}, seed);
    ASSERT_TRUE(status) << "seed " << seed << ": " << status.error().message;
  }
}

TEST_P(TreeTest, ReadersFindKeysThatInsertsMove) {
  for (uint64_t seed = 1; GetParam().many_threads && seed <= 5; ++seed) {
    const Status status = CheckDescending(GetParam().make, 2, seed);
    ASSERT_TRUE(status) << "seed " << seed << ": " << status.error().message;
  }
}

// With a sanitizer, the least and the greatest number of threads do.
constexpr std::array<uint32_t, 2> kFewThreads = {kCheckedThreads.front(), kCheckedThreads.back()};
constexpr std::span<const uint32_t> kThreads =
    kIsSanitized ? std::span<const uint32_t>(kFewThreads) : kCheckedThreads;

TEST_P(TreeTest, WorkloadsLeaveWhatTheyInserted) {
  const Result<uint64_t> checks = CheckTree(GetParam(), 7, kThreads);
  ASSERT_TRUE(checks) << checks.error().message;
  // For each number of threads, 7 mixes and distributions by 2 batches, and contended; for 2
  // threads and more, descending; alone; for each number of threads and way to prefetch, hints and
  // a mix.
  // A parallel tree: alone and batches for each number of workers.
  constexpr uint64_t kMixes = 7 * 2;
  const uint64_t numbers = kThreads.size();
  const uint64_t sharing =
      GetParam().many_threads ? 1 + numbers * (kMixes + 1) + numbers - 1 : 1 + kMixes + 1;
  const uint64_t hints =
      numbers * (GetParam().check_hints != nullptr ? 2 : 1) * GetParam().prefetches.size();
  EXPECT_EQ(checks.value(), GetParam().parallel ? numbers * (kMixes + 2) : sharing + hints);
}

TEST_P(TreeTest, AMeasurementCountsItsOperations) {
  const RunOptions options{.mix = Mixes()[1], .records = 1'000, .operations = 999, .seed = 3};
  std::vector<Measurement> measured;
  const Status status =
      GetParam().measure({&options, 1}, [&](const Measurement& run) { measured.push_back(run); });
  ASSERT_TRUE(status) << status.error().message;
  ASSERT_EQ(measured.size(), 1);
  EXPECT_EQ(measured[0].operations, 999);
  EXPECT_GT(measured[0].seconds, 0);
  EXPECT_GT(measured[0].processor_seconds, 0);
}

std::string TestName(const ::testing::TestParamInfo<TreeEntry>& info) {
  return std::string(info.param.name) +
         (info.param.fanout == 0 ? "" : "_" + std::to_string(info.param.fanout));
}

INSTANTIATE_TEST_SUITE_P(All, TreeTest, ::testing::ValuesIn(Trees().begin(), Trees().end()),
                         TestName);

// ---- trees with batched lookups of their own

// Counts what it is asked for.
class CountingTree : public SequentialTree<16> {
 public:
  static constexpr std::array<std::string_view, 2> kPrefetches = {"near", "far"};
  static constexpr size_t kDefaultPrefetch = 1;

  void FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values, uint32_t batch,
                size_t prefetch) const {
    for (size_t i = 0; i < keys.size(); ++i) values[i] = Get(keys[i]);
    calls.push_back({keys.size(), batch, prefetch});
  }

  struct Call {
    size_t keys;
    size_t batch;
    size_t prefetch;
    friend bool operator==(const Call&, const Call&) = default;
  };
  mutable std::vector<Call> calls;
};
static_assert(BatchingTree<CountingTree>);

TEST(RunnerTest, ATreeGetsKeysBatchAndPrefetchAsTheOptionsSay) {
  const RunOptions options{.mix = Mixes()[2],
                           .batch = 8,
                           .prefetch = "far",
                           .steps_per_call = 100,
                           .records = 300,
                           .operations = 250,
                           .seed = 1};
  CountingTree tree;
  ASSERT_TRUE(Load(tree, options));
  StepRunner<CountingTree> runner(tree, options);
  ASSERT_TRUE(runner.Run(DrawSteps(options)[0].measured));
  EXPECT_EQ(runner.wrong(), 0u);
  using Call = CountingTree::Call;
  EXPECT_EQ(tree.calls, (std::vector<Call>{{100, 8, 1}, {100, 8, 1}, {50, 8, 1}}));
}

// ---- the checks find what is wrong

// A map that breaks one rule.
enum class Fault { kLosesAKey, kKeepsTheFirstValue, kScanSkips, kGetRoundsUp };

template <Fault kFault>
class FaultyTree {
 public:
  static constexpr bool kManyThreads = true;

  void Insert(Key key, Value value) {
    const std::lock_guard lock(mutex_);
    if (kFault == Fault::kLosesAKey && map_.size() == 500) return;
    if (kFault == Fault::kKeepsTheFirstValue) {
      map_.emplace(key, value);
    } else {
      map_[key] = value;
    }
  }
  std::optional<Value> Get(Key key) const {
    const std::lock_guard lock(mutex_);
    const auto it = kFault == Fault::kGetRoundsUp ? map_.lower_bound(key) : map_.find(key);
    return it == map_.end() ? std::nullopt : std::optional(it->second);
  }
  size_t Scan(Key from, std::span<Entry> found) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (auto it = map_.lower_bound(from); it != map_.end() && count < found.size(); ++it) {
      found[count++] = {it->first, it->second};
      if (kFault == Fault::kScanSkips && count == 30 && std::next(it) != map_.end()) ++it;
    }
    return count;
  }

 private:
  mutable std::mutex mutex_;
  Reference map_;
};

TEST(CheckTest, FindsALostKey) {
  EXPECT_FALSE(CheckAlone(&MakeAnyTree<FaultyTree<Fault::kLosesAKey>>, {}, 1));
  EXPECT_FALSE(CheckMix<FaultyTree<Fault::kLosesAKey>>(
      {.mix = Mixes()[0], .threads = 2, .operations = 1'500, .seed = 1}));
}

TEST(CheckTest, FindsAValueThatWasNotReplaced) {
  EXPECT_FALSE(CheckAlone(&MakeAnyTree<FaultyTree<Fault::kKeepsTheFirstValue>>, {}, 1));
}

TEST(CheckTest, FindsAScanWithAGap) {
  EXPECT_FALSE(CheckAlone(&MakeAnyTree<FaultyTree<Fault::kScanSkips>>, {}, 1));
  EXPECT_FALSE(CheckContended(&MakeAnyTree<FaultyTree<Fault::kScanSkips>>, 2, 1));
}

TEST(CheckTest, FindsTheValueOfAnotherKey) {
  EXPECT_FALSE(CheckAlone(&MakeAnyTree<FaultyTree<Fault::kGetRoundsUp>>, {}, 1));
  EXPECT_FALSE(CheckContended(&MakeAnyTree<FaultyTree<Fault::kGetRoundsUp>>, 2, 1));
}

// ---- steps

TEST(StepsTest, ReadsFindLoadedKeysAndInsertsAreNew) {
  for (const Mix& mix : Mixes()) {
    for (const Distribution distribution : {Distribution::kUniform, Distribution::kZipfian}) {
      const RunOptions options{.mix = mix,
                               .distribution = distribution,
                               .threads = 3,
                               .records = 500,
                               .operations = 2'000,
                               .seed = 5};
      std::set<Key> loaded;
      for (uint64_t id = 0; id < mix.Loaded(500); ++id) loaded.insert(KeyOfRecord(id));
      std::set<Key> inserted;
      size_t measured = 0;
      for (const ThreadSteps& thread : DrawSteps(options)) {
        measured += thread.measured.size();
        for (const auto* steps : {&thread.warm_up, &thread.measured}) {
          for (const Step& step : *steps) {
            if (step.kind == BenchOperation::kInsert) {
              EXPECT_TRUE(inserted.insert(step.key).second);
              EXPECT_FALSE(loaded.contains(step.key));
            } else {
              EXPECT_TRUE(loaded.contains(step.key));
            }
          }
        }
      }
      EXPECT_EQ(measured, 2'000u) << mix.name;
    }
  }
}

TEST(SeparatorsTest, LookupsFindTheLeaves) {
  for (const uint64_t records : {1u, 2'000u, 300'000u}) {
    std::vector<RunOptions> runs;
    for (const uint32_t batch : {1u, 8u, 64u}) {
      for (const std::string_view prefetch : {"", "header", "payload"}) {
        runs.push_back({.mix = Mixes()[2],
                        .batch = batch,
                        .prefetch = prefetch,
                        .steps_per_call = 100,
                        .records = records,
                        .operations = 5'000,
                        .seed = records});
      }
    }
    size_t measured = 0;
    const Status status = MeasureSeparators(runs, [&](const Measurement& run) {
      ++measured;
      EXPECT_EQ(run.operations, 5'000u);
    });
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(measured, runs.size());
  }
}

// ---- flags

FlagValues Flags() { return {.threads = "1", .batch = "1", .records = 100, .seed = 42}; }

TEST(PlanTest, EveryCombinationRunsOnce) {
  FlagValues flags = Flags();
  flags.trees = "std_map";
  flags.threads = "1,2,2";
  flags.batch = "1,8";
  const auto runs = MakeRuns(flags);
  ASSERT_TRUE(runs) << runs.error().message;
  EXPECT_EQ(runs.value().size(), 7u * 2 * 2);
  EXPECT_EQ(runs.value()[0].options.operations, 100u);
}

TEST(PlanTest, WaysToPrefetchAreOfTreesThatHaveThem) {
  FlagValues flags = Flags();
  flags.trees = "std_map,olc";
  flags.fanout = "4";
  flags.workload = "insert_only";
  flags.prefetch = "off,whole";
  const auto runs = MakeRuns(flags);
  ASSERT_TRUE(runs) << runs.error().message;
  std::vector<std::string_view> prefetches;
  for (const PlannedRun& run : runs.value()) prefetches.push_back(run.options.prefetch);
  EXPECT_EQ(prefetches, (std::vector<std::string_view>{"", "", "whole"}));
  flags.prefetch = "all";
  EXPECT_THAT(MakeRuns(flags).error().message, HasSubstr("--prefetch=all is not one of off, none"));
}

TEST(PlanTest, PartitionsAreOfTreesThatHaveThem) {
  FlagValues flags = Flags();
  flags.trees = "std_map,bloom_partitioned";
  flags.fanout = "4";
  flags.workload = "insert_only";
  flags.partitions = "2,5";
  const auto runs = MakeRuns(flags);
  ASSERT_TRUE(runs) << runs.error().message;
  std::vector<uint32_t> partitions;
  for (const PlannedRun& run : runs.value()) partitions.push_back(run.options.partitions);
  EXPECT_EQ(partitions, (std::vector<uint32_t>{0, 2, 5}));
}

TEST(PlanTest, RunsThatOnlyReadShareATree) {
  FlagValues flags = Flags();
  flags.trees = "olc";
  flags.fanout = "4,16";
  flags.distribution = "uniform";
  flags.workload = "read_only,read_insert";
  flags.prefetch = "off,whole,header";
  const std::vector<PlannedRun> runs = MakeRuns(flags).value();
  ASSERT_EQ(runs.size(), 12u);
  const auto shared_from = [&](size_t first) {
    return SharingRuns(std::span(runs).subspan(first)).size();
  };
  EXPECT_EQ(shared_from(0), 3u) << "fanout 4";
  EXPECT_EQ(shared_from(3), 3u) << "fanout 16";
  EXPECT_EQ(shared_from(6), 1u) << "inserts";
}

TEST(PlanTest, ACombinationWithoutRunsIsExplained) {
  FlagValues flags = Flags();
  flags.trees = "std_map";
  flags.prefetch = "whole";
  EXPECT_THAT(MakeRuns(flags).error().message,
              HasSubstr("no tree of --trees=std_map runs with --threads=1 and --prefetch=whole"));
  flags = Flags();
  flags.trees = "sequential";
  flags.threads = "2";
  EXPECT_THAT(MakeRuns(flags).error().message,
              HasSubstr("no tree of --trees=sequential runs with --threads=2 and --prefetch=off"));
  flags = Flags();
  flags.trees = "partitioned";
  flags.fanout = "16";
  EXPECT_THAT(MakeRuns(flags).error().message,
              HasSubstr("no tree of --trees=partitioned has a fanout of --fanout=16"));
}

TEST(PlanTest, WrongFlagsAreExplained) {
  const auto sentence = [](const FlagValues& flags) {
    const auto runs = MakeRuns(flags);
    return runs ? "no error" : runs.error().message;
  };
  FlagValues flags = Flags();
  flags.trees = "std_map,oak";
  EXPECT_THAT(sentence(flags), HasSubstr("--trees=oak is not one of std_map, absl_btree"));
  flags = Flags();
  flags.workload = "c";
  EXPECT_THAT(sentence(flags), HasSubstr("--workload=c is not one of insert_only, read_insert"));
  flags = Flags();
  flags.threads = "0";
  EXPECT_THAT(sentence(flags), HasSubstr("'0' is not from 1 to 256"));
  flags = Flags();
  flags.batch = "8,many";
  EXPECT_THAT(sentence(flags), HasSubstr("--batch=8,many: 'many' is not from 1 to 10000000"));
  flags = Flags();
  flags.records = 0;
  EXPECT_THAT(sentence(flags), HasSubstr("--records=0 is not from 1 to"));
  flags = Flags();
  flags.theta = 1;
  EXPECT_THAT(sentence(flags), HasSubstr("is not between 0 and 1"));
}

TEST(ReportTest, ARowHasTheFieldsOfTheContract) {
  FlagValues flags = Flags();
  flags.trees = "std_map";
  const PlannedRun run = MakeRuns(flags).value().front();
  const auto json = ToJson({{}, {}, {{run, {1'000, 0.5, 0.4, 40}}}});
  EXPECT_EQ(json.at("schema"), 1);
  const auto& row = json.at("rows").at(0);
  for (const char* field :
       {"tree", "fanout", "partitions", "batch", "prefetch", "threads", "workload", "distribution",
        "records", "operations", "ops_per_second", "bytes_per_key"}) {
    EXPECT_TRUE(row.contains(field)) << field;
  }
  EXPECT_EQ(row.at("ops_per_second"), 2'000);
  EXPECT_EQ(row.at("processor_seconds"), 0.4);
}

}  // namespace
}  // namespace gossamer::lab
