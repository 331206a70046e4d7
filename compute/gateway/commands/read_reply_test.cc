#include "compute/gateway/commands/read_reply.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace gossamer::gateway {
namespace {

TEST(ReadReply, CountsHoweverLongTheValuesAre) {
  std::string out;
  const std::string value(200, 'v');
  ReadReply reply(*FindCommand("EXISTS"), 3, nullptr, out, false);
  reply.Add(std::string_view(value), {}, 0);
  reply.Add(MakeError(Code::kNotFound), {}, 0);
  reply.Add(std::string_view(value), {}, 0);
  EXPECT_FALSE(reply.is_refused());
  reply.End();
  EXPECT_EQ(out, ":2\r\n");
}

// As in Redis: clients take each element of MGET for a value.
TEST(ReadReply, AnErrorIsTheWholeReply) {
  std::string out;
  ReadReply exists(*FindCommand("EXISTS"), 2, nullptr, out, false);
  exists.Add(std::string_view("v"), {}, 0);
  exists.Add(MakeError(Code::kNodeUnreachable, "server 1 is gone"), {}, 0);
  EXPECT_TRUE(exists.is_refused());
  exists.End();
  EXPECT_EQ(out, "-UNREACHABLE server 1 is gone\r\n");
  out.clear();
  ReadReply mget(*FindCommand("MGET"), 3, nullptr, out, true);
  mget.Add(std::string_view("v"), {}, 0);
  mget.Add(MakeError(Code::kNodeUnreachable, "server 1 is gone"), {}, 0);
  EXPECT_TRUE(mget.is_refused());
  mget.End();
  EXPECT_EQ(out, "-UNREACHABLE server 1 is gone\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
