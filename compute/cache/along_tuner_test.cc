#include "compute/cache/along_tuner.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

// How many of `count` are read along, of which one in `one_right_of` is right.
int ReadAlong(AlongTuner& tuner, int count, int one_right_of) {
  int read = 0;
  for (int i = 0; i < count; ++i) {
    if (tuner.MayRead()) tuner.Note(read++ % one_right_of == 0);
  }
  return read;
}

TEST(AlongTunerTest, ReadsAllAsLongAsHalfAreRight) {
  AlongTuner tuner;
  EXPECT_EQ(ReadAlong(tuner, 100'000, 1), 100'000);
  EXPECT_EQ(ReadAlong(tuner, 100'000, 2), 100'000);
}

TEST(AlongTunerTest, ReadsFewWhereMostAreWrongAndAllOnceThatHasChanged) {
  AlongTuner tuner;
  EXPECT_LE(ReadAlong(tuner, 100'000, 3), 3'000);
  EXPECT_GE(ReadAlong(tuner, 100'000, 1), 90'000);
}

}  // namespace
}  // namespace gossamer
