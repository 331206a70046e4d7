// Tree: one session's access to the B-link tree of a store.
//
// Every operation is a coroutine that posts batches of one-sided verbs and validates what they
// return. proto/ has the layouts. PROTOCOL.md argues each step; docs/architecture.md says which
// part does what.
//
// Sources: Lehman & Yao '81 (B-link), Sherman (SIGMOD'22; lock tables, command combining, two-level
// versions).
//
// Thread-safety: none; a Tree belongs to its session's thread. StoreState has what sessions share.
// Cost, for 8-byte keys and values with a warm cache and no contention:
//   - get: 1 RT
//   - update, insert, delete: 2 RT; with a lock handed over 1 RT
//   - insert that splits: 3 RT; 4 RT if the leaf was not known to be full
//   - scan: 1 RT for each 32 leaves, most of which pass while earlier leaves are used
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/tree/read/cache_filler.h"
#include "compute/tree/read/gathered_gets.h"
#include "compute/tree/read/get.h"
#include "compute/tree/read/get_many.h"
#include "compute/tree/read/get_pipeline.h"
#include "compute/tree/read/scan.h"
#include "compute/tree/shape/leaf_split.h"
#include "compute/tree/shape/merger.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/shape/repairs.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/batch_writer.h"
#include "compute/tree/write/gathered_puts.h"
#include "compute/tree/write/leaf_job.h"
#include "compute/tree/write/leaf_rewriter.h"
#include "compute/tree/write/leaf_writer.h"
#include "compute/tree/write/range_deleter.h"
#include "compute/tree/write/write_pipeline.h"

namespace gossamer {

class Tree final : TreeEvents {
 public:
  Tree(StoreState& store, Scheduler& scheduler) : context_(store, scheduler, *this) {}

  // The operations of a session.
  Getter& getter() { return getter_; }
  GatheredGets& gathered_gets() { return gathered_gets_; }
  ManyGetter& many_gets() { return many_getter_; }
  LeafWriter& writer() { return writer_; }
  GatheredPuts& gathered_puts() { return gathered_puts_; }
  BatchWriter& batches() { return batches_; }
  RangeDeleter& ranges() { return range_deleter_; }
  Scanner& scanner() { return scanner_; }

  // Reads by pointer, for `check`. As NodeReader and BlockReader, but with lost queue pairs
  // replaced.
  Task<Result<RootWord>> ReadRoot();
  // The node at `level` that covers `key`, as Descent::To finds it without the cache.
  Task<Result<NodeCache::Step>> FindNode(Key key, uint32_t level);
  Task<Result<InternalNode>> ReadInternal(RemotePtr pointer);
  // Returns the bytes of the leaf that starts at `low`, which LeafView::Parse accepts.
  Task<Result<std::vector<std::byte>>> ReadLeaf(RemotePtr pointer, Key low);
  Task<Result<std::optional<std::string>>> ReadBlock(BlockRef block);

  // For what walks the tree by itself (compute/store/walking).
  TreeContext& context() { return context_; }
  LiveCounters& counters() { return context_.counters; }
  const SessionFigures& figures() const { return context_.figures; }
  const StoreState& shared() const { return context_.store; }
  RemoteAllocator& shared_allocator() { return context_.store.allocator; }
  Scheduler& scheduler() { return context_.links.scheduler(); }
  Merger& merger() { return merger_; }
  // Number of background tasks that run: repairs, merges, and what gives memory back.
  size_t background() const {
    return repairs_.running() + merger_.helping() + (context_.memory.is_giving_back() ? 1 : 0);
  }

 private:
  void OnCacheMiss() override { filler_.NoteMiss(); }
  void OnHop(RemotePtr left, uint32_t level, const Key& low) override {
    repairs_.Start(left, level, low);
  }
  void OnSparseLeaf(const Key& key) override { merger_.NoteSparse(key); }
  Task<Status> FinishMerge(Op& op, const Key& left) override { return merger_.Absorb(op, left); }

  TreeContext context_;
  LeafLocker leaves_{context_};
  ParentLinker parents_{context_};
  Repairs repairs_{context_, parents_};
  CacheFiller filler_{context_};
  LeafSplitter splitter_{context_, leaves_, parents_};
  LeafCommitter committer_{context_, leaves_};
  LeafRewriter rewriter_{context_, leaves_, committer_, splitter_};
  LeafWriter writer_{context_, leaves_, splitter_, committer_, rewriter_};
  Getter getter_{context_, leaves_, writer_};
  GetPipeline get_pipeline_{context_};
  ManyGetter many_getter_{context_, get_pipeline_, getter_};
  GatheredGets gathered_gets_{context_, get_pipeline_, getter_};
  Merger merger_{context_, leaves_, parents_};
  WritePipeline write_pipeline_{context_, leaves_, committer_, writer_};
  GatheredPuts gathered_puts_{context_, write_pipeline_, writer_};
  BatchWriter batches_{context_, get_pipeline_, writer_, write_pipeline_};
  Scanner scanner_{context_, getter_, batches_};
  RangeDeleter range_deleter_{context_, scanner_, batches_, merger_};
};

}  // namespace gossamer
