#include "compute/cli/repl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <sstream>

namespace gossamer::cli {
namespace {

using ::testing::ElementsAre;

class Script : public LineSource {
 public:
  Script(std::deque<std::string> lines, bool interactive)
      : lines_(std::move(lines)), interactive_(interactive) {}

  std::optional<std::string> Next() override {
    if (lines_.empty()) return std::nullopt;
    std::string line = lines_.front();
    lines_.pop_front();
    return line;
  }
  const std::string& error() const override { return error_; }
  bool interactive() const override { return interactive_; }

  std::string error_;

 private:
  std::deque<std::string> lines_;
  const bool interactive_;
};

class ReplTest : public ::testing::Test {
 protected:
  int Run(Script script) {
    return RunRepl(script, stop_, err_, [this](const std::vector<std::string>& words) {
      std::string all;
      for (const std::string& word : words) all += "<" + word + ">";
      ran_.push_back(all);
      if (words.front() == "interrupted") stop_.Raise(SIGINT);
      return words.front() == "fail" ? std::stoi(words.at(1)) : 0;
    });
  }

  Stop stop_;
  std::ostringstream err_;
  std::vector<std::string> ran_;
};

TEST(SplitWords, BlanksAndQuotes) {
  EXPECT_THAT(SplitWords("").value(), ElementsAre());
  EXPECT_THAT(SplitWords("  put  a\tb ").value(), ElementsAre("put", "a", "b"));
  EXPECT_THAT(SplitWords("put 'a b' \"it's\" \\t").value(),
              ElementsAre("put", "a b", "it's", "\\t"));
  EXPECT_THAT(SplitWords("scan --prefix='a b'x ''").value(),
              ElementsAre("scan", "--prefix=a bx", ""));
  EXPECT_EQ(SplitWords("put 'a b").error().message, "the quote ' at column 5 is not closed");
}

TEST_F(ReplTest, RunsEveryLineUntilExit) {
  EXPECT_EQ(Run(Script({"get a", "", "# remark", "put b 'c d'", "exit", "get e"}, false)), 0);
  EXPECT_THAT(ran_, ElementsAre("<get><a>", "<put><b><c d>"));
}

TEST_F(ReplTest, PipeFailsWithTheFirstFailureButRunsAll) {
  EXPECT_EQ(Run(Script({"fail 1", "fail 2", "get 'x", "get a"}, false)), 1);
  EXPECT_EQ(ran_.size(), 3U);
  EXPECT_EQ(err_.str(), "gossamer: the quote ' at column 5 is not closed\n");
}

TEST_F(ReplTest, PersonMayErr) { EXPECT_EQ(Run(Script({"fail 1", "get a"}, true)), 0); }

TEST_F(ReplTest, InterruptEndsTheCommandOfAPersonAndTheWholePipe) {
  EXPECT_EQ(Run(Script({"interrupted", "get a"}, true)), 0);
  EXPECT_EQ(ran_.size(), 2U);
  EXPECT_EQ(Run(Script({"interrupted", "get a"}, false)), 130);
  EXPECT_EQ(ran_.size(), 3U);
}

TEST_F(ReplTest, BrokenInputIsAFailure) {
  Script script({"get a"}, false);
  script.error_ = "cannot read standard input: gone";
  EXPECT_EQ(Run(script), 1);
  EXPECT_EQ(err_.str(), "gossamer: cannot read standard input: gone\n");
}

}  // namespace
}  // namespace gossamer::cli
