// GetPipeline: takes the gets of many keys through the steps of a GetJob together.
//
// One traversal of the cache for all keys, one batch of READs for each memory server, completion in
// any order. A key that is not plain is left to Getter.
//
// Thread-safety: none; one for each session. Serves several coroutines, each with its own Chunk.
// Cost: 1 RT for up to kMaxKeys keys, and no coroutine, epoch guard, buffer lease or allocation for
// a key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/task.h"
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

  // What is known of some keys, and their groups. To be used again and again: it is costly to make.
  class Chunk {
   public:
    // Its value lives until the buffers are given back.
    const GetJob::Answer& answer(size_t i) const { return answers_[i]; }
    // Of what was prepared: each part is read from one memory server.
    std::span<const Part> parts() const { return parts_; }
    // Keys that are not plain.
    const Part& rest() const { return rest_; }
    // The values are not needed any more.
    void GiveBuffersBack() {
      buffers_ = {};
      room_ = 0;
    }

   private:
    friend class GetPipeline;
    Part& PartOf(Batch& batch);

    std::array<NodeCache::LeafSpot, kMaxKeys> spots_;
    std::array<GetJob, kMaxKeys> jobs_;
    std::array<GetJob::Answer, kMaxKeys> answers_;
    std::array<uint8_t, kMaxKeys>
        first_of_;  // the number of the first of equal neighbours: all have its answer
    ServerBatches batches_;
    std::vector<Part> parts_;
    Part rest_;
    BufferLease buffers_;
    size_t room_ = 0;  // keys that the buffers are for
  };

  explicit GetPipeline(TreeContext& context) : context_(context) {}

  // Takes buffers for `count` keys, unless `chunk` has them. Returns false if there are none.
  bool Reserve(Chunk& chunk, size_t count);
  // Sets the answers for `keys` (at most kMaxKeys), which live until the task ends. Counts the
  // operations that are answered.
  Task<void> Get(std::span<const KeyView> keys, Chunk& chunk);

  // Get in steps, for a caller that goes on with the keys of each part once its batch has ended.
  //
  // Finds the leaves, and makes the parts.
  void Prepare(std::span<const KeyView> keys, Chunk& chunk);
  // Sets the answers of a part, and counts its operations. Requires (unchecked): its batch has
  // ended.
  void Judge(std::span<const KeyView> keys, Chunk& chunk, const Part& part);
  // Counts the verbs of `op`, which has executed batches.
  void Count(const Op& op) { context_.counters.of(OperationClass::kRead) += op.wire; }

 private:
  TreeContext& context_;
};

}  // namespace gossamer
