// UnitBuffers: where the units of one leaf operation lie in its buffer lease, each verb with a place of its own.
#pragma once

#include <cstddef>

#include "proto/leaf_geometry.h"

namespace gossamer {

struct UnitBuffers {
  static constexpr size_t kUnitSlot = 192;  // a unit, rounded up to cache lines
  static constexpr size_t kLockWord = 0;
  static constexpr size_t kHome = 64;
  static constexpr size_t kOverflow = kHome + kUnitSlot;
  static constexpr size_t kTrailer = kOverflow + kUnitSlot;
  static constexpr size_t kNewHome = kTrailer + 64;
  static constexpr size_t kNewOverflow = kNewHome + kUnitSlot;
  static constexpr size_t kUnlockWord = kNewOverflow + kUnitSlot;
  static constexpr size_t kBytes = kUnlockWord + 64;
};
static_assert(UnitBuffers::kBytes <= 1024);
static_assert(LeafGeometry(256).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(512).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(1024).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(2048).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(4096).unit_bytes() <= UnitBuffers::kUnitSlot);
static_assert(kTrailerBytes <= 64);

}  // namespace gossamer
