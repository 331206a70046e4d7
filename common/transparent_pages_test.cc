#include "common/transparent_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "common/huge_pages.h"

namespace gossamer {
namespace {

using ::testing::MatchesRegex;

constexpr size_t kBytes = size_t{32} << 20;

TEST(TransparentPagesTest, SmallPagesAreNone) {
  const MemoryMapping mapping = MapTransparentPages(kBytes).value();
  ASSERT_EQ(::madvise(mapping.data(), kBytes, MADV_NOHUGEPAGE), 0);
  std::memset(mapping.data(), 1, kBytes);
  EXPECT_EQ(BytesInTransparentPages(mapping.span()), 0u);
  EXPECT_EQ(DescribeTouched(mapping.span(), "4 KB pages"), "4 KB pages");
}

TEST(TransparentPagesTest, AreThereOnceMemoryIsTouched) {
  if (!MayBeTransparent(PageKind::kPrivate)) GTEST_SKIP() << "switched off on this machine";
  const MemoryMapping mapping = MapTransparentPages(kBytes).value();
  EXPECT_EQ(BytesInTransparentPages(mapping.span()), 0u);
  std::memset(mapping.data(), 1, kBytes);
  if (BytesInTransparentPages(mapping.span()) == 0) GTEST_SKIP() << "the kernel has none free";
  // The mapping need not begin at a large page, so its ends may have small ones.
  EXPECT_THAT(DescribeTouched(mapping.span(), "4 KB pages"),
              MatchesRegex("2 MB pages \\(transparent\\)( for [0-9]+ %, else 4 KB)?"));
}

}  // namespace
}  // namespace gossamer
