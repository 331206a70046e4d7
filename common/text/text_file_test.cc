#include "common/text/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/test_support.h"

namespace gossamer {
namespace {

class ReadPasswordTest : public ::testing::Test {
 protected:
  Result<std::string> Read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return ReadPassword(path_);
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/password";
};

TEST_F(ReadPasswordTest, IsTheFirstLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"secret", "secret"}, {"two words\n", "two words"}, {" a \r\nb\n", " a "}};
  for (const auto& [text, password] : cases) EXPECT_EQ(Read(text).value(), password);
  EXPECT_EQ(Read("secret", 0444).value(), "secret");
}

TEST_F(ReadPasswordTest, SaysWhatIsWrong) {
  for (const char* const text : {"", "\n", "\r\nsecret\n"}) {
    EXPECT_EQ(Read(text).error().message, path_ + " has no password in its first line");
  }
  for (const mode_t mode : {0602u, 0620u}) {
    EXPECT_EQ(Read("secret", mode).error().message,
              "others may write to " + path_ + ": take that from them (chmod go-w)");
  }
  EXPECT_EQ(ReadPassword(path_ + ".none").error().message,
            "cannot read " + path_ + ".none: No such file or directory");
}

}  // namespace
}  // namespace gossamer
