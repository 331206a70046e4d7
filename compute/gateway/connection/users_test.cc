#include "compute/gateway/connection/users.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace gossamer::gateway {
namespace {

class UsersTest : public testing::Test {
 protected:
  ~UsersTest() override { unlink(path_.c_str()); }

  Status AddLines(const std::string& lines, mode_t mode = 0600) {
    std::ofstream(path_) << lines;
    chmod(path_.c_str(), mode);
    return users_.AddFile(path_);
  }
  // What is wrong with a file of these lines.
  std::string Wrong(const std::string& lines, mode_t mode = 0600) {
    users_ = Users();
    const Status added = AddLines(lines, mode);
    return added ? "" : added.error().message;
  }

  const std::string path_ = testing::TempDir() + "users_" + std::to_string(getpid());
  Users users_;
};

// `printf secret | sha256sum`
const std::string kDigestOfSecret =
    "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

TEST_F(UsersTest, WithoutUsersDefaultNeedsNoPassword) {
  EXPECT_TRUE(users_.empty());
  EXPECT_TRUE(users_.IsRight("default", "anything"));
  EXPECT_FALSE(users_.IsRight("anna", "anything"));
  EXPECT_EQ(users_.names(), std::vector<std::string>{"default"});
}

TEST_F(UsersTest, TakesTextAndDigests) {
  ASSERT_TRUE(
      AddLines("# comment\r\n\n  anna\topen sesame \r\nberta " + kDigestOfSecret + "\n#x y"));
  ASSERT_TRUE(users_.Add("default", "main"));
  EXPECT_EQ(users_.names(), (std::vector<std::string>{"anna", "berta", "default"}));
  EXPECT_TRUE(users_.IsRight("anna", "open sesame"));
  EXPECT_TRUE(users_.IsRight("berta", "secret"));
  EXPECT_TRUE(users_.IsRight("default", "main"));
  for (const std::string_view wrong :
       {std::string_view(), std::string_view("open sesam"), std::string_view("open sesame "),
        std::string_view("secret"), std::string_view(kDigestOfSecret)}) {
    EXPECT_FALSE(users_.IsRight("anna", wrong)) << wrong;
    EXPECT_FALSE(users_.IsRight("nobody", wrong)) << wrong;
  }
  EXPECT_FALSE(users_.IsRight("Anna", "open sesame"));
  EXPECT_FALSE(users_.IsRight("anna", std::string(Users::kMostPasswordBytes + 1, 'x')));
}

TEST_F(UsersTest, TakesCapitalsInDigests) {
  std::string digest = kDigestOfSecret;
  for (size_t i = 7; i < digest.size(); ++i) digest[i] = static_cast<char>(toupper(digest[i]));
  ASSERT_TRUE(AddLines("anna " + digest));
  EXPECT_TRUE(users_.IsRight("anna", "secret"));
}

TEST_F(UsersTest, SaysWhatIsWrong) {
  EXPECT_EQ(Wrong("# nobody\n"),
            path_ + " has no users: give each a line with a name and a password");
  EXPECT_EQ(Wrong("anna x\n\nanna y\n"),
            path_ + " line 3: user anna has two passwords: leave one of them out");
  const std::string empty = path_ + " line 1: user anna has an empty password: give it one";
  EXPECT_EQ(Wrong("anna \n"), empty);
  EXPECT_EQ(Wrong("anna sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            empty);
  const std::string zeros(62, '0');
  for (const std::string& digest : {std::string("12"), "+1" + zeros, "zz" + zeros, "000" + zeros}) {
    EXPECT_EQ(Wrong("anna sha256:" + digest),
              path_ + " line 1: give user anna 64 hexadecimal digits behind sha256:");
  }
  EXPECT_EQ(
      Wrong("anna " + std::string(513, 'x')),
      path_ + " line 1: the password of user anna is longer than 512 bytes: give a shorter one");
  for (const mode_t mode : {mode_t{0620}, mode_t{0602}}) {
    EXPECT_EQ(Wrong("anna x", mode),
              "others may write to " + path_ + ": take that from them (chmod go-w)");
  }
  unlink(path_.c_str());
  const Status missing = users_.AddFile(path_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "cannot read " + path_ + ": No such file or directory");
}

}  // namespace
}  // namespace gossamer::gateway
