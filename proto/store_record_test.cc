#include "proto/store_record.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gossamer {
namespace {

using ::testing::HasSubstr;

StoreRecord TwoServers() {
  StoreRecord record{"default", 0x00d1ce5eed5a1ad5, "verbs", {1024, 32, 16}, 3, {}};
  record.servers.push_back(
      {ServerId{0}, 0x1f, "ant", "0b5a/4026531836/812/99120", "10.0.0.1:7471"});
  record.servers.push_back({ServerId{2}, ~uint64_t{0}, "bee", "-", "10.0.0.2:7471"});
  return record;
}

constexpr std::string_view kGolden =
    "gossamer-store 1\n"
    "store=default\n"
    "store_id=00d1ce5eed5a1ad5\n"
    "fabric=verbs\n"
    "node_bytes=1024\n"
    "max_key_bytes=32\n"
    "inline_value_bytes=16\n"
    "next_server=3\n"
    "server=0 incarnation=000000000000001f host=ant process=0b5a/4026531836/812/99120 "
    "address=10.0.0.1:7471\n"
    "server=2 incarnation=ffffffffffffffff host=bee process=- address=10.0.0.2:7471\n";

std::string ProblemOf(std::string_view text) {
  std::string problem;
  EXPECT_FALSE(ParseStoreRecord(text, problem).has_value()) << text;
  return problem;
}

std::string Golden(std::string_view replace, std::string_view by) {
  std::string text(kGolden);
  const size_t at = text.find(replace);
  EXPECT_NE(at, std::string::npos) << replace;
  return text.replace(at, replace.size(), by);
}

TEST(StoreRecord, TextIsPinned) { EXPECT_EQ(EncodeStoreRecord(TwoServers()), kGolden); }

TEST(StoreRecord, RoundTrips) {
  std::string problem;
  EXPECT_EQ(ParseStoreRecord(kGolden, problem), TwoServers()) << problem;
}

TEST(StoreRecord, SaysWhetherItWasRestored) {
  StoreRecord record = TwoServers();
  record.restored = 0xab;
  const std::string text = Golden("next_server=3\n", "next_server=3\nrestored=00000000000000ab\n");
  EXPECT_EQ(EncodeStoreRecord(record), text);
  std::string problem;
  EXPECT_EQ(ParseStoreRecord(text, problem), record) << problem;
  EXPECT_THAT(ProblemOf(Golden("next_server=3\n", "next_server=3\nrestored=0000000000000000\n")),
              HasSubstr("restored=0 stands for no such line"));
}

TEST(StoreRecord, SaysWhatIsSaved) {
  StoreRecord record = TwoServers();
  record.awaited = {{ServerId{1}, 0xcd}};
  record.save = 0xef;
  record.servers[0].formats = "store-5,region-1,saved-1";
  record.servers[0].region = "/dev/shm/r";
  record.servers[0].saved = 0xcd;
  record.servers[1].saved = 0;
  record.servers[1].stop = true;
  std::string text = Golden("next_server=3\n",
                            "next_server=3\nawaits=1:00000000000000cd\nsave=00000000000000ef\n");
  text.insert(text.find("\nserver=2"),
              " formats=store-5,region-1,saved-1 region=/dev/shm/r saved=00000000000000cd");
  text.insert(text.size() - 1, " saved=0000000000000000 stop");
  EXPECT_EQ(EncodeStoreRecord(record), text);
  std::string problem;
  EXPECT_EQ(ParseStoreRecord(text, problem), record) << problem;
  EXPECT_THAT(ProblemOf(Golden("next_server=3\n",
                               "next_server=3\nsave=00000000000000ef\n"
                               "awaits=1:00000000000000cd\n")),
              HasSubstr("line 10: expected"));
  for (const char* wrong :
       {"awaits=1:0000000000000000\n", "awaits=3:00000000000000cd\n", "awaits=2:00000000000000cd\n",
        "awaits=1:00000000000000cd\nawaits=1:00000000000000cd\n", "awaits=1\n", "awaits=:\n"}) {
    EXPECT_NE(ProblemOf(Golden("next_server=3\n", std::string("next_server=3\n") + wrong)), "")
        << wrong;
  }
}

TEST(StoreRecord, ReadsTheSetOfAnEarlierVersion) {
  StoreRecord record = TwoServers();
  const std::string text = Golden("next_server=3\n", "next_server=3\nset=00000000000000cd\n");
  std::string problem;
  const std::optional<StoreRecord> read = ParseStoreRecord(text, problem);
  ASSERT_TRUE(read) << problem;
  record.awaited = {{ServerId{1}, 0xcd}};
  EXPECT_EQ(*read, record);
}

TEST(StoreRecord, SaysWhatIsWrong) {
  EXPECT_THAT(ProblemOf(""), HasSubstr("line 1: expected \"gossamer-store 1\""));
  EXPECT_THAT(ProblemOf(Golden("gossamer-store 1", "gossamer-store 2")), HasSubstr("line 1"));
  EXPECT_THAT(ProblemOf(Golden("gossamer-store 1", "gossamer-store 10")), HasSubstr("line 1"));
  EXPECT_THAT(ProblemOf(Golden("store=default", "store=def ault")), HasSubstr("line 2"));
  EXPECT_THAT(ProblemOf(Golden("store=default", "store=../x")), HasSubstr("A-Za-z0-9"));
  EXPECT_THAT(ProblemOf(Golden("00d1ce", "0xd1ce")), HasSubstr("not 16 hex digits"));
  EXPECT_THAT(ProblemOf(Golden("00d1ce", "00D1CE")), HasSubstr("line 3"));
  EXPECT_THAT(ProblemOf(Golden("fabric=verbs\n", "")), HasSubstr("line 4: expected \"fabric=\""));
  EXPECT_THAT(ProblemOf(Golden("fabric=verbs\n", "fabric=verbs\nfabric=verbs\n")),
              HasSubstr("line 5"));
  EXPECT_THAT(ProblemOf(Golden("=1024", "=01024")), HasSubstr("not a number"));
  EXPECT_THAT(ProblemOf(Golden("=1024", "=1025")), HasSubstr("out of range"));
  EXPECT_THAT(ProblemOf(Golden("=1024", "=99999999999")), HasSubstr("not a number in range"));
  EXPECT_THAT(ProblemOf(Golden("server=2", "server=0")), HasSubstr("out of order or twice"));
  EXPECT_THAT(ProblemOf(Golden("server=2", "server=3")), HasSubstr("not below next_server"));
  EXPECT_THAT(ProblemOf(Golden("next_server=3", "next_server=257")), HasSubstr("ids below 256"));
  EXPECT_THAT(ProblemOf(Golden("host=bee", "host=" + std::string(256, 'b'))), HasSubstr("255"));
  EXPECT_THAT(ProblemOf(Golden("host=bee", "host=")), HasSubstr("empty"));
  EXPECT_THAT(ProblemOf(std::string(kGolden) + "more"), HasSubstr("line 11"));
  EXPECT_THAT(ProblemOf(std::string(kMaxStoreRecordBytes + 1, 'x')), HasSubstr("more than"));
}

TEST(StoreRecord, EveryTruncationIsRejectedOrHasFewerServers) {
  for (size_t size = 0; size < kGolden.size(); ++size) {
    std::string problem;
    const auto record = ParseStoreRecord(kGolden.substr(0, size), problem);
    if (record) {
      EXPECT_EQ(EncodeStoreRecord(*record), kGolden.substr(0, size));
    }
  }
}

// Every accepted text is the one encoding of its record.
TEST(StoreRecord, MutationsAreRejectedOrMeanWhatTheySay) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string text(kGolden);
    for (uint64_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 20); break;
        default: text.insert(at, kGolden.substr(random() % kGolden.size(), random() % 20)); break;
      }
    }
    std::string problem;
    const auto record = ParseStoreRecord(text, problem);
    if (record) {
      ASSERT_EQ(EncodeStoreRecord(*record), text);
    } else {
      ASSERT_FALSE(problem.empty());
    }
  }
}

TEST(StoreRecord, Names) {
  for (const char* good : {"default", "a", "A.b_c-9", "..."})
    EXPECT_TRUE(IsValidStoreName(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "a b", "a\n", "ä"})
    EXPECT_FALSE(IsValidStoreName(bad)) << bad;
  EXPECT_TRUE(IsValidStoreName(std::string(64, 'x')));
  EXPECT_FALSE(IsValidStoreName(std::string(65, 'x')));
}

}  // namespace
}  // namespace gossamer
