// The bench's client of memcached, against packets that a test makes up.
// scripts/tests/compare_gateway_test runs it on a server.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "compute/bench/redis/memcached_packets.h"

namespace gossamer::bench {
namespace {

using namespace std::string_literals;

std::string Together(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts) whole += part;
  return whole;
}

// An answer in one packet.
std::string Answer(char opcode, char status, char opaque, std::string_view extras,
                   std::string_view key, std::string_view value) {
  std::string head(24, '\0');
  head[0] = '\x81';
  head[1] = opcode;
  head[3] = static_cast<char>(key.size());
  head[4] = static_cast<char>(extras.size());
  head[7] = status;
  head[11] = static_cast<char>(extras.size() + key.size() + value.size());
  head[15] = opaque;
  return Together({head, extras, key, value});
}

const std::string kNoop = Answer('\x0a', 0, 0, "", "", "");

TEST(MemcachedPacketsTest, RequestsHaveTheirGoldenBytes) {
  std::string out;
  AppendRequest(out, MemcachedOpcode::kGet, "Hello");
  EXPECT_EQ(out, Together({"\x80\0\0\x05\0\0\0\0\0\0\0\x05"s, std::string(12, '\0'), "Hello"}));
  out.clear();
  AppendRequest(out, MemcachedOpcode::kQuietSet, "k", "ab", 0x01020304);
  EXPECT_EQ(out,
            "\x80\x11\0\x01\x08\0\0\0\0\0\0\x0b\x01\x02\x03\x04"s + std::string(16, '\0') + "kab");
}

TEST(MemcachedPacketsTest, AnswersEndWhereTheyEndHoweverMuchHasArrived) {
  const std::string hit = Answer('\x09', 0, 1, "\0\0\0\0"s, "", "value");
  for (const std::string& answer :
       {kNoop, Answer('\0', 0, 0, "\0\0\0\0"s, "", "one"), Answer('\0', 1, 0, "", "", "Not found"),
        Together({hit, hit, kNoop}), Together({Answer('\x11', 3, 0, "", "", "Too large."), kNoop}),
        Together({Answer('\x10', 0, 0, "", "pid", "7"), Answer('\x10', 0, 0, "", "", "")})}) {
    for (size_t bytes = 0; bytes < answer.size(); ++bytes) {
      EXPECT_EQ(FindPacketsEnd(std::string_view(answer).substr(0, bytes)).kind,
                ReplyEnd::Kind::kNeedMore)
          << bytes;
    }
    const ReplyEnd end = FindPacketsEnd(Together({answer, kNoop}));
    EXPECT_EQ(end.kind, ReplyEnd::Kind::kWhole);
    EXPECT_EQ(end.bytes, answer.size());
  }
}

TEST(MemcachedPacketsTest, AnotherProtocolIsGarbled) {
  EXPECT_EQ(FindPacketsEnd("ERROR\r\n").kind, ReplyEnd::Kind::kGarbled);
  std::string long_key = kNoop;
  long_key[3] = 1;  // in a packet without a body
  EXPECT_EQ(FindPacketsEnd(long_key).kind, ReplyEnd::Kind::kGarbled);
  std::string long_body = kNoop;
  long_body[8] = '\x7f';
  EXPECT_EQ(FindPacketsEnd(long_body).kind, ReplyEnd::Kind::kGarbled);
}

TEST(MemcachedPacketsTest, PacketsAreReadInTurn) {
  PacketReader reader(std::string_view{});
  EXPECT_FALSE(reader.has_next());
  const std::string answer = Together({Answer('\x09', 0, 5, "\0\0\0\0"s, "", "a\0b"s), kNoop});
  reader = PacketReader(answer);
  ASSERT_TRUE(reader.has_next());
  const MemcachedPacket hit = reader.Next();
  EXPECT_EQ(hit.opcode, MemcachedOpcode::kQuietGet);
  EXPECT_EQ(hit.status, kMemcachedOk);
  EXPECT_EQ(hit.opaque, 5u);
  EXPECT_EQ(hit.value, "a\0b"s);
  ASSERT_TRUE(reader.has_next());
  EXPECT_EQ(reader.Next().opcode, MemcachedOpcode::kNoop);
  EXPECT_FALSE(reader.has_next());
}

}  // namespace
}  // namespace gossamer::bench
