// Unwraps results that a test cannot do without.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "common/status.h"

namespace gossamer {

template <typename T>
T Need(Result<T> result) {
  EXPECT_TRUE(result) << result.error().ToString();
  return std::move(result.value());
}

}  // namespace gossamer
