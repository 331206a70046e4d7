#include "compute/gateway/protocol/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace gossamer::gateway {
namespace {

TEST(Glob, MatchesAsRedisDoes) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "abc", true},
      {"a*", "abc", true},
      {"a*c", "abc", true},
      {"a*c", "abd", false},
      {"*b*", "abc", true},
      {"h?llo", "hello", true},
      {"h?llo", "hllo", false},
      {"h[ae]llo", "hallo", true},
      {"h[ae]llo", "hillo", false},
      {"h[^e]llo", "hallo", true},
      {"h[^e]llo", "hello", false},
      {"h[a-b]llo", "hbllo", true},
      {"h[b-a]llo", "hbllo", true},
      {"h[a-b]llo", "hcllo", false},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"a\\", "a\\", true},
      {"[\\]]", "]", true},
      {"[a\\]]", "a", true},
      {"[^a\\]]", "a", false},
      {"[a\\]b]c", "ac", true},
      {"[a", "a", true},
      {"a**b", "ab", true},
      {"*a*a*a*", "aaa", true},
      {"*a*a*a*a", "aaa", false},
      {"user:*:name", "user:17:name", true},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(MatchesGlob(one.pattern, one.text), one.matches) << one.pattern << " " << one.text;
  }
}

TEST(Glob, ManyStarsTakeNoLongTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(MatchesGlob(pattern + "b", std::string(20'000, 'a')));
}

TEST(Glob, LiteralPrefixEndsAtTheFirstSpecialCharacter) {
  EXPECT_EQ(LiteralPrefix("user:*"), "user:");
  EXPECT_EQ(LiteralPrefix("a\\*b?c"), "a*b");
  EXPECT_EQ(LiteralPrefix("[ab]"), "");
  EXPECT_EQ(LiteralPrefix("plain"), "plain");
}

}  // namespace
}  // namespace gossamer::gateway
