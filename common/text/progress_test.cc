#include "common/text/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gossamer {
namespace {

using ::testing::ElementsAre;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions Options(bool terminal, uint64_t total = 0) {
    ProgressOptions options;
    options.verb = "loading";
    options.unit = "lines";
    options.total = total;
    options.seconds = [this] { return now_; };
    options.write = [this](std::string_view text) { written_.emplace_back(text); };
    options.is_terminal = [terminal] { return terminal; };
    return options;
  }

  double now_ = 100;
  std::vector<std::string> written_;
};

TEST_F(ProgressTest, ShortWorkIsSilent) {
  {
    Progress progress(Options(true));
    now_ += 0.9;
    progress.Update(1'000'000);
  }
  EXPECT_TRUE(written_.empty());
}

TEST_F(ProgressTest, PipeGetsWholeLinesNowAndThen) {
  {
    Progress progress(Options(false, 10'000));
    for (int step = 0; step < 50; ++step) {
      now_ += 0.125;  // exact in binary: the clock does not drift
      progress.Update(static_cast<uint64_t>(step + 1) * 125);
    }
  }
  ASSERT_EQ(written_.size(), 2U);
  EXPECT_EQ(written_[0], "loading: 1,000 of 10,000 lines (10 %), 1.00 k/s, 1.00 s\n");
  for (const std::string& line : written_) EXPECT_EQ(line.back(), '\n');
}

TEST_F(ProgressTest, TerminalSeesOneLineThatIsTakenAway) {
  {
    Progress progress(Options(true));
    now_ += 2;
    progress.Update(3000);
    now_ += 0.01;
    progress.Update(3001);
    now_ += 0.1;
    progress.Update(3100);
    progress.Finish();
    now_ += 5;
    progress.Update(4000);
  }
  EXPECT_THAT(written_,
              ElementsAre("\r\x1b[Kloading: 3,000 lines, 1.50 k/s, 2.00 s",
                          ::testing::StartsWith("\r\x1b[Kloading: 3,100 lines, "), "\r\x1b[K"));
}

TEST_F(ProgressTest, DisabledWritesNothing) {
  ProgressOptions options = Options(true);
  options.enabled = false;
  Progress progress(options);
  now_ += 10;
  progress.Update(5);
  EXPECT_TRUE(written_.empty());
}

}  // namespace
}  // namespace gossamer
