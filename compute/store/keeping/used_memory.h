// UsedMemory: which memory the tree uses, and what the rest of it is.
//
// Thread-safety: none.
#pragma once

#include <boost/icl/interval_set.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "gossamer/store.h"
#include "proto/control.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Memory of a server, as disjoint ranges of offsets, none of which begins where another ends.
using MemoryRange = boost::icl::right_open_interval<uint64_t>;
using MemoryRanges = boost::icl::interval_set<uint64_t, std::less, MemoryRange>;

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
  MemoryRanges RangesOf(ServerId server) const;
  // Adds to `use` the bytes of the extents: those in use as live, the others as what their extent
  // is.
  void Count(ServerId server, std::span<const control::Extent> extents, MemoryUse& use) const;
  void Clear() { pieces_.clear(); }

 private:
  std::map<ServerId, Pieces> pieces_;
};

}  // namespace gossamer
