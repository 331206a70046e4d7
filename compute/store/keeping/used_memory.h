// UsedMemory: which memory the tree uses, and what the rest of it is.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "gossamer/store.h"
#include "proto/control.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class UsedMemory {
 public:
  struct Piece {
    uint64_t bytes;
    control::ExtentKind kind;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by offset

  // Records that [offset, offset + bytes) is in use. Returns false if another piece has some of it.
  bool Add(ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind);
  const Pieces& of(ServerId server) const;
  // The same as disjoint ranges [first, end), in order.
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  Ranges RangesOf(ServerId server) const;
  // Adds to `use` the bytes of the extents: those in use as live, the others as what their extent
  // is.
  void Count(ServerId server, std::span<const control::Extent> extents, MemoryUse& use) const;
  void Clear() { pieces_.clear(); }

 private:
  std::map<ServerId, Pieces> pieces_;
};

}  // namespace gossamer
