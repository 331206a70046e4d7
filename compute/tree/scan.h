// Scanner: reads leaves whole, many at a time, and joins them by their fences.
//
// A whole leaf is consistent (rule R2). The next leaf is the one whose low fence is this leaf's
// high fence: the separator in the cached parent is checked against it, and sibling pointers of
// whole leaves lead to leaves that the parent lacks (rule R3).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/get.h"
#include "compute/tree/tree_context.h"
#include "proto/leaf.h"
#include "proto/value_block.h"

namespace gossamer {

// The position and direction of a scan.
struct ScanPosition {
  bool reverse = false;
  Key from;         // forward: the next key is not below this
  HighFence below;  // reverse: the next key is below this
  bool done = false;
};

struct ScannedEntry {
  std::string key;
  std::string value;
};

// What a scan has found: entries in order, and which of their values are still in blocks.
struct ScanPage {
  explicit ScanPage(std::vector<ScannedEntry>& scanned) : entries(scanned) {}

  // Adds the leaf's entries from `position` on, each key once (rule R6), in scan order.
  void Add(const LeafView& leaf, const ScanPosition& position);
  // Removes entries that FillBlocks found deleted: they were absent at that moment of the scan.
  void EraseGone();

  std::vector<ScannedEntry>& entries;
  std::vector<std::pair<size_t, BlockRef>> blocks;
  Descent::Trust trust = Descent::Trust::kCache;
  bool is_too_far = false;   // the cached path was too old: repeat without the cache
  std::vector<size_t> gone;  // entries that FillBlocks found deleted
};

class Scanner {
 public:
  Scanner(TreeContext& context, Getter& getter) : context_(context), getter_(getter) {}

  // Appends the entries of the next `leaves` leaves (at most 32), in scan order, and advances
  // `position`.
  // Cost: 1 RT with a warm cache, and 1 RT more if there are value blocks.
  Task<Status> ScanLeaves(ScanPosition& position, size_t leaves,
                          std::vector<ScannedEntry>& entries);

  // Reads the values of `page.blocks`. If a block was replaced since, gets the value by its key; if
  // the key was deleted, adds the entry to `page.gone`.
  // Cost: 1 RT for up to 32 blocks or 2 MiB of them.
  Task<Status> FillBlocks(Op& op, ScanPage& page);

 private:
  enum class Moved : uint8_t { kToSibling, kTooFar };
  // Leaves that were read together: as the parents name them, and their bytes, not validated yet.
  struct LeafRun {
    std::vector<NodeCache::LeafRef> refs;
    BufferLease images;
  };

  Task<Status> ScanRight(Op& op, ScanPosition& position, size_t leaves, ScanPage& page);
  Task<Status> ScanLeft(Op& op, ScanPosition& position, size_t leaves, ScanPage& page);
  // Cost: 1 RT for all leaves that the cache knows, 1 RT for each other leaf.
  Task<Result<LeafRun>> ReadRun(Op& op, const ScanPosition& position, size_t leaves,
                                Descent::Trust trust);
  // READs all of `refs`, at most 32. Cost: 1 RT.
  Task<Status> ReadLeaves(Op& op, std::span<const NodeCache::LeafRef> refs,
                          const BufferLease& images);
  // Takes the leaf of `ref` from `image` or, if that is torn, reads it again. Corrects its hint.
  // Returns: the bytes read; an empty lease if `image` is whole.
  // Errors: Corruption if the leaf's low fence is not the parent's separator.
  Task<Result<BufferLease>> TakeLeaf(Op& op, const NodeCache::LeafRef& ref,
                                     std::span<const std::byte> image);
  // Moves `ref` from a leaf that ends before the parent's next leaf to its sibling. A repair makes
  // the downlink (rule W6).
  Result<Moved> MoveToSibling(const LeafView& leaf, ScanPage& page, NodeCache::LeafRef& ref);
  // READs blocks [first, last) of the page in 1 RT, and gets the keys of replaced ones.
  Task<Status> FillSome(Op& op, ScanPage& page, size_t first, size_t last);

  TreeContext& context_;
  Getter& getter_;
};

}  // namespace gossamer
