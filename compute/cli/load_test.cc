#include "compute/cli/load.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>

#include "common/testing/seed.h"
#include "common/text/escape.h"
#include "compute/testing/fake_store.h"

namespace gossamer::cli {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

class LoadTest : public ::testing::Test {
 protected:
  ~LoadTest() override { std::remove(path_.c_str()); }

  LoadReport LoadText(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    Result<InputFile> file = InputFile::Open(path_);
    EXPECT_TRUE(file.has_value());
    return Load(store_, file.value(), options_, stop_,
                [this](const LoadError& error) { skipped_.push_back(error); });
  }
  FakeStore::State& state() { return store_.state(); }

  const std::string path_ = fmt::format("{}gossamer_load_test_{}", ::testing::TempDir(), getpid());
  FakeStore store_;
  Stop stop_;
  LoadOptions options_;
  std::vector<LoadError> skipped_;
};

TEST_F(LoadTest, LinesOfEveryKind) {
  const LoadReport report =
      LoadText("a\t1\nlone\nempty value\t\n\tempty key\ncol\t2\t3\nq\\t\\x00\t\\n\n");
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.lines, 6U);
  EXPECT_EQ(report.loaded, 6U);
  EXPECT_EQ(report.inserted, 6U);
  EXPECT_EQ(report.overwritten, 0U);
  EXPECT_FALSE(report.last_line_unterminated);
  EXPECT_FALSE(report.resume_line.has_value());
  EXPECT_THAT(state().map,
              ElementsAre(Pair("", "empty key"), Pair("a", "1"), Pair("col", "2\t3"),
                          Pair("empty value", ""), Pair("lone", ""), Pair("q\t\0"s, "\n")));
}

TEST_F(LoadTest, RawLinesHaveNoEscapes) {
  options_.form = LineForm::kRaw;
  const LoadReport report = LoadText("C:\\temp\\\\x\tD:\\new\\\nends in \\\n\\x4\t\\\t\\\n");
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(state().map, ElementsAre(Pair("C:\\temp\\\\x", "D:\\new\\"), Pair("\\x4", "\\\t\\"),
                                       Pair("ends in \\", "")));
}

TEST_F(LoadTest, SortedLinesAreLoadedInOrder) {
  options_.sorted = true;
  options_.threads = 3;
  std::string text;
  for (int line = 0; line < 30'000; ++line) text += fmt::format("key{:06}\t{}\n", line / 2, line);
  const LoadReport report = LoadText(text);
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.loaded, 30'000U);
  EXPECT_EQ(state().map.size(), 15'000U);
  EXPECT_EQ(state().map.find("key000007")->second, "15") << "the later line of a key wins";
}

TEST_F(LoadTest, ALineThatIsNotSortedEndsASortedLoadBehindAllLinesBeforeIt) {
  options_.sorted = true;
  options_.skip_errors = true;  // it is no bad line
  const LoadReport report = LoadText("a\t1\nb\t2\nd\t3\nc\t4\ne\t5\n");
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.loaded, 3U);
  ASSERT_TRUE(report.error.has_value());
  EXPECT_EQ(report.error->line, 4U);
  EXPECT_EQ(report.error->error.code, Code::kInvalidArgument);
  EXPECT_THAT(report.error->error.message, HasSubstr("less than that of a line before"));
  EXPECT_EQ(report.resume_line, 4U);
  EXPECT_THAT(state().map, ElementsAre(Pair("a", "1"), Pair("b", "2"), Pair("d", "3")));
}

TEST_F(LoadTest, AFailedSortedLoadTellsWhereToGoOn) {
  options_.sorted = true;
  state().max_keys = 2;
  const LoadReport report = LoadText("a\t1\nb\t2\nc\t3\nd\t4\n");
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.loaded, 2U);
  EXPECT_EQ(report.error->line, 3U);
  EXPECT_EQ(report.resume_line, 3U);
}

TEST_F(LoadTest, AscendingLinesAreLoadedAsSortedOnes) {
  for (const uint32_t threads : {1U, 3U}) {
    options_.threads = threads;
    state().map.clear();
    state().loaded_sorted = 0;
    std::string text;
    for (int line = 0; line < 30'000; ++line) text += fmt::format("key{:06}\t{}\n", line, line);
    EXPECT_EQ(LoadText(text).loaded, 30'000U);
    EXPECT_EQ(state().loaded_sorted, 30'000U);
    // Then others, of the same keys.
    for (int line = 29'999; line >= 0; --line) text += fmt::format("key{:06}\tlater\n", line);
    EXPECT_EQ(LoadText(text).loaded, 60'000U);
    EXPECT_LE(state().loaded_sorted, 60'000U);
    EXPECT_GE(state().loaded_sorted, 30'000U + 24'000U);
    EXPECT_EQ(state().map.size(), 30'000U);
    for (const auto& [key, value] : state().map) ASSERT_EQ(value, "later") << key;
  }
}

TEST_F(LoadTest, LaterLineOfAKeyWins) {
  std::mt19937_64 random(TestSeed());
  for (const uint32_t threads : {1U, 3U}) {
    options_.threads = threads;
    state().seed = TestSeed();
    state().map.clear();
    std::string text;
    std::map<std::string, std::string, std::less<>> expected;
    for (int line = 0; line < 30'000; ++line) {
      const std::string key = fmt::format("key{}", random() % (line % 2 == 0 ? 20 : 5000));
      expected[key] = std::to_string(line);
      text += fmt::format("{}\t{}\n", key, line);
    }
    const LoadReport report = LoadText(text);
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.loaded, 30'000U);
    EXPECT_EQ(report.inserted + report.overwritten, 30'000U);
    EXPECT_TRUE(state().map == expected);
    EXPECT_FALSE(state().overlapping_writes);
  }
}

TEST_F(LoadTest, ArbitraryBytesRoundTrip) {
  std::mt19937_64 random(TestSeed());
  std::map<std::string, std::string, std::less<>> expected;
  std::string text;
  for (int line = 0; line < 3000; ++line) {
    std::string key(random() % 251, '\0');
    std::string value(random() % (line % 100 == 0 ? 20'000 : 30), '\0');
    for (char& byte : key) byte = static_cast<char>(random());
    for (char& byte : value) byte = static_cast<char>(random());
    expected[key] = value;
    text += Escaped(key) + "\t" + Escaped(value) + "\n";
  }
  EXPECT_TRUE(LoadText(text).complete());
  EXPECT_TRUE(state().map == expected);
}

TEST_F(LoadTest, LastLineWithoutNewlineIsLoadedAndReported) {
  const LoadReport report = LoadText("a\t1\nb\t2");
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(report.last_line_unterminated);
  EXPECT_THAT(state().map, ElementsAre(Pair("a", "1"), Pair("b", "2")));
}

TEST_F(LoadTest, DanglingEscapeAtTheEndNamesLineAndByte) {
  for (const char* tail : {"\\", "\\x", "\\x4"}) {
    state().map.clear();
    const LoadReport report = LoadText("a\t1\nb\t2\nkey\tva"s + tail);
    ASSERT_TRUE(report.error.has_value());
    EXPECT_EQ(report.error->line, 3U);
    EXPECT_THAT(report.error->error.message, StartsWith("byte 7: "));
    EXPECT_THAT(report.error->error.message, HasSubstr("cut off"));
    EXPECT_EQ(report.loaded, 2U);
    EXPECT_EQ(report.resume_line, 4U);
    EXPECT_THAT(state().map, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  }
}

TEST_F(LoadTest, LimitsAreErrorsOfTheirLine) {
  const std::string long_key(251, 'k');
  LoadReport report = LoadText("a\t1\n" + long_key + "\tv\nc\t3\n");
  EXPECT_EQ(report.error->line, 2U);
  EXPECT_EQ(report.error->error.message,
            "a key of 251 B is too long: this store takes up to 250 B");
  EXPECT_EQ(report.loaded, 1U);

  report = LoadText("a\t1\nb\t" + std::string(kMaxValueBytes + 1, 'v') + "\n");
  EXPECT_EQ(report.error->line, 2U);
  EXPECT_THAT(report.error->error.message, StartsWith("a value of 1,048,577 B is too long"));

  report = LoadText("a\t1\nb\t" + std::string(5 << 20, 'v') + "\nc\n");
  EXPECT_EQ(report.error->line, 2U);
  EXPECT_EQ(report.resume_line, 3U);

  report = LoadText("b\t" + std::string(kMaxValueBytes, 'v') + "\n");
  EXPECT_TRUE(report.complete()) << "the greatest value must pass";
}

TEST_F(LoadTest, SkippingGoesOnAndReportsEachLine) {
  options_.skip_errors = true;
  const LoadReport report = LoadText("a\n\\q\n" + std::string(251, 'k') + "\nb\n");
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.skipped, 2U);
  EXPECT_EQ(report.loaded, 2U);
  EXPECT_EQ(report.lines, 4U);
  ASSERT_EQ(skipped_.size(), 2U);
  EXPECT_EQ(skipped_[0].line, 2U);
  EXPECT_EQ(skipped_[1].line, 3U);
}

TEST_F(LoadTest, FullMemorySaysHowFarItCameAndCanGoOn) {
  state().max_keys = 1000;
  std::string text;
  for (int line = 1; line <= 5000; ++line) text += fmt::format("key{}\n", line);
  LoadReport report = LoadText(text);
  ASSERT_TRUE(report.error.has_value());
  EXPECT_EQ(report.error->error.code, Code::kExhausted);
  EXPECT_EQ(report.loaded, 1000U);
  ASSERT_TRUE(report.resume_line.has_value());
  EXPECT_LE(*report.resume_line, 1001U);
  EXPECT_EQ(report.stored_ahead, *report.resume_line < 1001U);
  for (uint64_t line = 1; line < *report.resume_line; ++line) {
    EXPECT_TRUE(state().map.contains(fmt::format("key{}", line)));
  }

  state().max_keys = 5000;  // memory was added
  options_.from_line = *report.resume_line;
  report = LoadText(text);
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(state().map.size(), 5000U);
}

TEST_F(LoadTest, StopFinishesWhatIsInFlight) {
  options_.threads = 2;
  state().after_put = [this](uint64_t puts) {
    if (puts == 2000) stop_.Raise(SIGINT);
  };
  std::string text;
  for (int line = 1; line <= 100'000; ++line) text += fmt::format("key{}\n", line);
  const LoadReport report = LoadText(text);
  EXPECT_TRUE(report.stopped);
  EXPECT_FALSE(report.complete());
  EXPECT_FALSE(report.error.has_value());
  EXPECT_EQ(report.loaded, state().map.size());
  EXPECT_LT(report.loaded, 2000U + 2 * 4096 + 1) << "a batch of each thread";
  ASSERT_TRUE(report.resume_line.has_value());
  for (uint64_t line = 1; line < *report.resume_line; ++line) {
    EXPECT_TRUE(state().map.contains(fmt::format("key{}", line)));
  }
  EXPECT_FALSE(state().map.contains(fmt::format("key{}", *report.resume_line)));
}

TEST_F(LoadTest, StoreThatFailsAtOnceLosesNoLine) {
  state().fail_with = MakeError(Code::kNodeUnreachable, "memory server 1 is gone");
  const LoadReport report = LoadText("a\nb\nc\n");
  EXPECT_EQ(report.loaded, 0U);
  EXPECT_EQ(report.resume_line, 1U);
  EXPECT_FALSE(report.stored_ahead);
  EXPECT_EQ(report.error->line, 1U);
  EXPECT_EQ(report.error->error.code, Code::kNodeUnreachable);
}

}  // namespace
}  // namespace gossamer::cli
