// GetPipeline: takes the gets of many keys through the steps of a GetJob together.
//
// One traversal of the cache for all keys, one batch of READs for each memory server, completion in
// any order; then the same for the blocks of those whose values are in blocks. A key that is not
// plain is left to Getter.
//
// Thread-safety: none; one for each session. Serves several coroutines, each with its own Chunk.
// Cost: 1 RT for up to kMaxKeys keys, 1 RT more for all their blocks, and no coroutine, epoch
// guard, buffer lease or allocation for a key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/node/block_reads.h"
#include "compute/session/server_batches.h"
#include "compute/tree/read/get_job.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class GetPipeline {
 public:
  static constexpr size_t kMaxKeys = kMaxGroup;

  // The keys, by their number, whose READs are in one batch.
  struct Part {
    Batch* batch = nullptr;
    std::array<uint8_t, kMaxKeys> numbers;
    size_t count = 0;

    std::span<const uint8_t> keys() const { return std::span(numbers).first(count); }
    void Add(size_t number) { numbers[count++] = static_cast<uint8_t>(number); }
  };

  // The blocks of some keys' values.
  struct Blocks {
    BlockReads reads;
    std::array<uint8_t, kMaxKeys> read_of;  // by the number of the key, if that is no equal one's
    std::vector<Part> parts;                // each is read from one memory server
    Part rest;                              // keys whose blocks are not read
  };
  using BlocksLease = IdlePool<Blocks>::Lease;

  // What is known of some keys, and their groups. To be used again and again: it is costly to make.
  class Chunk {
   public:
    // Its value lives until the buffers are given back.
    const GetJob::Answer& answer(size_t i) const { return answers_[i]; }
    // Of what was prepared: each part is read from one memory server.
    std::span<const Part> parts() const { return parts_; }
    // Keys that are not plain.
    const Part& rest() const { return rest_; }
    // Of Get: keys whose values are in blocks.
    const Part& in_blocks() const { return in_blocks_; }
    // The values are not needed any more.
    void GiveBuffersBack() {
      buffers_ = {};
      guesses_ = {};
      blocks_.clear();
      room_ = 0;
    }

   private:
    friend class GetPipeline;

    std::array<NodeCache::LeafSpot, kMaxKeys> spots_;
    std::array<GetJob, kMaxKeys> jobs_;
    std::array<GetJob::Answer, kMaxKeys> answers_;
    std::array<uint8_t, kMaxKeys>
        first_of_;  // the number of the first of equal neighbours: all have its answer
    ServerBatches batches_;
    std::vector<Part> parts_;
    Part rest_;
    Part in_blocks_;
    Part aimed_;  // whose groups are read
    BufferLease buffers_;
    BufferLease guesses_;              // of blocks that are read along
    std::vector<BufferLease> blocks_;  // one for each call of PrepareBlocks
    size_t room_ = 0;                  // keys that the buffers are for
  };

  explicit GetPipeline(TreeContext& context) : context_(context) {}

  // Takes buffers for `count` keys, unless `chunk` has them. Returns false if there are none.
  bool Reserve(Chunk& chunk, size_t count);
  // Sets the answers for `keys` (at most kMaxKeys), which live until the task ends. Counts the
  // operations that are answered.
  Task<void> Get(Op& op, std::span<const KeyView> keys, Chunk& chunk);
  // Sets the answers for the keys of `in_blocks`, as many as one buffer holds, and counts these
  // operations. The others stay as they were. Requires (unchecked): `op` has read the groups.
  // Cost: 1 RT.
  Task<void> GetBlocks(Op& op, std::span<const KeyView> keys, Chunk& chunk, const Part& in_blocks);

  // Both in steps, for a caller that goes on with the keys of each part once its batch has ended.
  //
  // Finds the leaves, and makes the parts.
  void Prepare(std::span<const KeyView> keys, Chunk& chunk);
  // Sets the answers of a part, and counts its operations. Adds the keys whose values are in blocks
  // to `in_blocks`. Requires (unchecked): its batch has ended.
  void Judge(std::span<const KeyView> keys, Chunk& chunk, const Part& part, Part& in_blocks);
  // Makes the parts of the keys' blocks.
  BlocksLease TakeBlocks() { return idle_blocks_.Take(); }
  void PrepareBlocks(std::span<const KeyView> keys, Chunk& chunk, const Part& in_blocks,
                     Blocks& blocks);
  // As Judge.
  void JudgeBlocks(std::span<const KeyView> keys, Chunk& chunk, const Blocks& blocks,
                   const Part& part);
  // Counts the verbs of `op`, which has executed batches.
  void Count(const Op& op) { context_.counters.of(OperationClass::kRead) += op.wire; }

 private:
  // Adds the READs of the keys that are aimed, and makes the parts. `guess_bytes`: of their blocks.
  void AddReads(Chunk& chunk, size_t guess_bytes);
  static Part& PartOf(std::vector<Part>& parts, Batch& batch);
  void CountAnswered(uint64_t operations);

  TreeContext& context_;
  IdlePool<Blocks> idle_blocks_;
};

}  // namespace gossamer
