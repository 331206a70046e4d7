// WritePipeline: takes the writes of many leaves through the steps of a LeafJob together.
//
// Chunks of a sorted batch of writes go through one traversal of the cache. The leaves of each
// memory server then form a *lane*, which goes through these steps: for each leaf, its turn if that
// is free; one batch with the CAS of every leaf's lock and the READs behind it; the changes, in the
// images; one batch with every leaf's WRITEs and release. A leaf's verbs stay together, in the
// order of a single write. Each leaf's job fails or succeeds by itself. Lanes run at the same time
// and do not wait for each other: while a server is silent, no lock of another one stays held.
//
// A leaf that is not the plain case is left to the caller, without its lock: its turn or its lock
// is another's, it is not cached or not the keys' any more, it has many puts or deletes, a unit is
// torn, full or was not read, a value is long, or a verb failed.
//
// Values that a leaf does not store itself go to blocks, if possible on the leaf's server. Their
// WRITEs are in the batch of the locks then; those to other servers are acknowledged before a lock
// is tried.
//
// Locks and turns are only tried. Nothing waits for one while it has another (rule W5).
//
// Thread-safety: none; one for each session.
// Cost: 2 RT for each chunk, 1 RT more if some blocks are on other servers than their leaves; one
// coroutine for each server, and no coroutine, buffer lease or allocation for a leaf. For a leaf
// that is not plain that of its writes by themselves, and up to 2 RT, shared, more.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/node/new_block.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"
#include "compute/tree/write/leaf_writer.h"
#include "compute/tree/write/write_batch.h"

namespace gossamer {

class WritePipeline {
 public:
  WritePipeline(TreeContext& context, const LeafLocker& leaves, const LeafCommitter& committer,
                LeafWriter& writer);
  ~WritePipeline();

  // Told once for each write what became of it: it has its result, or is left to the caller. From
  // then on WritePipeline uses neither its key nor its value: the caller may free them. Must not
  // wait.
  using Tell = std::function<void(WriteBatch::Range writes, bool are_left)>;

  // Whether a write can be plain, as far as that is known without its leaf.
  bool MayBePlain(KeyView key, std::string_view value, Expiry expiry) const {
    return key.size() <= context_.store.inline_limits.KeyBytes(expiry.is_stored()) &&
           value.size() <= WriteBatch::kLongestTogether;
  }
  // Does the plain writes of `batch` and sets their results. The others are left to the caller, in
  // ranges that do not divide the writes of a key. Only after MaybeApplied a range may begin
  // between two of them. What is done and what is left is told as soon as it is known, while other
  // leaves are under way.
  // `began`: when what its modifications are planned for was read (R9), if any of them is.
  Task<void> Write(WriteBatch& batch, Tell tell, std::optional<Moment> began = std::nullopt);

 private:
  // Writes of one chunk: one traversal.
  static constexpr size_t kChunk = kMaxGroup;
  // Above this many puts or deletes, first check that they lie in many leaves: a full chunk is
  // often one leaf's, or two leaves'.
  static constexpr size_t kAtOnce = kChunk / 2;
  // Most chunks in flight.
  static constexpr size_t kWindow = 2;

  // Not set: it has ended, or was never plain. Its lock is not held.
  using Job = std::optional<LeafJob>;
  struct Lane;
  struct Chunk;
  // One call.
  struct Call {
    WriteBatch& batch;
    const Tell& tell;
    std::optional<Moment> began;
    size_t next = 0;  // the first write that no chunk has yet

    void Done(WriteBatch::Range writes) const { tell(writes, false); }
    void Leave(WriteBatch::Range writes) const { tell(writes, true); }
  };

  Task<void> Work(Call& call);
  // Returns false if the cache places either half of the chunk's first `count` keys in one leaf;
  // true if it has none of their leaves. Requires: the keys ascend. Cost: two lookups.
  bool HasManyLeaves(const Chunk& chunk, size_t count) const;
  // Takes the next writes of the batch. Writes that may be plain become jobs of the chunk's lanes;
  // the others are left.
  void Take(Call& call, Chunk& chunk);
  // Returns false if the writes are not plain.
  bool TakeJob(const Call& call, Chunk& chunk, WriteBatch::Range writes,
               const NodeCache::LeafSpot& spot);
  // Of writes of one leaf; `limit`: the end of the chunk.
  bool IsPlain(const WriteBatch& batch, WriteBatch::Range writes, size_t limit) const;
  // Whether more than LeafJob::kFew writes of one leaf may be plain. Puts and deletes that are so
  // many are cheaper as a leaf written whole, which modifications cannot be. A commit must be able
  // to write all units.
  bool MayBeMany(WriteMode mode) const;
  // Of an entry whose value is not in a block yet.
  bool NeedsBlock(const Entry& entry) const {
    return entry.stored.size() > context_.store.inline_limits.value_bytes;
  }
  Task<void> WriteLane(Call& call, Chunk& chunk, Lane& lane);
  // Gives the writes that need them their blocks, and adds the WRITEs to other servers to a batch
  // of the lane. A job that does not get all is left.
  void GiveBlocks(const Call& call, Chunk& chunk, Lane& lane);
  // What the lock's CAS and the READs have brought: applies the writes to the leaf's image, if they
  // are plain.
  void Edit(Call& call, Chunk& chunk, Job& job) const;
  // Ends a job whose lock is not held, and leaves its writes.
  static void GiveUp(const Call& call, Chunk& chunk, Job& job);
  void AddCommit(Lane& lane, LeafJob& job) const;
  // Once the commit has ended with `result`.
  void Conclude(Call& call, Chunk& chunk, Lane& lane, Job& job, const Status& result);
  // For a job of which a verb ended in an unknown way.
  Task<void> Settle(Call& call, Chunk& chunk, Lane& lane, Job& job);
  // Call when the lane has ended: gives its buffers back, frees the blocks that its writes
  // replaced, and counts its verbs.
  void End(const Call& call, Chunk& chunk, Lane& lane);

  TreeContext& context_;
  const LeafLocker& leaves_;
  const LeafCommitter& committer_;
  LeafWriter& writer_;
  IdlePool<Chunk> idle_;
};

}  // namespace gossamer
