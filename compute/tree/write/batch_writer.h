// BatchWriter: the writes of one MultiPut, MultiDelete, MultiModify or LoadSorted.
//
// The writes are sorted. Those of leaves with few of them, and modifications, go through one
// pipeline, as far as they are plain (WritePipeline). Of the rest, the cache tells how many lie in
// one leaf; that is a guess, and the leaf's fences under its lock decide (LeafWriter::WriteGroup).
// Groups of one call run together. What is not plain is done write by write: values in blocks, keys
// that the store cannot hold, groups for which a split found no memory, and all that is left of a
// MultiModify.
//
// Modifications of values in blocks are planned: a reader brings the values, and the pipeline writes
// what becomes of them, if the leaf has still what was read. Those that keep their keys as they are
// need no lock then. It depends on the last call whether all are planned at once, or those that have
// turned out under the lock to need it.
//
// Thread-safety: none; one for each session.
// Cost: no allocation in the steady state but for splits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/read/get_pipeline.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_writer.h"
#include "compute/tree/write/operation_sequence.h"
#include "compute/tree/write/write_batch.h"
#include "compute/tree/write/write_pipeline.h"
#include "gossamer/modifier.h"

namespace gossamer {

class BatchWriter {
 public:
  BatchWriter(TreeContext& context, GetPipeline& reader, LeafWriter& writer,
              WritePipeline& pipeline)
      : context_(context), reader_(reader), writer_(writer), pipeline_(pipeline) {}

  // results[i] is that of pairs[i] or keys[i]. The spans live until the task ends.
  Task<void> Put(std::span<const KeyValueView> pairs, std::span<Status> results);
  // `mode`: kDelete or kExpire.
  Task<void> Remove(std::span<const std::string_view> keys, WriteMode mode,
                    std::span<Status> results);
  // Removes those of `keys` that have expired. Errors: those of deletes.
  Task<Status> Expire(std::span<const std::string_view> keys);
  // As Put. Errors: as LeafWriter::ModifyUntilDone, for each.
  Task<void> Modify(std::span<const KeyModifier> modifiers, std::span<Status> results);
  // As Session::LoadSorted.
  Task<SortedLoad> Load(std::span<const KeyValueView> pairs, double fill);

 private:
  // Most groups in flight.
  static constexpr size_t kWindow = 64;
  // Most chunks of keys that are read at a time.
  static constexpr size_t kReadWindow = 4;
  // So few modifications are not worth being read together.
  static constexpr size_t kFewUndone = 1;
  // Most writes under one lock.
  static constexpr size_t kMostWrites = 4096;
  // Most bytes of their values in blocks, which have buffers until the leaf is written.
  static constexpr size_t kMostBytes = size_t{256} << 10;

  // Writes that probably lie in one leaf; of a MultiModify, those of one key.
  struct Group {
    size_t first = 0;
    size_t end = 0;
    bool is_plain = false;
    NodeCache::Step path;         // without a node if it is not cached
    std::optional<Moment> began;  // of that lookup (R9: no pointer of an earlier lease)
  };
  // The groups of some ranges of a batch, each from left to right.
  struct Call {
    WriteBatch& batch;
    std::span<const WriteBatch::Range> ranges;
    size_t next_range = 0;
    size_t next = 0;             // the first write of the present range that no group has yet
    size_t end = 0;              // of the present range
    uint64_t critical_path = 0;  // round trips: see OperationSequence
  };

  // Kept for the next call.
  struct Scratch {
    KeyOrder order;
    std::vector<KeyValueView> pairs;
    std::vector<Modification> modifications;
    std::vector<WriteBatch::Range> rest;
    std::vector<size_t> undone;  // indices of modifications that are to be planned
    std::vector<KeyModifier> modifiers;
    std::vector<Status> results;
  };
  // Of PlanAll.
  struct Planning {
    WriteBatch& batch;
    std::vector<KeyValueView>& pairs;  // those of the batch
    size_t next = 0;
    size_t worth_it = 0;  // those that keep their keys, or whose value was or will be in a block
  };

  Task<void> Write(WriteBatch& batch, std::vector<WriteBatch::Range>& rest);
  // Does what is left of a batch.
  Task<void> WriteRest(WriteBatch& batch, std::span<const WriteBatch::Range> rest);
  // Does modifications together, and by itself what is not plain. If they are not planned, those
  // that need it are `undone` afterwards, unless they are few.
  Task<void> ModifyTogether(std::span<const KeyModifier> modifiers, std::span<Status> results,
                            bool are_planned, Scratch& scratch);
  // Moves modifications out of `rest` to `undone`, if it is worth while to plan them.
  static void ChooseUndone(const WriteBatch& batch, Scratch& scratch);
  // Plans the modifications of keys that a reader finds plain, each the only one of its key.
  Task<void> PlanAll(Planning& planning);
  Task<void> PlanSome(Planning& planning);
  void PlanOne(Planning& planning, size_t position, const GetJob::Answer& answer) const;
  // Begins the next range if the present one has ended. Returns false if there is none.
  static bool StartRange(Call& call);
  Group NextGroup(Call& call);
  // Finds the end of the writes from `first` on, before `limit`, whose keys lie below `fence`:
  // `first` itself does.
  static size_t FindEnd(const WriteBatch& batch, size_t first, size_t limit,
                        const HighFence& fence);
  Task<void> Work(Call& call);
  Task<void> WriteGroup(WriteBatch& batch, Group group, OperationSequence& sequence);
  // Each write by itself, in order. `path` is that of the first, and `began` is when it was looked
  // up.
  Task<void> WriteSingly(WriteBatch& batch, size_t first, size_t end, OperationSequence& sequence,
                         NodeCache::Step path = {}, std::optional<Moment> began = std::nullopt);
  // After the commit of [first, end) ended as MaybeApplied: what wrote nothing is tried again.
  Task<void> SettleMaybeApplied(WriteBatch& batch, size_t first, size_t end, const Status& status,
                                OperationSequence& sequence);

  TreeContext& context_;
  GetPipeline& reader_;
  LeafWriter& writer_;
  WritePipeline& pipeline_;
  IdlePool<Scratch> idle_;
  IdlePool<GetPipeline::Chunk> idle_reads_;
  bool plans_at_once_ = false;
};

}  // namespace gossamer
