#include "compute/cache/epoch.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace gossamer {
namespace {

int freed = 0;

void Count(void* /*object*/) { ++freed; }

// Retires enough objects for a collection.
void RetireMany(EpochDomain& domain, int count = 64) {
  for (int i = 0; i < count; ++i) domain.Retire(nullptr);
}

TEST(Epoch, WithoutReadersMemoryIsFreedInTheNextCollection) {
  freed = 0;
  {
    EpochDomain domain(Count);
    RetireMany(domain);
    EXPECT_EQ(freed, 64);
    RetireMany(domain, 3);
    EXPECT_EQ(freed, 64);
  }
  EXPECT_EQ(freed, 67) << "the rest goes with the domain";
}

TEST(Epoch, WhatAReaderMayStillSeeStays) {
  freed = 0;
  EpochDomain domain(Count);
  EpochReader reader(domain);
  domain.Retire(nullptr);
  {
    const EpochReader::Guard guard(reader);
    RetireMany(domain, 200);
    EXPECT_EQ(freed, 1) << "what was retired before the guard began";
  }
  RetireMany(domain);
  EXPECT_GT(freed, 200);
}

TEST(Epoch, AnIdleOrDestroyedReaderHoldsNothingBack) {
  freed = 0;
  EpochDomain domain(Count);
  EpochReader idle(domain);
  {
    EpochReader gone(domain);
    const EpochReader::Guard guard(gone);
  }
  RetireMany(domain);
  EXPECT_EQ(freed, 64);
}

}  // namespace
}  // namespace gossamer
