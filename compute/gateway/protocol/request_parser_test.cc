#include "compute/gateway/protocol/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/testing/seed.h"

namespace gossamer::gateway {
namespace {

using Requests = std::vector<std::vector<std::string>>;

std::string Encode(const std::vector<std::string>& arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& one : arguments) {
    text += "$" + std::to_string(one.size()) + "\r\n" + one + "\r\n";
  }
  return text;
}

struct Parsed {
  Requests requests;
  std::string error;
};

// Parses `text` as it arrives in pieces that end at `cuts`; the buffer is a new one each time.
Parsed Parse(std::string_view text, const std::vector<size_t>& cuts,
             const RequestLimits& limits = {}) {
  RequestParser parser(limits);
  Parsed parsed;
  std::string buffer;
  size_t taken = 0;
  std::vector<size_t> ends = cuts;
  ends.push_back(text.size());
  size_t begin = 0;
  for (const size_t end : ends) {
    buffer = buffer.substr(taken) + std::string(text.substr(begin, end - begin));
    taken = 0;
    begin = end;
    for (;;) {
      const auto outcome = parser.Next(std::string_view(buffer).substr(taken));
      if (outcome == RequestParser::Outcome::kError) {
        parsed.error = parser.error();
        return parsed;
      }
      if (outcome == RequestParser::Outcome::kNeedMore) break;
      parsed.requests.emplace_back(parser.arguments().begin(), parser.arguments().end());
      taken += parser.consumed();
    }
  }
  return parsed;
}

TEST(RequestParser, ParsesRequestsHoweverTheyArrive) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    Requests requests;
    std::string text;
    const size_t count = 1 + random() % 6;
    for (size_t i = 0; i < count; ++i) {
      std::vector<std::string> arguments(1 + random() % 5);
      for (std::string& one : arguments) {
        one.resize(random() % 40);
        for (char& c : one) c = random() % 3 == 0 ? '\r' : static_cast<char>(random());
      }
      text += Encode(arguments);
      requests.push_back(arguments);
    }
    std::vector<size_t> cuts(random() % 20);
    for (size_t& cut : cuts) cut = random() % (text.size() + 1);
    std::ranges::sort(cuts);
    const Parsed parsed = Parse(text, cuts);
    EXPECT_EQ(parsed.error, "");
    EXPECT_EQ(parsed.requests, requests);
  }
}

TEST(RequestParser, CutsAtEveryByteGiveTheSame) {
  const std::string text =
      Encode({"SET", "k", "value"}) + "get  k\r\n" + "*0\r\n" + Encode({"PING"});
  const Requests expected{{"SET", "k", "value"}, {"get", "k"}, {}, {"PING"}};
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      ASSERT_EQ(Parse(text, {first, second}).requests, expected) << first << " " << second;
    }
  }
}

TEST(RequestParser, TakesLinesOfWords) {
  EXPECT_EQ(Parse("SET k \"a b\\x41\\n\\\"\"\nGET 'it\\'s'\r\n\r\n", {}).requests,
            (Requests{{"SET", "k", "a bA\n\""}, {"GET", "it's"}, {}}));
}

TEST(RequestParser, RefusesWhatIsNoRequest) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"*x\r\n", "Protocol error: invalid multibulk length"},
      {"*99999999\r\n", "Protocol error: invalid multibulk length"},
      {"*1\r\n:5\r\n", "Protocol error: expected '$', got ':'"},
      {"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$9999999999\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$+1\r\na\r\n", "Protocol error: invalid bulk length"},
      {"get \"k\r\n", "Protocol error: unbalanced quotes in request"},
      {"get \"k\"x\r\n", "Protocol error: unbalanced quotes in request"},
  };
  for (const auto& one : cases) EXPECT_EQ(Parse(one.text, {}).error, one.error) << one.text;
  const std::string long_line(70'000, 'a');
  EXPECT_EQ(Parse(long_line, {}).error, "Protocol error: too big inline request");
  EXPECT_EQ(Parse("*" + long_line, {}).error, "Protocol error: too big mbulk count string");
  EXPECT_EQ(Parse("*1\r\n$" + long_line, {}).error, "Protocol error: too big bulk count string");
}

TEST(RequestParser, ErrorsDoNotDependOnHowBytesArrive) {
  const RequestLimits limits{.line_bytes = 8};
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"*123456789\r\n", "Protocol error: too big mbulk count string"},
      {"*12345678\r\n", "Protocol error: invalid multibulk length"},
      {"*1\r\n$123456789\r\n", "Protocol error: too big bulk count string"},
      {"*1\r\n$99999999999999999999\r\n", "Protocol error: too big bulk count string"},
      {"*1\r\n$1234567x\r\n", "Protocol error: invalid bulk length"},
      {"123456789\n", "Protocol error: too big inline request"},
  };
  for (const auto& one : cases) {
    const std::string_view text = one.text;
    EXPECT_EQ(Parse(text, {}, limits).error, one.error) << text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(Parse(text, {cut}, limits).error, one.error) << text << " cut at " << cut;
    }
  }
}

TEST(RequestParser, TellsHowManyBytesAreNeeded) {
  RequestParser parser;
  const std::string text = "*2\r\n$3\r\nGET\r\n$1000\r\nabc";
  EXPECT_EQ(parser.Next(text), RequestParser::Outcome::kNeedMore);
  EXPECT_EQ(parser.wanted(), text.size() - 3 + 1002);
}

TEST(RequestParser, AnyBytesEndInARequestAnErrorOrAWait) {
  std::mt19937_64 random(TestSeed());
  const std::string alphabet = "*$\r\n01239-+: abGET\"'\\x";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const std::vector<size_t> cuts{random() % (text.size() + 1)};
    const Parsed whole = Parse(text, {});
    const Parsed cut = Parse(text, cuts);
    ASSERT_EQ(whole.requests, cut.requests) << text;
    ASSERT_EQ(whole.error, cut.error) << text;
  }
}

}  // namespace
}  // namespace gossamer::gateway
