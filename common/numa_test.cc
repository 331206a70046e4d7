#include "common/numa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numa.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/huge_pages.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = size_t{32} << 20;

bool HasTwoNodes() { return numa_available() >= 0 && numa_num_configured_nodes() >= 2; }

std::string PlacedAndTouched(const NumaWish& wish, int device_node) {
  const MemoryMapping mapping = MapMemory(kBytes, false).value();
  EXPECT_TRUE(PlaceMemory(mapping.span(), wish, device_node));
  std::memset(mapping.data(), 1, kBytes);
  return DescribeNodes(mapping.span());
}

TEST(NumaTest, ReadsWishes) {
  EXPECT_EQ(ParseNuma("auto").value().kind, NumaWish::Kind::kOfDevice);
  EXPECT_EQ(ParseNuma("no").value().kind, NumaWish::Kind::kAnywhere);
  EXPECT_EQ(ParseNuma("interleave").value().kind, NumaWish::Kind::kInterleaved);
  for (const char* wrong : {"", "-1", "1x", "on", "999"}) {
    const auto parsed = ParseNuma(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string("--numa=") + wrong));
  }
}

TEST(NumaTest, OneNodeIsNotWorthMentioning) {
  if (HasTwoNodes()) GTEST_SKIP() << "this machine has several";
  EXPECT_EQ(PlacedAndTouched({.kind = NumaWish::Kind::kInterleaved}, kUnknownNode), "");
  EXPECT_EQ(PlacedAndTouched({}, 0), "");
}

TEST(NumaTest, MemoryLiesWhereItIsWanted) {
  if (!HasTwoNodes()) GTEST_SKIP() << "this machine has one node: run it by scripts/soft_roce";
  EXPECT_EQ(PlacedAndTouched(ParseNuma("1").value(), 0), "NUMA node 1");
  EXPECT_EQ(PlacedAndTouched(ParseNuma("0").value(), 1), "NUMA node 0");
  EXPECT_EQ(PlacedAndTouched({}, 1), "NUMA node 1");
  EXPECT_EQ(PlacedAndTouched({}, 0), "NUMA node 0");
  int first = 0;
  int second = 0;
  const std::string both = PlacedAndTouched({.kind = NumaWish::Kind::kInterleaved}, 0);
  ASSERT_EQ(std::sscanf(both.c_str(), "NUMA nodes 0 (%d %%), 1 (%d %%)", &first, &second), 2);
  EXPECT_GT(std::min(first, second), 40) << both;
  const MemoryMapping untouched = MapMemory(kBytes, false).value();
  EXPECT_EQ(DescribeNodes(untouched.span()), "");
}

// Two nodes of a processor each.
TEST(NumaTest, ProcessorsOfTheNodeComeFirst) {
  cpu_set_t both;
  CPU_ZERO(&both);
  CPU_SET(0, &both);
  CPU_SET(1, &both);
  EXPECT_EQ(ProcessorsFrom(kUnknownNode, both), (std::vector{0, 1}));
  if (!HasTwoNodes()) GTEST_SKIP() << "this machine has one node: run it by scripts/soft_roce";
  EXPECT_EQ(ProcessorsFrom(0, both), (std::vector{0, 1}));
  EXPECT_EQ(ProcessorsFrom(1, both), (std::vector{1, 0}));
}

}  // namespace
}  // namespace gossamer
