// LeafSplitter: arranges a leaf anew that has no room, in place or as two leaves.
//
// A split writes the sibling where nothing leads to it yet, then the leaf with one WRITE of at most one MTU, which is what
// makes the sibling reachable (rules W1, W2); then the parent gets a downlink (rule W6).
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
#include "compute/tree/locked_leaf.h"
#include "compute/tree/parent_link.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

// kSplitOnly: the leaf was split without the write, which is to be tried again.
enum class Edited : uint8_t { kDone, kSplitOnly };

class LeafSplitter {
 public:
  LeafSplitter(TreeContext& context, const LeafLocker& leaves, ParentLinker& parents)
      : context_(context), leaves_(leaves), parents_(parents) {}

  // Rewrites the locked leaf with `write` done: in place if it then fits, else by a split. Ends the lock in any case.
  // RT 2: READ the leaf whole, unless that was done along with the lock, as the leaf was known to be full. RT 3: WRITE the
  // leaf, or split it. Errors: as LeafWriter::Write.
  Task<Result<Edited>> Rewrite(Op& op, LockedLeaf& locked, LeafWrite& write);

 private:
  using NewVersion = RemoteLock::NewVersion;

  // A leaf that is to be arranged anew.
  struct Rearrangement {
    LeafRewrite rewrite;
    std::vector<Entry> before;
    std::vector<Entry> after;  // the write's own entry last
    BufferLease images;        // of the leaf and, behind it, a sibling

    std::span<std::byte> image(uint32_t node_bytes, uint32_t number) const {
      return {images.data() + size_t{number} * node_bytes, node_bytes};
    }
  };
  // The two halves of a split, as they are to be written.
  struct Halves {
    RemotePtr sibling;
    LocalAddress left;
    LocalAddress right;
    NewVersion changed;
  };

  static Rearrangement Rearrange(const LockedLeaf& locked, LeafWrite& write);
  Task<Result<Edited>> Split(Op& op, LockedLeaf& locked, LeafWrite& write, Rearrangement& anew);
  // Encodes both halves and returns the separator; nothing: the leaf cannot be split. `edited` says whether the write's
  // own entry is in one of them.
  std::optional<Key> EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                  Edited& edited) const;
  Task<Status> CommitSplit(Op& op, LockedLeaf& locked, const Halves& halves, LockedParent& parent);
  Task<Status> CommitBehindSibling(Op& op, LockedLeaf& locked, const Halves& halves,
                                   LockedParent& parent);
  // Prepares `parent` for its lock to be tried with the commit of `locked`. False if that is not possible.
  Task<bool> CanFuse(Op& op, const LockedLeaf& locked, LockedParent& parent);
  // Corrects the hint of a leaf, which has `key`, by what was written.
  void LearnRewritten(RemotePtr parent, KeyView key, RemotePtr leaf,
                      std::span<const std::byte> image);

  TreeContext& context_;
  const LeafLocker& leaves_;
  ParentLinker& parents_;
};

}  // namespace gossamer
