#include "compute/tree/write/operation_sequence.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

TEST(OperationSequenceTest, IsTheLongestSequence) {
  uint64_t path = 0;
  OperationSequence one(path);
  OperationSequence other(path);
  EXPECT_EQ(one.Extend(2), 2u);
  EXPECT_EQ(other.Extend(3), 1u);
  EXPECT_EQ(one.Extend(2), 1u);
  EXPECT_EQ(other.Extend(1), 0u);
  EXPECT_EQ(other.Extend(0), 0u);
  EXPECT_EQ(other.Extend(5), 5u);
}

TEST(OperationSequenceTest, WhatOneHasWaitedInVainTheNextDoesNotWait) {
  const auto lost_at = std::chrono::steady_clock::now();
  SharedPatience patience;
  Op first;
  patience.Begin(first);
  EXPECT_EQ(first.lost_since, std::nullopt);
  first.lost_since = lost_at;
  patience.End(first, MakeError(Code::kNodeUnreachable));
  Op second;
  patience.Begin(second);
  EXPECT_EQ(second.lost_since, lost_at);
  // It has got through: the next one waits as long as any.
  patience.End(second, Ok());
  Op third;
  patience.Begin(third);
  EXPECT_EQ(third.lost_since, std::nullopt);
  third.lost_since = lost_at;
  patience.End(third, MakeError(Code::kNotFound));
  Op fourth;
  patience.Begin(fourth);
  EXPECT_EQ(fourth.lost_since, std::nullopt);
}

}  // namespace
}  // namespace gossamer
