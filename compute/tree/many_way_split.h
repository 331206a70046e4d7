// ManyWaySplitter: rewrites a locked leaf as several leaves, as many as its entries take.
//
// The new leaves, chained to each other and the last one to the old sibling, are written and acknowledged first:
// nothing leads to them yet. Then one WRITE of at most one MTU rewrites the old leaf as the first of the chain and
// makes all of it reachable (rules W1, W2). Then the parents get the downlinks (rule W6).
//
// A split in two by a single write is LeafSplitter's: it has no acknowledgement in between.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/leaf_packer.h"
#include "compute/tree/locked_leaf.h"
#include "compute/tree/parent_link.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/unseen_nodes.h"

namespace gossamer {

class ManyWaySplitter {
 public:
  // How full the leaves get that a split in the middle of the tree makes.
  static constexpr double kUsualFill = 0.7;

  ManyWaySplitter(TreeContext& context, ParentLinker& parents)
      : context_(context), parents_(parents) {}

  // How full leaves get.
  enum class Rest : uint8_t {
    kToLast,   // each gets `part` of what fits, the last one what is left
    kToFirst,  // likewise, the first one
    kToAll,    // all get about as much
  };
  struct Fill {
    double part = 1;
    Rest rest = Rest::kToLast;
  };

  // Rewrites the leaf, which was read whole, so that it and new leaves to its right hold `entries`.
  // Always ends the lock.
  // Requires: the keys ascend and are in the leaf's range; the entries do not fit into one leaf in the order of its units.
  // Errors: MaybeApplied; after any other error nothing was written.
  // Cost: 2 RT for the leaves, 1 RT for each parent that was locked along with them, and no allocation an entry.
  Task<Status> Split(Op& op, LockedLeaf& locked, LeafPacker& packer, std::span<const Entry> entries,
                     Fill fill) {
    assert(!entries.empty() && locked.path.low <= entries.front().key);
    const Part part{entries, locked.unit(0).high()};
    co_return co_await Split(op, locked, packer, {&part, 1}, locked.trailer->sibling(), fill);
  }
  // The entries of a range that starts where the one before ends.
  struct Part {
    std::span<const Entry> entries;
    HighFence high;
  };
  // The same for a leaf that takes over its sibling's range. No leaf has entries of two parts: what is right for the entries of
  // a leaf, with its prefix and its fence, is right for those of a part of its range. `sibling` is behind all parts.
  Task<Status> Split(Op& op, LockedLeaf& locked, LeafPacker& packer, std::span<const Part> parts,
                     RemotePtr sibling, Fill fill);

 private:
  // The leaves that take the place of one.
  struct Chain {
    Chain(TreeContext& context, size_t expected) : unseen(context, expected) {
      downlinks.reserve(expected);
      hints.reserve(expected);
      memory.reserve(expected);
    }

    UnseenNodes unseen;  // all but the first leaf
    BufferLease first;   // the image of the first leaf
    uint64_t first_hint = 0;
    Downlinks downlinks;  // to all but the first leaf
    std::vector<uint64_t> hints;
    std::vector<Allocated<RemotePtr>> memory;
  };

  // What is left of a part to place, and in how many leaves about.
  struct Plan {
    Plan(const LeafPacker& packer, KeyView low, const Part& part, Fill fill);

    LeafPacker::Most most() const;
    // Call when `entries` were placed.
    void Placed(std::span<const Entry> entries);

    size_t prefix_bytes = 0;  // that all leaves share, not counted in:
    size_t bytes = 0;
    size_t leaves = 0;
    size_t room = 0;  // most bytes of a leaf
    Rest rest = Rest::kToLast;
  };

  // Allocates and encodes the chain.
  Task<Status> Build(Op& op, const LockedLeaf& locked, LeafPacker& packer,
                     std::span<const Part> parts, std::span<Plan> plans, RemotePtr sibling,
                     Chain& chain);
  // Writes all but the first leaf. Tries the parent's lock along with them, before any other operation can know them:
  // the parent needs no proof that they exist (rule W4).
  Task<Status> WriteUnseen(Op& op, const LockedLeaf& locked, Chain& chain, LockedParent& parent);

  TreeContext& context_;
  ParentLinker& parents_;
};

}  // namespace gossamer
