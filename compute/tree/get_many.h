// ManyGetter: gets the values of many keys through one pipeline.
//
// Chunks of keys go through these steps, several chunks at a time: one traversal of the cache, one
// batch of READs for each memory server, completion in any order, checks of the groups, values. A
// key that is not the plain case is got by itself afterwards: its leaf is not cached, its group is
// torn or of another leaf, it may be in an overflow group that no hint announced, its value is in a
// block, or a verb failed.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT for each chunk, and no coroutine, epoch guard, buffer lease or allocation for a key.
// For a key that is not plain that of Getter, and 1 RT, shared, more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/tree/get.h"
#include "compute/tree/tree_context.h"
#include "gossamer/values.h"

namespace gossamer {

class ManyGetter {
 public:
  ManyGetter(TreeContext& context, Getter& single);
  ~ManyGetter();

  // values[i] is that of keys[i]. The keys and `values` live until the task ends.
  // Errors of a key: those of Getter::GetUntilDone.
  Task<void> Get(std::span<const KeyView> keys, Values& values);

 private:
  // Keys of one chunk: one traversal.
  static constexpr size_t kChunk = Traversal::kMaxBatch;
  // Most chunks in flight, and most keys that are got by themselves.
  static constexpr size_t kWindow = 2;
  static constexpr size_t kSingleWindow = 64;

  struct Lookup;
  struct Chunk;
  // One call.
  struct Run {
    std::span<const KeyView> keys;
    Values& values;
    size_t next = 0;              // the first key that no chunk has yet
    std::vector<uint32_t>& rest;  // keys to get by themselves
    size_t next_rest = 0;
  };

  Task<void> Work(Run& run);
  Task<void> WorkOnRest(Run& run);
  Task<void> GetChunk(Run& run, Chunk& chunk, size_t first, size_t count);
  // Adds the READs for a key to the batch of its server. Returns false if it is not plain.
  bool AddReads(Chunk& chunk, size_t i, KeyView key) const;
  // Sets the checksums of the home groups that were read, in interleaved streams.
  void SumHomes(Chunk& chunk, size_t count) const;
  // Takes the value from what was read. Returns false if the key is not plain.
  bool TakeValue(const Chunk& chunk, size_t i, KeyView key, Values& values, size_t position);

  TreeContext& context_;
  Getter& single_;
  IdlePool<Chunk> idle_;
  IdlePool<std::vector<uint32_t>> idle_rests_;
};

}  // namespace gossamer
