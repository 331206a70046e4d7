// DamageFinder: what in a memory server's region has not the checksum that it should have.
//
// It sees a place at a time. It finds a node by the checksum of one of its parts, under any
// generation (proto/node_recognizer.h); a value block by a reference in a leaf; and also a node by
// a parent that leads to it. What is damaged as a whole, and what nothing on this server leads to, it
// does not find. `gossamer check` walks the tree, and finds that.
//
// Memory also holds what is not in use: leaves that nothing leads to any more, and what was there
// before the memory was handed out. Only what is surely of the memory's last use is judged: its
// generation is the one under which the memory was handed out, or a later one. Neighbours of
// one owner may have the greatest generation of them in the map: then the others are not judged.
//
// Clients change the region meanwhile, so that what fails may be a WRITE under way: look again.
//
// Thread-safety: none. Cost: of a leaf, its checksums; for each reference or child, a look there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/chunk_allocator.h"
#include "proto/checksum.h"
#include "proto/leaf.h"
#include "proto/leaf_geometry.h"
#include "proto/node_recognizer.h"
#include "proto/remote_ptr.h"
#include "proto/store_parameters.h"
#include "proto/value_block.h"

namespace gossamer {

// A region that clients change.
struct LivingRegion {
  StoreParameters parameters;
  ServerId server{0};
  std::span<const std::byte> bytes;
  // The first memory that is handed out at or behind `from`, now.
  std::function<std::optional<ChunkAllocator::Extent>(uint64_t from)> next_extent;
};

struct Damage {
  uint64_t offset;
  std::string what;  // is damaged there
  Checksum bytes;    // of its bytes, which tells whether they change
};

class DamageFinder {
 public:
  explicit DamageFinder(LivingRegion region);

  // What fails in the node at `offset`, a multiple of node_bytes, and in what it leads to.
  std::vector<Damage> LookAtNode(uint64_t offset);
  // Of server 0: what fails in the root.
  std::vector<Damage> LookAtRoot();
  // Asks anew what is handed out. It keeps the last answer for each kind.
  void ForgetExtents() { known_ = {}; }

  uint64_t bytes_read() const { return bytes_read_; }  // so far

 private:
  using Bytes = std::span<const std::byte>;

  // Units and blocks of the leaf. `low`: its low fence, or the first bytes of that.
  void LookAtLeaf(RemotePtr leaf, Bytes node, KeyView low);
  void LookAtBlock(const BlockRef& ref);
  void LookAtChildren(RemotePtr parent, Bytes node);
  void LookAtChild(RemotePtr child, uint32_t level, KeyView low);
  // The leaf of which a unit is valid.
  std::optional<RemotePtr> LeafByUnit(uint64_t offset, Bytes node) const;

  // [offset, offset + bytes) as it is handed out, if all of it is, for `kind`.
  std::optional<HeapMap::Generations> Generations(uint64_t offset, uint64_t bytes,
                                                  control::ExtentKind kind);
  bool IsOfLastUse(RemotePtr node);
  // A copy in `to`.
  Bytes Read(uint64_t offset, uint64_t bytes, std::vector<std::byte>& to);
  void Note(uint64_t offset, Bytes bytes, std::string what);

  const LivingRegion region_;
  const LeafGeometry geometry_;
  const NodeRecognizer recognizer_;
  std::array<std::optional<ChunkAllocator::Extent>, 2> known_;  // the last ones, by kind
  std::vector<Damage> found_;
  std::vector<std::byte> node_;
  std::vector<std::byte> child_;
  std::vector<std::byte> block_;
  uint64_t bytes_read_ = 0;
};

}  // namespace gossamer
