// What `size` estimates, against stores that hold all the records.
#include "compute/cli/size.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/program/flags_main.h"
#include "common/testing/seed.h"
#include "common/text/human.h"
#include "compute/cli/command.h"
#include "compute/cli/report.h"
#include "gossamer/store.h"

namespace gossamer::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a store of these parameters says of records that were put one at a time, in random order.
struct RealStore {
  CheckReport report;
  uint64_t live_bytes = 0;
  uint64_t memory_bytes = 0;

  RealStore(const SizeChoice& choice, const std::vector<std::string>& keys, size_t value_bytes,
            std::optional<double> sorted_fill = {}) {
    memory_bytes = choice.memory_bytes;
    LocalOptions options;
    options.memory_bytes = memory_bytes;
    options.parameters = choice.parameters;
    const auto store = Store::OpenLocal(options).value();
    const auto session = store->NewSession().value();
    const std::string value(value_bytes, 'x');
    if (sorted_fill) {
      std::vector<KeyValueView> pairs;
      for (const std::string& key : keys) pairs.push_back({key, value});
      EXPECT_TRUE(session->LoadSorted(pairs, *sorted_fill).status);
    } else {
      for (const std::string& key : keys) EXPECT_TRUE(session->Put(key, value));
    }
    report = store->Check([](uint64_t) {}).value();
    live_bytes = report.memory.at(0).live_bytes;
  }
};

// "user0000000123", in random order or sorted.
std::vector<std::string> UserKeys(size_t records, uint32_t key_bytes, bool sorted) {
  std::vector<std::string> keys(records);
  for (size_t i = 0; i < records; ++i) {
    keys[i] = fmt::format("user{:0{}}", i, key_bytes - 4);
  }
  if (!sorted) std::shuffle(keys.begin(), keys.end(), std::mt19937_64(TestSeed()));
  return keys;
}

std::vector<std::string> RandomKeys(size_t records, uint32_t key_bytes) {
  std::mt19937_64 random(TestSeed());
  std::vector<std::string> keys(records);
  for (std::string& key : keys) {
    for (uint32_t i = 0; i < key_bytes; ++i) key.push_back(static_cast<char>(random()));
  }
  return keys;
}

SizeOptions Records(uint64_t records, uint32_t key_bytes, uint32_t value_bytes) {
  SizeOptions options;
  options.records = records;
  options.key_bytes = key_bytes;
  options.value_bytes = value_bytes;
  return options;
}

void ExpectWithin(double estimate, double truth, double part, const char* what) {
  EXPECT_NEAR(estimate, truth, part * truth) << what;
}

TEST(Size, EachChoiceIsATenthNearTheTruthAtMost) {
  constexpr uint64_t kRecords = 50'000;
  for (const auto& [value_bytes, consecutive] :
       {std::pair(40u, true), std::pair(40u, false), std::pair(300u, true)}) {
    SizeOptions options = Records(kRecords, 14, value_bytes);
    options.consecutive_keys = consecutive;
    const Sizing sizing = Size(options).value();
    ASSERT_LT(sizing.measured_records, kRecords) << "nothing is extrapolated";
    for (const SizeChoice& choice : sizing.choices) {
      SCOPED_TRACE(fmt::format("values of {} B, {} keys, nodes of {} B, {}", value_bytes,
                               consecutive ? "consecutive" : "random", choice.parameters.node_bytes,
                               choice.is_inline ? "in leaves" : "in blocks"));
      const std::vector<std::string> keys =
          consecutive ? UserKeys(kRecords, 14, false) : RandomKeys(kRecords, 14);
      const RealStore real(choice, keys, value_bytes);
      const double node_bytes = choice.parameters.node_bytes;
      ExpectWithin(choice.record.leaves, real.report.leaf_bytes_per_key, 0.1, "leaves");
      // Nodes that random keys fill split at nearly the same time: before it they are full, after
      // it half full. The sample and the store are in different moments of that, so that the
      // estimate may be half or twice the truth. (Internal nodes are few.)
      const double internal = static_cast<double>(real.report.internal_nodes) * node_bytes;
      EXPECT_GE(choice.record.internal_nodes * kRecords, internal / 2);
      EXPECT_LE(choice.record.internal_nodes * kRecords, internal * 2);
      ExpectWithin(static_cast<double>(choice.used_bytes), static_cast<double>(real.live_bytes),
                   0.1, "all");
      EXPECT_EQ(choice.is_inline, real.report.blocks == 0);
    }
  }
}

TEST(Size, SortedRecordsTakeAsMuchAsTheFillSays) {
  constexpr uint64_t kRecords = 50'000;
  double last = 0;
  for (const double fill : {1.0, 0.4}) {
    SizeOptions options = Records(kRecords, 14, 10);
    options.node_bytes = 2048;
    options.order = "sorted";
    options.fill = fill;
    options.consecutive_keys = true;
    const Sizing sizing = Size(options).value();
    ASSERT_EQ(sizing.choices.size(), 1u);
    const RealStore real(sizing.choices[0], UserKeys(kRecords, 14, true), 10, fill);
    ExpectWithin(static_cast<double>(sizing.choices[0].used_bytes),
                 static_cast<double>(real.live_bytes), 0.1, "all");
    EXPECT_GT(sizing.choices[0].record.leaves, 1.2 * last);
    last = sizing.choices[0].record.leaves;
  }
}

TEST(Size, FewRecordsAreCountedExactly) {
  SizeOptions options = Records(300, 1, 20);
  EXPECT_FALSE(Size(options)) << "there are 256 keys of one byte";
  options.consecutive_keys = true;
  options.records = 11;
  EXPECT_FALSE(Size(options)) << "there are 10 decimal numbers of one byte";
  options.consecutive_keys = false;
  options.records = 256;
  EXPECT_EQ(Size(options).value().measured_records, 256u);
  options = Records(1, 32, kMaxValueBytes);
  const Sizing sizing = Size(options).value();
  EXPECT_EQ(sizing.choices[0].record.blocks, 1.25 * kMaxValueBytes) << "its size class";
}

TEST(Size, ConsecutiveKeysTakeLess) {
  SizeOptions options = Records(1'000'000, 32, 16);
  options.node_bytes = 1024;
  const double random = Size(options).value().choices[0].record.memory();
  options.consecutive_keys = true;
  const double consecutive = Size(options).value().choices[0].record.memory();
  EXPECT_LT(consecutive, 0.8 * random) << "leaves do not store what keys have in common";
}

TEST(Size, TheMoreRandomKeysTheMoreTheyShare) {
  SizeOptions options = Records(100'000, 8, 8);
  options.node_bytes = 1024;
  const double few = Size(options).value().choices[0].record.leaves;
  options.records = 100'000'000;
  const double many = Size(options).value().choices[0].record.leaves;
  EXPECT_LT(many, 0.95 * few);
}

TEST(Size, ComparesWhatIsLeftOpen) {
  const auto choices = [](SizeOptions options, std::optional<uint32_t> inline_value_bytes,
                          std::optional<uint32_t> node_bytes) {
    options.inline_value_bytes = inline_value_bytes;
    options.node_bytes = node_bytes;
    std::string text;
    const Sizing sizing = Size(options).value();
    for (const SizeChoice& choice : sizing.choices) {
      text += fmt::format("{}{} ", choice.is_inline ? "leaves" : "blocks",
                          choice.parameters.node_bytes);
    }
    return text + (sizing.refused.empty() ? "" : "refused");
  };
  EXPECT_EQ(choices(Records(10, 8, 16), {}, {}), "leaves512 leaves1024 leaves2048 ");
  EXPECT_EQ(choices(Records(10, 8, 17), {}, 1024), "leaves1024 blocks1024 ");
  EXPECT_EQ(choices(Records(10, 8, 65), {}, 1024), "blocks1024 ");
  EXPECT_EQ(choices(Records(10, 8, 40), 32, 4096), "blocks4096 ");
  EXPECT_EQ(choices(Records(10, 8, 40), 48, 4096), "leaves4096 ");
  SizeOptions smallest = Records(10, 8, 64);
  smallest.max_key_bytes = 32;  // more than nodes of 256 B can take, with such values in leaves
  EXPECT_EQ(choices(smallest, {}, 256), "blocks256 refused");
}

TEST(Size, RecommendsByItsRule) {
  const auto choice = [](uint32_t node_bytes, double get_round_trips, double bytes) {
    SizeChoice made;
    made.parameters.node_bytes = node_bytes;
    made.get_round_trips = get_round_trips;
    made.record.leaves = bytes;
    return made;
  };
  EXPECT_EQ(Recommend({choice(512, 1, 95), choice(1024, 1, 100)}), 1u) << "saves less than a tenth";
  EXPECT_EQ(Recommend({choice(512, 1, 85), choice(1024, 1, 100)}), 0u) << "saves more";
  EXPECT_EQ(Recommend({choice(1024, 1, 149), choice(1024, 2, 100)}), 0u) << "fewer round trips";
  EXPECT_EQ(Recommend({choice(1024, 1, 151), choice(1024, 2, 100)}), 1u) << "too much memory";
  EXPECT_EQ(Recommend({choice(1024, 1, 151), choice(512, 1, 140), choice(1024, 2, 100)}), 1u);
}

TEST(Size, TheMemoryHasHeadroomAndFitsServers) {
  for (const uint64_t records :
       {uint64_t{1'000}, uint64_t{10'000'000}, uint64_t{100'000'000'000}}) {
    SizeOptions options = Records(records, 16, 1000);
    options.node_bytes = 1024;
    const SizeChoice choice = Size(options).value().choices[0];
    const double all = static_cast<double>(choice.memory_bytes) * choice.servers;
    const auto used = static_cast<double>(choice.used_bytes);
    EXPECT_LE(used, 0.75 * all) << records;
    EXPECT_GE(used + (32 << 20), 0.65 * all) << "much more than needed: " << records;
    EXPECT_LE(choice.memory_bytes, uint64_t{8} << 40);
    EXPECT_EQ(choice.servers, records < 1'000'000'000 ? 1u : 17u);
  }
}

// Of 180,000 keys: paths of files, of all depths. Directories differ by much, so that it takes many
// ranges to be within a tenth of the truth whatever the seed.
std::vector<std::string> PathKeys() {
  // Always the same: how well a part of the directories stands for all is a matter of what they
  // are.
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  std::vector<std::string> keys;
  while (keys.size() < 180'000) {
    std::string directory = "/srv";
    for (uint64_t level = 0, levels = 1 + below(9); level < levels; ++level) {
      directory += fmt::format("/{}{}", level % 2 == 0 ? "packages-" : "lib", below(7 * levels));
    }
    for (uint64_t i = 0, files = 1 + below(40); i < files; ++i) {
      keys.push_back(
          fmt::format("{}/module_{:x}.{}", directory, below(5000), i % 3 == 0 ? "h" : "cc"));
    }
  }
  std::shuffle(keys.begin(), keys.end(), random);
  return keys;
}

// 100 sensors, in turn.
std::vector<std::string> SeriesKeys() {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 60'000; ++i) {
    keys.push_back(fmt::format("sensor:{:03}:{}", i % 100, 1'700'000'000'000 + i / 100 * 1000));
  }
  return keys;
}

class SizeFileTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& lines) {
    std::ofstream file(name_);
    for (const std::string& line : lines) file << line << '\n';
  }
  Result<Sample> SampleOf(uint64_t records, Arrival arrival) {
    return SampleOfFile(name_, LineForm::kEscaped, 250, {}, records, arrival);
  }

  ~SizeFileTest() override { std::remove(name_.c_str()); }

  const std::string name_ = fmt::format("{}gossamer_size_test_{}", ::testing::TempDir(), getpid());
};

TEST_F(SizeFileTest, AThirdOfTheRecordsTellsWhatAllTake) {
  StoreParameters parameters;
  for (const auto& [what, keys] :
       {std::pair("paths", PathKeys()), std::pair("series", SeriesKeys())}) {
    Write(keys);
    for (const Arrival arrival : {Arrival::kRandom, Arrival::kAscending, Arrival::kDescending,
                                  Arrival::kSorted, Arrival::kFile}) {
      SCOPED_TRACE(fmt::format("{}, order {}", what, static_cast<int>(arrival)));
      const auto fill = arrival == Arrival::kSorted ? std::optional(1.0) : std::nullopt;
      const Sample all = SampleOf(keys.size(), arrival).value();
      const Sample some = SampleOf(keys.size() / 3, arrival).value();
      ASSERT_EQ(all.records.size(), keys.size());
      ASSERT_EQ(some.all_records, keys.size());
      ASSERT_LT(some.records.size(), keys.size() / 2);
      const double truth = MeasureRecords(parameters, all.records, fill).value().memory();
      const double estimate = MeasureRecords(parameters, some.records, fill).value().memory();
      ExpectWithin(estimate, truth, 0.1, "memory");
    }
  }
}

TEST_F(SizeFileTest, TakesValuesAndOrderFromTheLines) {
  Write({"b\tvalue", "a", "c\\x41\t12"});
  const Sample sample = SampleOf(100, Arrival::kFile).value();
  ASSERT_EQ(sample.records.size(), 3u);
  EXPECT_EQ(sample.records[0].key, "b");
  EXPECT_EQ(sample.records[0].value_bytes, 5u);
  EXPECT_EQ(sample.records[2].key, "cA");
  EXPECT_EQ(sample.longest_value, 5u);
  EXPECT_EQ(SampleOf(100, Arrival::kDescending).value().records[0].key, "cA");
}

TEST_F(SizeFileTest, OneKeyAgainAndAgainIsNoReasonToTakeAllOfIt) {
  Write(std::vector<std::string>(5000, "k"));
  EXPECT_EQ(SampleOf(100, Arrival::kRandom).value().records.size(), 200u);
}

TEST_F(SizeFileTest, CountsAsManyRecordsAsAreSaid) {
  Write(SeriesKeys());
  SizeOptions options;
  options.keys_file = name_;
  options.value_bytes = 8;
  options.node_bytes = 1024;
  const Sizing lines = Size(options).value();
  EXPECT_EQ(lines.records, 60'000u);
  EXPECT_EQ(lines.value_bytes, 8.0);
  options.records = 600'000;
  const Sizing more = Size(options).value();
  ExpectWithin(static_cast<double>(more.choices[0].used_bytes),
               10 * static_cast<double>(lines.choices[0].used_bytes), 0.01, "ten times as many");
}

TEST_F(SizeFileTest, BadFilesAreTold) {
  const auto sentence = [&](const std::string& name) {
    SizeOptions options;
    options.keys_file = name;
    return Size(options).error().message;
  };
  EXPECT_THAT(sentence("/none"), HasSubstr("cannot open"));
  Write({});
  EXPECT_THAT(sentence(name_), HasSubstr("give a file that has lines"));
  EXPECT_THAT(sentence("-"), HasSubstr("cannot be a pipe"));
  Write({"good", "bad\\q"});
  EXPECT_THAT(sentence(name_), HasSubstr(" line 2: byte"));
  Write({std::string(251, 'k')});
  EXPECT_THAT(sentence(name_), HasSubstr("line 1: a key of 251 B is too long"));
}

class SizeCommandTest : public ::testing::Test {
 protected:
  int Run(const SizeOptions& size) {
    options_.size = size;
    std::ostringstream out;
    std::ostringstream err;
    const int exit_status = SizeCommand().run(
        Context{nullptr, nullptr, open_, options_, no_arguments_, out, err, stop_});
    out_ = out.str();
    err_ = err.str();
    return exit_status;
  }

  const OpenOptions open_;
  const std::vector<std::string> no_arguments_;
  const Stop stop_;
  CommandOptions options_;
  std::string out_;
  std::string err_;
};

TEST_F(SizeCommandTest, PrintsATableAndTheServersFlags) {
  ASSERT_EQ(Run(Records(100'000'000, 8, 8)), kExitSuccess);
  EXPECT_EQ(err_, "");
  EXPECT_THAT(
      out_,
      AllOf(HasSubstr("100,000,000 records: random keys of 8 B, values of 8 B"),
            HasSubstr("   1 RT   2 RT   recommended\n"), HasSubstr("\ngossamer-memory --memory="),
            HasSubstr("B --max_key_bytes=250 --inline_value_bytes=16 --node_bytes=")));
  std::istringstream lines(out_);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U) << line;
}

TEST_F(SizeCommandTest, PrintsJson) {
  options_.json = true;
  ASSERT_EQ(Run(Records(1'000'000, 8, 40)), kExitSuccess);
  const Json sizing = Json::parse(out_);
  EXPECT_EQ(sizing["records"], 1'000'000);
  ASSERT_EQ(sizing["choices"].size(), 6u);
  const Json& best = sizing["choices"].at(sizing["recommended"].get<size_t>());
  EXPECT_EQ(best["values_in_leaves"], true);
  EXPECT_EQ(best["get_round_trips"], 1);
  EXPECT_EQ(sizing["choices"][5]["get_round_trips"], 2);
  EXPECT_THAT(
      sizing["command"].get<std::string>(),
      HasSubstr(fmt::format("--inline_value_bytes={} --node_bytes={}",
                            best["inline_value_bytes"].get<int>(), best["node_bytes"].get<int>())));
}

TEST_F(SizeCommandTest, BadInputIsASentenceThatSaysWhatToDo) {
  const auto with = [](auto change) {
    SizeOptions options = Records(1000, 16, 16);
    change(options);
    return options;
  };
  const std::vector<std::pair<SizeOptions, std::string>> cases = {
      {with([](SizeOptions& o) { o.records = 0; }), "--records=N is missing"},
      {with([](SizeOptions& o) { o.key_bytes = {}; }), "--key_bytes=K is missing"},
      {with([](SizeOptions& o) { o.value_bytes = {}; }), "--value_bytes=V is missing"},
      {with([](SizeOptions& o) { o.key_bytes = 251; }), "--key_bytes=251: give 1 to 250"},
      {with([](SizeOptions& o) { o.key_bytes = 0; }), "--key_bytes=0: give 1 to 250"},
      {with([](SizeOptions& o) { o.max_key_bytes = 15; }), "give --max_key_bytes=16"},
      {with([](SizeOptions& o) { o.max_key_bytes = 65536; }), "--max_key_bytes=65536: give 1 to"},
      {with([](SizeOptions& o) { o.value_bytes = kMaxValueBytes + 1; }), "over several keys"},
      {with([](SizeOptions& o) { o.key_bytes = 1; }), "only 256 keys of --key_bytes=1"},
      {with([](SizeOptions& o) { o.node_bytes = 1000; }), "give a power of two between 256"},
      {with([](SizeOptions& o) { o.inline_value_bytes = 65; }), "give 0 to 64"},
      {with([](SizeOptions& o) { o.records = uint64_t{1} << 60; }), "give fewer records"},
      {with([](SizeOptions& o) { o.order = "upward"; }), "--order=upward is none; give random"},
      {with([](SizeOptions& o) { o.order = "file"; }), "give a file"},
      {with([](SizeOptions& o) { o.order = "random", o.sorted = true; }), "give one of them"},
      {with([](SizeOptions& o) { o.keys_file = "f"; }), "give neither --key_bytes"},
  };
  for (const auto& [options, sentence] : cases) {
    EXPECT_EQ(Run(options), kExitUsage) << sentence;
    EXPECT_EQ(out_, "");
    EXPECT_THAT(err_, AllOf(HasSubstr("gossamer: "), HasSubstr(sentence)));
  }
  options_.json = true;
  EXPECT_EQ(Run(cases[0].first), kExitUsage);
  EXPECT_EQ(Json::parse(out_)["error"]["code"], "InvalidArgument");
}

}  // namespace
}  // namespace gossamer::cli
