// ManyGetter: gets the values of many keys for one caller.
//
// Chunks of keys go through PlainGets, several chunks at a time. The keys that are not plain are
// got by themselves afterwards.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT for each chunk. For a key that is not plain that of Getter, and 1 RT, shared, more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/tree/get.h"
#include "compute/tree/plain_gets.h"
#include "compute/tree/tree_context.h"
#include "gossamer/values.h"

namespace gossamer {

class ManyGetter {
 public:
  ManyGetter(TreeContext& context, PlainGets& plain, Getter& single)
      : context_(context), plain_(plain), single_(single) {}

  // values[i] is that of keys[i]. The keys and `values` live until the task ends.
  // Errors of a key: those of Getter::GetUntilDone.
  Task<void> Get(std::span<const KeyView> keys, Values& values);

 private:
  // Keys of one chunk: one traversal.
  static constexpr size_t kChunk = PlainGets::kMaxKeys;
  // Most chunks in flight, and most keys that are got by themselves.
  static constexpr size_t kWindow = 2;
  static constexpr size_t kSingleWindow = 64;

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

  TreeContext& context_;
  PlainGets& plain_;
  Getter& single_;
  IdlePool<PlainGets::Chunk> idle_;
  IdlePool<std::vector<uint32_t>> idle_rests_;
};

}  // namespace gossamer
