// PlainGets: gets many keys together, as far as they are the plain case.
//
// One traversal of the cache for all keys, one batch of READs for each memory server, completion in
// any order, checks of the groups. A key that is not plain is left to Getter.
//
// Thread-safety: none; one for each session. Serves several coroutines, each with its own Chunk.
// Cost: 1 RT for up to kMaxKeys keys, and no coroutine, epoch guard, buffer lease or allocation for
// a key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/task.h"
#include "compute/session/server_batches.h"
#include "compute/tree/plain_get.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class PlainGets {
 public:
  static constexpr size_t kMaxKeys = Traversal::kMaxBatch;

  // What is known of some keys, and their groups. To be used again and again: it is costly to make.
  class Chunk {
   public:
    // Its value lives until the buffers are given back.
    const PlainGet::Answer& answer(size_t i) const { return answers_[i]; }
    // Of READs that were prepared, each for one memory server.
    std::span<Batch* const> batches() const { return batches_.used(); }
    // The one that answers a key; null for a key that is not plain.
    const Batch* batch_of(size_t i) const { return lookups_[i].batch; }
    // The values are not needed any more.
    void GiveBuffersBack() {
      buffers_ = {};
      room_ = 0;
    }

   private:
    friend class PlainGets;
    struct Lookup {
      PlainGet get;
      const Batch* batch = nullptr;  // with its READs; null if it is not plain
      uint32_t checksum = 0;         // of the bytes read of the home group
    };

    std::array<NodeCache::LeafSpot, kMaxKeys> spots_;
    std::array<Lookup, kMaxKeys> lookups_;
    std::array<PlainGet::Answer, kMaxKeys> answers_;
    ServerBatches batches_;
    BufferLease buffers_;
    size_t room_ = 0;  // keys that the buffers are for
  };

  explicit PlainGets(TreeContext& context) : context_(context) {}

  // Whether any key can be plain: without two-level versions a leaf is one unit, and read whole.
  bool is_possible() const { return context_.techniques().two_level_versions; }
  // Takes buffers for `count` keys, unless `chunk` has them. Returns false if there are none.
  bool Reserve(Chunk& chunk, size_t count);
  // Sets the answers for `keys` (at most kMaxKeys), which live until the task ends. Counts the
  // operations that are answered.
  Task<void> Get(std::span<const KeyView> keys, Chunk& chunk);

  // Get in steps, for a caller that goes on with the keys of each batch once that has ended.
  //
  // Finds the leaves, and fills the chunk's batches.
  void Prepare(std::span<const KeyView> keys, Chunk& chunk);
  // Sets the answers of the keys of `batch`, or of all keys if it is null. Counts what `op` has posted for them.
  // Requires: what it sets was executed.
  void Judge(std::span<const KeyView> keys, Chunk& chunk, const Batch* batch, const Op& op);

 private:
  // Sets the checksums of the home groups that were read, in interleaved streams.
  void SumHomes(Chunk& chunk, size_t count, const Batch* batch) const;

  TreeContext& context_;
};

}  // namespace gossamer
