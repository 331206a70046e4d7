// Scanner: reads leaves whole, many at a time and ahead, and joins them by their fences.
//
// A whole leaf is consistent (rule R2). The next leaf is the one whose low fence is this leaf's
// high fence: the separator in the cached parent is checked against it, and sibling pointers of
// whole leaves lead to leaves that the parent lacks (rule R3).
//
// A scan takes one leaf after the other from its run, checks and sorts it, and hands out its
// entries as views into the leaf's image. Once half of a run is taken, the READs of the next one go
// out, as many as the scan still wants. Where a leaf has values in blocks, the rest of the run is
// taken at once, so that the blocks of all its leaves are read together.
//
// Thread-safety: none; one for each session.
// Cost: no allocation for an entry or a leaf in the steady state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/leaf/entry_sorter.h"
#include "compute/tree/read/get.h"
#include "compute/tree/read/leaf_run.h"
#include "compute/tree/read/scan_blocks.h"
#include "compute/tree/read/scan_page.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/batch_writer.h"
#include "proto/leaf.h"

namespace gossamer {

// What a scan wants, and how far it is.
struct ScanState {
  ScanRange range;
  uint64_t left = 0;  // entries wanted and not taken yet
  // When its runs were collected.
  uint32_t period = 0;
  Moment looked_up;
  ScanPosition position;
  bool has_passed = false;  // a leaf
  uint64_t resume_at = 0;   // not 0: the bookmark at which the scan begins
  // Ends at a bookmark once `left` is 0: at this one.
  bool to_bookmark = false;
  std::optional<ScanBookmark> bookmark;
  // Where a path last led to wrong leaves, and how often in a row. What is fetched in between may
  // be right, and yet lead there.
  ScanPosition failed_at;
  uint32_t failures = 0;
  size_t taken = 0;  // entries of the page
  // The block of a long key that was not what its leaf said, and how often in a row.
  uint64_t missed_block = 0;
  uint32_t times_missed = 0;

  LeafRun* run = nullptr;
  size_t at = 0;  // the next leaf of `run`
  Descent::Trust run_trust = Descent::Trust::kCache;
  LeafRun* next = nullptr;  // read ahead
  bool may_read_ahead = true;
  size_t run_leaves = 4;  // of the next run, if there is no limit; each has twice as many

  // A leaf ended before the next one of the run starts: this one, its sibling, follows.
  std::optional<NodeCache::LeafRef> hop;
  NodeCache::LeafRef ended_early;  // that leaf
  // The sibling of the leaf taken last: the only one that may be used if it is frozen.
  RemotePtr named;
  bool is_named_at_position = false;              // whether it starts there
  Descent::Trust trust = Descent::Trust::kCache;  // for the next run
};

// One scan. Its buffers are used again for the next one.
struct Scan : ScanState {
  ScanPage page;
  std::vector<size_t> blocks;  // entries whose blocks are being read
  std::vector<size_t> gone;    // those of them that were deleted meanwhile

  // Whether it has all that it wants, and ends at the next bookmark.
  bool WantsBookmark() const { return to_bookmark && left == 0; }
  // Makes the bookmark of the leaf at the position, if its low fence is short. Returns whether.
  bool MarkLeaf();
};

class Scanner {
 public:
  Scanner(TreeContext& context, Getter& getter, BatchWriter& batches)
      : context_(context), batches_(batches), filler_(context, getter) {}

  // Requires: `range` is not empty. Close must follow.
  std::unique_ptr<Scan> Open(ScanRange range, uint64_t limit);
  // READs ahead of the scan may be in flight. Requires (unchecked): no Fetch of the scan is
  // awaited.
  void Close(std::unique_ptr<Scan> scan);

  enum class State : uint8_t {
    kReady,  // Take() has entries
    kWaits,  // Fetch() must be awaited
    kEnded,
  };
  // Goes on without waiting.
  State Advance(Scan& scan);
  // The entries that are ready, at least one. They stay until the next call of Advance.
  // Requires: Advance returned kReady.
  static std::span<const ScanEntry> Take(Scan& scan);
  // Waits for what the scan needs next.
  // Errors: NodeUnreachable, Corruption, NoResources. The scan ends.
  // Cost: 1 RT for up to 32 leaves, or 32 value blocks or 2 MiB of them. With a warm cache, and
  // READ ahead, often none.
  Task<Status> Fetch(Scan& scan);

  // Sorts for others.
  EntrySorter& sorter() { return sorter_; }
  BlockFiller& filler() { return filler_; }

 private:
  Task<Status> FetchSome(Op& op, Scan& scan);
  // Counts a failure at the scan's position.
  static bool HasFailedTooOften(Scan& scan);
  // Takes the next leaf of the run if it needs no READ. Returns false if it does.
  bool TakeNext(Scan& scan);
  // Sets the position to that of the bookmark at which the scan begins, if it is not lost.
  Task<Status> Resume(Op& op, Scan& scan);
  // Makes the bookmark of an internal node that starts at the position, if one does.
  Task<Status> MarkParent(Op& op, Scan& scan);
  // Moves over leaves of the run that a merge has left behind the position of a forward scan.
  static void SkipPassed(Scan& scan);
  // Goes on to the run that was read ahead, if it is there and of use.
  bool TakeNextRun(Scan& scan);
  // Makes `scan.run` the run at the position.
  // Cost: 1 RT for all leaves that the cache knows, 1 RT for each other leaf.
  Task<Status> BeginRun(Op& op, Scan& scan);
  void DropRuns(Scan& scan);
  // Drops runs of an earlier period, or before a new lease: a scan may rest for any time, and its
  // pointers are not waited for.
  void DropOldRuns(Scan& scan);
  // READs the next run if half of this one is taken and the scan will want it.
  void ReadAhead(Scan& scan);
  size_t LeavesFor(uint64_t entries, Scan& scan) const;

  // The leaf at the position and, if it ended early, its siblings.
  Task<Status> StepRight(Op& op, Scan& scan);
  Task<Status> StepLeft(Op& op, Scan& scan);
  // Adds a leaf to the page and moves the position behind it.
  void PassRight(Scan& scan, const NodeCache::LeafRef& ref, const LeafView& leaf);
  // Whether the leaf reaches up to the position of a reverse scan.
  static bool Reaches(const Scan& scan, const LeafView& leaf);
  // Returns how many entries the leaf has.
  size_t AddLeaf(Scan& scan, const LeafView& leaf, bool reaches_below, bool reaches_above);
  // Moves past the leaf `at` of the run.
  static void PassLeft(Scan& scan);

  // Takes the leaf of `ref` from `image` or, if that is torn or empty, reads it (again) into a
  // buffer of the page. `ref` outlives the view. `came_over_left`: from the left neighbour, so that
  // a frozen leaf may be read (R8).
  // Errors: Corruption if the leaf's low fence is not the parent's separator, or the path to it is
  // of the past.
  Task<Result<LeafView>> ReadLeaf(Op& op, ScanPage& page, const NodeCache::LeafRef& ref,
                                  std::span<const std::byte> image, bool came_over_left);
  // Goes on to `sibling`, behind the leaf `from` that ended early. A repair makes the downlink
  // (W6: until then the sibling pointer leads there). Returns the leaf as it is cached by now;
  // nullopt if the cached path is too far behind the tree.
  // Errors: Corruption if there is no sibling.
  Result<std::optional<NodeCache::LeafRef>> Follow(Scan& scan, const NodeCache::LeafRef& from,
                                                   const NodeCache::LeafRef& sibling);
  // Corrects the hint of the leaf.
  void LearnFrom(const NodeCache::LeafRef& ref, const LeafView& leaf);
  // READs the values that come next in the page.
  Task<Status> FillBlocks(Op& op, Scan& scan);
  // Collects the entries that are not ready and before `end`, and have blocks.
  static void CollectBlocks(Scan& scan, size_t end);
  // Drops all entries that are not ready, to read their leaves again.
  void ReadAgain(Scan& scan);
  // The same: the block of a long key is not what its leaf says.
  // Errors: Corruption if the leaf, read again and again, says the same of that block.
  Task<Status> StartAgain(Scan& scan, const BlockRef& missed);

  TreeContext& context_;
  BatchWriter& batches_;
  BlockFiller filler_;
  LeafRuns runs_{context_};
  EntrySorter sorter_;
  std::vector<std::unique_ptr<Scan>> idle_;
  std::vector<NodeCache::LeafRef> found_;
  // Mean number of entries in the leaves seen of late, in sixteenths. To begin with, less than a
  // leaf of random keys usually has.
  uint64_t leaf_entries_ = 25 * 16;
};

}  // namespace gossamer
