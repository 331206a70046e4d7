// Layouts of an operation's buffer lease. Each verb has its own place.
#pragma once

#include <cstddef>

#include "proto/leaf_geometry.h"

namespace gossamer {

// For a get: the units that it reads.
struct UnitBuffers {
  static constexpr size_t kUnitSlot = 192;  // a unit, rounded up to cache lines
  static constexpr size_t kHome = 0;
  static constexpr size_t kOverflow = kHome + kUnitSlot;
  static constexpr size_t kTrailer = kOverflow + kUnitSlot;
  static constexpr size_t kBytes = kTrailer + 64;
};
static_assert(UnitBuffers::kBytes <= 512);
static_assert(LeafGeometry(256).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(512).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(1024).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(2048).unit_bytes() <= UnitBuffers::kUnitSlot &&
              LeafGeometry(4096).unit_bytes() <= UnitBuffers::kUnitSlot);
static_assert(kTrailerBytes <= 64);

// For a locked node: the words that its atomics find, and the node.
struct LockedBuffers {
  static constexpr size_t kLockWord = 0;
  static constexpr size_t kUnlockWord = 8;
  static constexpr size_t kChildWord = 16;
  static constexpr size_t kImage = 64;
  static constexpr size_t Bytes(uint32_t node_bytes) { return kImage + node_bytes; }
};

}  // namespace gossamer
