#include "compute/gateway/read_reply.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace gossamer::gateway {
namespace {

constexpr size_t kMost = 100;

TEST(ReadReply, IsRefusedOnceItIsTooLong) {
  std::string out = "+before\r\n";
  const std::string value(30, 'v');
  ReadReply reply(*FindCommand("MGET"), 1000, {}, out, false, kMost);
  size_t added = 0;
  while (!reply.is_refused() && added < 1000) {
    reply.Add(std::string_view(value));
    ++added;
  }
  reply.End();
  EXPECT_EQ(added, 3U);
  EXPECT_EQ(out, "+before\r\n-ERR the reply would be too long: ask for fewer keys at a time\r\n");
}

TEST(ReadReply, CountsHoweverLongTheValuesAre) {
  std::string out;
  const std::string value(2 * kMost, 'v');
  ReadReply reply(*FindCommand("EXISTS"), 3, {}, out, false, kMost);
  reply.Add(std::string_view(value));
  reply.Add(MakeError(Code::kNotFound));
  reply.Add(std::string_view(value));
  EXPECT_FALSE(reply.is_refused());
  reply.End();
  EXPECT_EQ(out, ":2\r\n");
}

// As in Redis: clients take each element of MGET for a value.
TEST(ReadReply, AnErrorIsTheWholeReply) {
  std::string out;
  ReadReply exists(*FindCommand("EXISTS"), 2, {}, out, false);
  exists.Add(std::string_view("v"));
  exists.Add(MakeError(Code::kNodeUnreachable, "server 1 is gone"));
  EXPECT_TRUE(exists.is_refused());
  exists.End();
  EXPECT_EQ(out, "-UNREACHABLE server 1 is gone\r\n");
  out.clear();
  ReadReply mget(*FindCommand("MGET"), 3, {}, out, true);
  mget.Add(std::string_view("v"));
  mget.Add(MakeError(Code::kNodeUnreachable, "server 1 is gone"));
  EXPECT_TRUE(mget.is_refused());
  mget.End();
  EXPECT_EQ(out, "-UNREACHABLE server 1 is gone\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
