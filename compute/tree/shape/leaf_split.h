// LeafSplitter: rearranges a locked leaf that has no room: in place, or as several leaves.
//
// The leaf and the new leaves to its right form a chain: each leads to the next one, and the last
// one to the old sibling. Nothing leads to the new leaves until one WRITE of at most one MTU
// rewrites the old leaf as the first of the chain, and makes all of it reachable (rules W1, W2).
// Then the parents get the downlinks (rule W6).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/leaf/leaf_packer.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"

namespace gossamer {

enum class Edited : uint8_t {
  kDone,
  kSplitOnly,  // the leaf was split without the write, which must be tried again
  kTooLong,    // nothing was done: the leaf can take the key as a long key only
};

class LeafSplitter {
 public:
  // How full the leaves get that a split in the middle of the tree makes.
  static constexpr double kUsualFill = 0.7;

  // How full leaves get.
  enum class Rest : uint8_t {
    kToLast,   // each gets `fill` of what fits, the last one what is left
    kToFirst,  // likewise, the first one
    kToAll,    // all get about as much
  };
  // The entries of a range that starts where the one before ends, for one leaf or more.
  struct Part {
    std::span<const Entry> entries;
    HighFence high;
    double fill = 1;
    Rest rest = Rest::kToLast;
  };

  LeafSplitter(TreeContext& context, const LeafLocker& leaves, ParentLinker& parents)
      : context_(context), leaves_(leaves), parents_(parents), packer_(context.geometry()) {}

  // Rewrites the locked leaf with `write` applied: in place if it fits, else as two leaves. Always
  // ends the lock. A prefix of its own makes room in a leaf whose keys share more than its range.
  // Errors: as LeafWriter::WriteUntilDone, with the loss noted in `op`.
  // Cost: 1 RT to READ the leaf whole, unless that was done with the lock because the leaf was
  // known to be full; then 1 RT to WRITE it in place, or as Split.
  Task<Result<Edited>> Rewrite(Op& op, LockedLeaf& locked, LeafWrite& write);

  // Rewrites the leaf, which was read whole, so that it and new leaves to its right hold the
  // entries of `parts`. No leaf has entries of two parts: what is right for the entries of a leaf,
  // with its prefix and its fence, is right for those of a part of its range. Always ends the lock.
  // Requires: the keys ascend and are in the leaf's range, where the last part ends; the entries do
  // not fit into one leaf in the order of its units.
  // Errors: MaybeApplied; after any other error nothing was written.
  // Cost: 1 RT for one new leaf on the leaf's server, else 2 RT; 1 RT for each parent that was
  // locked along with them, 2 RT if that is on another server than the one new leaf (rule W4); no
  // allocation an entry.
  Task<Status> Split(Op& op, LockedLeaf& locked, LeafPacker& packer, std::span<const Part> parts);

 private:
  // The leaves that take the place of one.
  struct Chain {
    Chain(TreeContext& context, size_t expected) : unseen(context, expected) {
      downlinks.reserve(expected);
      hints.reserve(expected);
      memory.reserve(expected);
    }

    BufferLease first;  // the image of the first leaf
    uint64_t first_hint = 0;
    UnseenNodes unseen;   // the others
    Downlinks downlinks;  // to them
    std::vector<uint64_t> hints;
    std::vector<Allocated<RemotePtr>> memory;
  };
  // What is left of a part to place, and in how many leaves about.
  struct Plan {
    Plan(const LeafPacker& packer, KeyView low, const Part& part);

    LeafPacker::Most most() const;
    // Call when `entries` were placed.
    void Placed(std::span<const Entry> entries);

    size_t prefix_bytes = 0;  // that all leaves share, not counted in:
    size_t bytes = 0;
    size_t leaves = 0;
    size_t room = 0;  // most bytes of a leaf
    Rest rest = Rest::kToLast;
  };
  // A leaf to rearrange for one write.
  struct Rearrangement {
    LeafRewrite rewrite;
    KeyArena keys;  // of the entries
    std::vector<Entry> before;
    std::vector<Entry> after;  // the write's own entry last
    OrderedCut cut;
  };

  static Rearrangement Rearrange(const LockedLeaf& locked, LeafWrite& write);
  Task<Result<Edited>> SplitInTwo(Op& op, LockedLeaf& locked, LeafWrite& write, Rearrangement& anew,
                                  BufferLease image);
  // Whether a leaf with `bounds` does not take the key of `entry` whole.
  bool IsTooLong(const Bounds& bounds, const Entry& entry) const;
  // Encodes both halves. Sets `edited` to kSplitOnly if neither has the write's own entry, and to
  // kTooLong if that has to be a long key.
  // Returns: nullopt if the leaf cannot be split.
  std::optional<LeafHalves> EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                         std::span<std::byte> left, std::span<std::byte> right,
                                         Edited& edited);
  // Allocates and encodes a chain of as many leaves as `parts` take.
  Task<Status> Build(Op& op, const LockedLeaf& locked, LeafPacker& packer,
                     std::span<const Part> parts, std::span<Plan> plans, Chain& chain);

  // Writes the chain, ends the lock, and makes the downlinks.
  Task<Status> Commit(Op& op, LockedLeaf& locked, Chain& chain);
  // The WRITEs of a chain of two leaves on one server, with the parent's lock along with them.
  Task<Status> CommitTogether(Op& op, LockedLeaf& locked, Chain& chain, LockedParent& parent);
  // The WRITE of the first leaf, behind those of the others.
  Task<Status> CommitBehindOthers(Op& op, LockedLeaf& locked, Chain& chain, LockedParent& parent);
  // Writes all but the first leaf. Tries the parent's lock along with them, before any other
  // operation can know them: the parent needs no proof that they exist (rule W4).
  Task<Status> WriteOthers(Op& op, const LockedLeaf& locked, Chain& chain, LockedParent& parent);
  // The new version of the leaf, by which its commit is recognised.
  static RemoteLock::NewVersion VersionOf(const LockedLeaf& locked) {
    return {locked.leaf(), 0, Next(locked.unit(0).version()), locked.path.low};
  }

  TreeContext& context_;
  const LeafLocker& leaves_;
  ParentLinker& parents_;
  LeafPacker packer_;  // nothing is awaited while it is in use
};

}  // namespace gossamer
