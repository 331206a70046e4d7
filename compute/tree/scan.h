// Scanner: leaves are read whole, many at a time, and joined by their fences.
//
// A leaf is a consistent unit (rule R2); the next one is the one whose low fence is its high fence: the parent's cached
// word for it is checked against that, and the sibling pointer of the whole leaf fills what is missing (rule R3).
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

// Where a scan stands, and which way it goes.
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

// What a scan has found: entries in order, and those of them whose value is still in a block.
struct ScanPage {
  explicit ScanPage(std::vector<ScannedEntry>& scanned) : entries(scanned) {}

  // Adds the leaf's entries from `position` on, each key once (rule R6), in the order asked for.
  void Add(const LeafView& leaf, const ScanPosition& position);
  // Removes entries that FillBlocks found deleted: they were not there at that moment of the scan.
  void EraseGone();

  std::vector<ScannedEntry>& entries;
  std::vector<std::pair<size_t, BlockRef>> blocks;
  Descent::Trust trust = Descent::Trust::kCache;
  bool is_too_far = false;   // the cache's path was too old: again, without it
  std::vector<size_t> gone;  // entries that FillBlocks found deleted
};

class Scanner {
 public:
  Scanner(TreeContext& context, Getter& getter) : context_(context), getter_(getter) {}

  // Appends the entries of the next `leaves` leaves (at most 32), in scan order, and advances `position`. 1 RT with a warm
  // cache, and one more where there are value blocks.
  Task<Status> ScanLeaves(ScanPosition& position, size_t leaves,
                          std::vector<ScannedEntry>& entries);

  // Reads the values of `page.blocks`: 1 RT for up to 32 blocks or 2 MiB of them. A block that has been replaced since is
  // looked up by its key; one whose key has been deleted is in `page.gone`.
  Task<Status> FillBlocks(Op& op, ScanPage& page);

 private:
  enum class Moved : uint8_t { kToSibling, kTooFar };
  // Leaves that were read together: as the parents know them, and their bytes, not validated yet.
  struct LeafRun {
    std::vector<NodeCache::LeafRef> refs;
    BufferLease images;
  };

  Task<Status> ScanRight(Op& op, ScanPosition& position, size_t leaves, ScanPage& page);
  Task<Status> ScanLeft(Op& op, ScanPosition& position, size_t leaves, ScanPage& page);
  // 1 RT for what the cache knows of; 1 RT for each leaf that it does not know of yet.
  Task<Result<LeafRun>> ReadRun(Op& op, const ScanPosition& position, size_t leaves,
                                Descent::Trust trust);
  // READs all of `refs`, at most 32, in 1 RT.
  Task<Status> ReadLeaves(Op& op, std::span<const NodeCache::LeafRef> refs,
                          const BufferLease& images);
  // The leaf of `ref`, from `image` or, if that is torn, read again; the lease is empty if the image is whole. Fails with
  // Corruption if the leaf's low fence is not what the parent says. Corrects its hint.
  Task<Result<BufferLease>> TakeLeaf(Op& op, const NodeCache::LeafRef& ref,
                                     std::span<const std::byte> image);
  // From a leaf that ends before its parent's next to its sibling, whose downlink is made later (rule W6).
  Result<Moved> MoveToSibling(const LeafView& leaf, ScanPage& page, NodeCache::LeafRef& ref);
  // READs blocks [first, last) of the page in 1 RT, and looks up the keys of those that were replaced.
  Task<Status> FillSome(Op& op, ScanPage& page, size_t first, size_t last);

  TreeContext& context_;
  Getter& getter_;
};

}  // namespace gossamer
