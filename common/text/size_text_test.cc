#include "common/text/size_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gossamer {
namespace {

TEST(SizeText, Parses) {
  EXPECT_EQ(ParseSize("0").value(), 0u);
  EXPECT_EQ(ParseSize("4096").value(), 4096u);
  EXPECT_EQ(ParseSize("64MiB").value(), uint64_t{64} << 20);
  EXPECT_EQ(ParseSize("1gib").value(), uint64_t{1} << 30);
  EXPECT_EQ(ParseSize("2T").value(), uint64_t{2} << 40);
  EXPECT_EQ(ParseSize("7B").value(), 7u);
  EXPECT_EQ(ParseSize("1.5KiB").value(), 1536u);
}

TEST(SizeText, RefusesWhatIsNone) {
  for (const char* text : {"", "MiB", "-1", "1 GiB", "1XiB", "1.3B", "1..5K", ".",
                           "99999999999999999999", "16777216TiB", "1e3", "0x10"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size) << text << " = " << size.value();
    EXPECT_THAT(size.error().message, ::testing::HasSubstr("is not a size: write 4096, 64MiB"));
  }
}

TEST(SizeText, NamesTheFlag) {
  EXPECT_EQ(ParseSizeFlag("memory", "4K", 4096).value(), 4096u);
  EXPECT_EQ(ParseSizeFlag("memory", "0").value(), 0u);
  EXPECT_EQ(ParseSizeFlag("memory", "0", 1).error().message, "--memory: 0 is too little");
  EXPECT_EQ(ParseSizeFlag("memory", "4KiB", 4097).error().message, "--memory: 4KiB is too little");
  EXPECT_EQ(ParseSizeFlag("memory", "big", 1).error().message,
            "--memory: " + ParseSize("big").error().message);
}

}  // namespace
}  // namespace gossamer
