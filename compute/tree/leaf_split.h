// LeafSplitter: rearranges a leaf that has no room, in place or as two leaves.
//
// A split writes the sibling, to which nothing leads yet. Then one WRITE of at most one MTU
// rewrites the leaf and makes the sibling reachable (rules W1, W2). Then the parent gets a downlink
// (rule W6).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/leaf_edit.h"
#include "compute/tree/leaf_packer.h"
#include "compute/tree/locked_leaf.h"
#include "compute/tree/parent_link.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

enum class Edited : uint8_t {
  kDone,
  kSplitOnly,  // the leaf was split without the write, which must be tried again
  kTooLong,    // nothing was done: the leaf can take the key as a long key only
};

class LeafSplitter {
 public:
  LeafSplitter(TreeContext& context, const LeafLocker& leaves, ParentLinker& parents)
      : context_(context), leaves_(leaves), parents_(parents), packer_(context.geometry()) {}

  // Rewrites the locked leaf with `write` applied: in place if it fits, else by a split. Always
  // ends the lock. A prefix of its own makes room in a leaf whose keys share more than its range.
  // Errors: as LeafWriter::Write.
  // Cost: 1 RT to READ the leaf whole, unless that was done with the lock because the leaf was
  // known to be full; then 1 RT to WRITE it in place, 2 RT or more for a split.
  Task<Result<Edited>> Rewrite(Op& op, LockedLeaf& locked, LeafWrite& write);

 private:
  using NewVersion = RemoteLock::NewVersion;

  // A leaf to rearrange.
  struct Rearrangement {
    LeafRewrite rewrite;
    KeyArena keys;  // of the entries
    std::vector<Entry> before;
    std::vector<Entry> after;  // the write's own entry last
    BufferLease images;        // of the leaf, then of a sibling
    OrderedCut cut;

    std::span<std::byte> image(uint32_t node_bytes, uint32_t number) const {
      return {images.data() + size_t{number} * node_bytes, node_bytes};
    }
  };
  // The encoded halves of a split.
  struct Halves {
    RemotePtr sibling;
    LocalAddress left;
    LocalAddress right;
    NewVersion changed;
  };

  static Rearrangement Rearrange(const LockedLeaf& locked, LeafWrite& write);
  Task<Result<Edited>> Split(Op& op, LockedLeaf& locked, LeafWrite& write, Rearrangement& anew);
  // Whether a leaf with `bounds` does not take the key of `entry` whole.
  bool IsTooLong(const Bounds& bounds, const Entry& entry) const;
  // Encodes both halves. Sets `edited` to kSplitOnly if neither has the write's own entry, and to kTooLong if that has to be
  // a long key.
  // Returns: nullopt if the leaf cannot be split.
  std::optional<LeafHalves> EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                         Edited& edited);
  Task<Status> CommitSplit(Op& op, LockedLeaf& locked, const Halves& halves, LockedParent& parent);
  Task<Status> CommitBehindSibling(Op& op, LockedLeaf& locked, const Halves& halves,
                                   LockedParent& parent);

  TreeContext& context_;
  const LeafLocker& leaves_;
  ParentLinker& parents_;
  LeafPacker packer_;  // nothing is awaited while it is in use
};

}  // namespace gossamer
