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

}  // namespace
}  // namespace gossamer
