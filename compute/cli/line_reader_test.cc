#include "compute/cli/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "common/testing/seed.h"

namespace gossamer::cli {
namespace {

using ::testing::ElementsAre;

// A file in memory.
class TextFile {
 public:
  explicit TextFile(std::string_view text) : fd_(memfd_create("lines", MFD_CLOEXEC)) {
    EXPECT_EQ(pwrite(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  ~TextFile() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::vector<std::string> Lines(std::string_view text, size_t max_line_bytes = 100) {
  const TextFile file(text);
  LineReader reader(file.fd(), max_line_bytes);
  std::vector<std::string> lines;
  for (;;) {
    switch (reader.Advance()) {
      case LineReader::Next::kLine: {
        lines.emplace_back(reader.line());
        if (!reader.terminated()) lines.back() += "<unterminated>";
        break;
      }
      case LineReader::Next::kTooLong: lines.emplace_back("<too long>"); break;
      case LineReader::Next::kEnd:
        EXPECT_EQ(reader.number(), lines.size());
        EXPECT_EQ(reader.bytes_read(), text.size());
        return lines;
      default: ADD_FAILURE() << reader.error(); return lines;
    }
  }
}

TEST(LineReader, SplitsAtNewlinesOnly) {
  EXPECT_THAT(Lines(""), ElementsAre());
  EXPECT_THAT(Lines("\n"), ElementsAre(""));
  EXPECT_THAT(Lines("a\r\n\nb\n"), ElementsAre("a\r", "", "b"));
  EXPECT_THAT(Lines("a\nb"), ElementsAre("a", "b<unterminated>"));
}

TEST(LineReader, PassesOverLinesThatAreTooLong) {
  EXPECT_THAT(Lines("12345\n123456\n12\n", 5), ElementsAre("12345", "<too long>", "12"));
  EXPECT_THAT(Lines("12\n" + std::string(3'000'000, 'x') + "\n34\n", 5),
              ElementsAre("12", "<too long>", "34"));
  EXPECT_THAT(Lines(std::string(3'000'000, 'x'), 5), ElementsAre("<too long>"));
}

TEST(LineReader, ReassemblesLinesAcrossBlocks) {
  std::mt19937_64 random(TestSeed());
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    expected.emplace_back(random() % (i % 100 == 0 ? 700'000 : 50),
                          static_cast<char>('a' + i % 26));
    text += expected.back() + "\n";
  }
  EXPECT_TRUE(Lines(text, 1'000'000) == expected);
}

TEST(LineReader, StopsWhileItWaits) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  ASSERT_EQ(write(pipe_fds[1], "one\ntw", 6), 6);
  Stop stop;
  LineReader reader(pipe_fds[0], 100, &stop);
  EXPECT_FALSE(reader.has_line());
  ASSERT_EQ(reader.Advance(), LineReader::Next::kLine);
  EXPECT_EQ(reader.line(), "one");
  EXPECT_FALSE(reader.has_line());
  std::thread other([&stop] { stop.Raise(SIGINT); });
  EXPECT_EQ(reader.Advance(), LineReader::Next::kStopped);
  other.join();
  EXPECT_EQ(stop.exit_code(), 130);
  stop.Reset();
  ASSERT_EQ(write(pipe_fds[1], "o\n", 2), 2);
  ASSERT_EQ(reader.Advance(), LineReader::Next::kLine);
  EXPECT_EQ(reader.line(), "two");
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(InputFile, SaysWhyItCannotBeOpened) {
  EXPECT_EQ(InputFile::Open("/absent/file").error().message,
            "cannot open /absent/file: No such file or directory");
  EXPECT_EQ(InputFile::Open("/").error().message, "/ is a directory, not a file");
}

}  // namespace
}  // namespace gossamer::cli
