#include "common/epoch.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace gossamer {
namespace {

class EpochTest : public testing::Test {
 protected:
  // Retires enough objects for a collection.
  void RetireMany(int count = 64) {
    for (int i = 0; i < count; ++i) domain_->Retire(nullptr);
  }

  int freed_ = 0;
  std::optional<EpochDomain> domain_{std::in_place, [this](void* /*object*/) { ++freed_; }};
};

TEST_F(EpochTest, WithoutReadersMemoryIsFreedInTheNextCollection) {
  RetireMany();
  EXPECT_EQ(freed_, 64);
  RetireMany(3);
  EXPECT_EQ(freed_, 64);
  domain_.reset();
  EXPECT_EQ(freed_, 67) << "the rest goes with the domain";
}

TEST_F(EpochTest, WhatAReaderMayStillSeeStays) {
  EpochReader reader(*domain_);
  domain_->Retire(nullptr);
  {
    const EpochReader::Guard guard(reader);
    RetireMany(200);
    EXPECT_EQ(freed_, 1) << "what was retired before the guard began";
  }
  RetireMany();
  EXPECT_GT(freed_, 200);
}

// What a reader holds back is looked at once for each 64 objects more. (Each object once was a walk
// through all.)
TEST_F(EpochTest, ManyObjectsThatAReaderHoldsBackAreSeldomLookedAt) {
  EpochReader reader(*domain_);
  {
    const EpochReader::Guard guard(reader);
    RetireMany(128);
  }
  RetireMany(63);
  EXPECT_EQ(freed_, 0);
  RetireMany(1);
  EXPECT_EQ(freed_, 192);
}

TEST_F(EpochTest, AnIdleOrDestroyedReaderHoldsNothingBack) {
  EpochReader idle(*domain_);
  {
    EpochReader gone(*domain_);
    const EpochReader::Guard guard(gone);
  }
  RetireMany();
  EXPECT_EQ(freed_, 64);
}

}  // namespace
}  // namespace gossamer
