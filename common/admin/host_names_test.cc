#include "common/admin/host_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace gossamer {
namespace {

TEST(HostNamesTest, AddressesAndThisMachineAreServed) {
  std::array<char, 256> own{};
  ASSERT_EQ(gethostname(own.data(), own.size() - 1), 0);
  for (const std::string& host : std::vector<std::string>{
           "", "127.0.0.1", "127.0.0.1:7500", "10.0.0.3:7500", "[::1]", "[::1]:7500", "127.0.0.1.",
           "localhost", "LocalHost:7500", "localhost.:7500", own.data()}) {
    EXPECT_TRUE(IsServedHost(host, {})) << host;
  }
}

TEST(HostNamesTest, OtherNamesAreServedIfTheyAreGiven) {
  for (const std::string& host : std::vector<std::string>{
           "evil.example", "evil.example:7500", "127.0.0.1.evil.example", "localhost.evil.example",
           "[evil.example]", "[::1", "1.2.3", "xlocalhost", ":", "."}) {
    EXPECT_FALSE(IsServedHost(host, {})) << host;
  }
  const std::vector<std::string> names = SplitAtCommas("db-1.example,,Db-2.example");
  EXPECT_EQ(names, (std::vector<std::string>{"db-1.example", "Db-2.example"}));
  EXPECT_TRUE(IsServedHost("DB-1.example:7500", names));
  EXPECT_TRUE(IsServedHost("db-2.example.", names));
  EXPECT_FALSE(IsServedHost("db-3.example", names));
  EXPECT_TRUE(SplitAtCommas("").empty());
}

}  // namespace
}  // namespace gossamer
