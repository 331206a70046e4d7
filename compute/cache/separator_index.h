// SeparatorIndex: an ordered map from separators to words, for one writer and many readers.
//
// The map is total: a word holds from its separator up to the next. Where nothing is known the word
// is SeparatorNode::kGap.
//
// It is a B+tree of SeparatorNodes. Memory model: the separators of a node never change. A writer
// that adds or removes one makes a new node and swaps one pointer, in the payload of the node above
// or in `root_`. So a reader that loads the root sees a whole tree: some nodes may be older than
// others, and then it finds what the map held a moment before. Replaced nodes are retired by epochs
// (epoch.h); a reader holds a guard while it reads. Nothing is written on the read side, and
// nothing is tried again. Pointers are stored with release and loaded with acquire.
//
// The root may be wide, up to kMaxRootCount separators: that saves a level of small nodes. But a
// change of a node copies it. Once changes are frequent (`ExpectChanges`), only a root above other
// nodes of the index is wide: it seldom changes.
//
// Digests tell separators apart that differ in few bytes behind a common prefix. Where a node would
// have several prefixes (those of tables, say), and many digests would be equal, it is cut between
// them: each part then has its own prefix.
//
// Thread-safety: `root` and what is reached from it are for readers in a guard; the rest is under
// the owner's lock.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/cache/node_arena.h"
#include "compute/cache/node_memory.h"
#include "compute/cache/separator_node.h"
#include "proto/key.h"

namespace gossamer {

class SeparatorIndex {
 public:
  // Entries of a node that is not the root, and of a lone root once changes are expected.
  static constexpr size_t kMaxCount = 128;
  static constexpr size_t kMaxRootCount = 2048;  // of a root that may be wide

  // A separator with its word.
  struct Entry {
    Key separator;
    uint64_t word = SeparatorNode::kGap;
  };

  explicit SeparatorIndex(NodeMemory& memory) : memory_(memory) {}
  ~SeparatorIndex();
  SeparatorIndex(const SeparatorIndex&) = delete;
  SeparatorIndex& operator=(const SeparatorIndex&) = delete;

  // From now on changes are frequent, and so should be cheap.
  void ExpectChanges() { expects_changes_ = true; }

  // Null as long as the map is one gap.
  const SeparatorNode* root() const { return root_.load(std::memory_order_acquire); }

  // The word that holds at `key`, with the separator from which it holds.
  Entry Covering(KeyView key) const;
  // The word that holds just below `bound`. Requires: `bound` is not empty.
  Entry Below(const HighFence& bound) const;
  // The word that holds at `low`, without a copy of separators.
  struct Holding {
    uint64_t word = SeparatorNode::kGap;
    bool starts_there = false;  // an entry is at `low`
    bool ends_there = false;    // the next entry is at `high`; of an infinite `high`, there is none
  };
  Holding At(KeyView low, const HighFence& high) const;
  // The first entry above `key`; nullopt if there is none.
  std::optional<Entry> Above(KeyView key) const;

  // From `separator` on, up to the next separator, `word` holds. Returns false, and changes
  // nothing, if the nodes would grow by more than `most_bytes`.
  bool Set(KeyView separator, uint64_t word, uint64_t most_bytes);
  // What holds below `separator`, an entry, holds at it as well; below the empty one, a gap. Never
  // makes the nodes grow. (The first separator of a node stays, unless the node goes as a whole.)
  void Remove(KeyView separator);

 private:
  enum class Change : uint8_t { kAdd, kRemove };
  struct Frame {
    SeparatorNode* node;
    uint32_t index;
  };
  // More levels than memory has room for. A root of height 1 is split at more than kMaxCount
  // entries, a higher one at more than kMaxRootCount.
  static constexpr size_t kMaxHeight = 8;

  // The way from the root to the entry that covers `key`.
  struct Path {
    Frame frames[kMaxHeight];
    size_t length = 0;
    Frame& bottom() { return frames[length - 1]; }
  };

  template <typename Choose>
  Path Descend(Choose&& choose) const;
  static Entry EntryAt(const Path& path);
  // Goes to the next entry. Returns false if there is none.
  static bool StepRight(Path& path);
  // Replaces the nodes of `path` from the bottom up, so that the bottom has the entries of `list_`.
  bool Replace(const Path& path, Change change, uint64_t most_bytes);
  // Sets begins_: where the nodes begin that `entries`, of the node at `depth` (0: the root) and
  // `height`, are put into.
  void Cut(const SeparatorList& entries, size_t depth, uint32_t height, Change change);
  // Appends to begins_ where `entries` is cut between prefixes: 0, if nowhere else.
  void CutBetweenPrefixes(const SeparatorList& entries);
  void MakeParts(const SeparatorList& entries, uint32_t height);
  static void AppendParts(SeparatorList& above, std::span<SeparatorNode* const> parts);
  static SeparatorNode* ChildOf(const SeparatorNode* node, uint32_t index);
  void FreeBelow(SeparatorNode* node);

  NodeMemory& memory_;
  std::atomic<SeparatorNode*> root_{nullptr};
  bool expects_changes_ = false;
  // Scratch space for making nodes.
  SeparatorList list_;
  SeparatorList above_;
  std::vector<SeparatorNode*> fresh_;
  std::vector<size_t> begins_;
  std::vector<size_t> runs_;
  std::vector<uint8_t> common_;
};

}  // namespace gossamer
