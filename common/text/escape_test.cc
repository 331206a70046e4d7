#include "common/text/escape.h"

#include <gtest/gtest.h>

#include <random>

#include "common/testing/seed.h"
#include "common/text/utf8.h"

namespace gossamer {
namespace {

using namespace std::string_literals;

std::string Unescaped(std::string_view text) {
  std::string bytes;
  EXPECT_FALSE(AppendUnescaped(text, bytes).has_value()) << text;
  return bytes;
}

EscapeError ErrorOf(std::string_view text) {
  std::string bytes;
  return AppendUnescaped(text, bytes).value_or(EscapeError{999, "no error"});
}

TEST(Escape, HexTextSaysHowManyBytesThereAre) {
  EXPECT_EQ(HexText("\0\xffz"s, 3), "00ff7a (3 bytes)");
  EXPECT_EQ(HexText("\0\xffz"s, 2), "00ff… (3 bytes)");
}

TEST(Escape, WritesWhatAPersonCanRead) {
  EXPECT_EQ(Escaped(""), "");
  EXPECT_EQ(Escaped("plain text"), "plain text");
  EXPECT_EQ(Escaped("a\tb\nc\\d\re"), "a\\tb\\nc\\\\d\\x0de");
  EXPECT_EQ(Escaped("\0\x7f"s), "\\x00\\x7f");
  EXPECT_EQ(Escaped("żółw €𝄞"), "żółw €𝄞");
  EXPECT_EQ(Escaped("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Escaped("\xc2\x9b"), "\\xc2\\x9b") << "a C1 control reaches the terminal";
}

TEST(Escape, AnyBytesRoundTrip) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 40, '\0');
    // Half of the bytes are near the borders of the rules, where escapes and UTF-8 go wrong.
    constexpr std::string_view kTricky = "\\xnt\t\n\r09afAF\xc2\x80\x9f\xa0\xe0\xed\xf4\xff";
    for (char& byte : bytes) {
      byte = round % 2 == 0 ? static_cast<char>(random()) : kTricky[random() % kTricky.size()];
    }
    const std::string text = Escaped(bytes);
    EXPECT_EQ(text.find_first_of("\t\n\r"), std::string::npos);
    EXPECT_EQ(text.find('\0'), std::string::npos);
    EXPECT_TRUE(IsUtf8(text)) << text;
    ASSERT_EQ(Unescaped(text), bytes);
  }
}

TEST(Escape, ReadsBothCasesOfHexAndRawBytes) {
  EXPECT_EQ(Unescaped("\\xfF\\x0a\\t\\n\\\\"), "\xff\x0a\t\n\\");
  EXPECT_EQ(Unescaped("\xff\x01"), "\xff\x01");
}

TEST(Escape, DanglingEscapesAreErrors) {
  for (const char* text : {"ab\\", "ab\\x", "ab\\x4"}) {
    const EscapeError error = ErrorOf(text);
    EXPECT_EQ(error.offset, 2U);
    EXPECT_NE(error.message.find("cut off"), std::string::npos) << error.message;
  }
}

TEST(Escape, UnknownEscapesSayWhatToWrite) {
  EXPECT_EQ(ErrorOf("C:\\dir").offset, 2U);
  EXPECT_EQ(ErrorOf("C:\\dir").message,
            "\"\\d\" is no escape: write \\t, \\n, \\\\ or \\xHH, and \\\\ for a backslash itself");
  EXPECT_EQ(ErrorOf("\\xg0").message.substr(0, 18), "\"\\xg\" is no escape");
  EXPECT_EQ(ErrorOf("\\x0g").message.substr(0, 19), "\"\\x0g\" is no escape");
}

TEST(Escape, QuotesAreShort) {
  EXPECT_EQ(Quoted("key\n"), "\"key\\n\"");
  EXPECT_LT(Quoted(std::string(1000, '\xff')).size(), 64U);
}

TEST(Utf8, RejectsIllFormed) {
  for (const char* text : {"\x80", "\xc1\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                           "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x8f\xbf\xbf"}) {
    EXPECT_FALSE(IsUtf8(text)) << Escaped(text);
  }
  EXPECT_TRUE(IsUtf8("\xed\x9f\xbf\xf4\x8f\xbf\xbf\0"s));
}

}  // namespace
}  // namespace gossamer
