// ManyGetter: gets the values of many keys for one caller.
//
// Chunks of keys go through GetPipeline, several chunks at a time. The keys that are not plain are
// got by themselves afterwards.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT for each chunk. For a key that is not plain that of Getter, and 1 RT, shared, more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/fabric/workers.h"
#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/tree/read/get.h"
#include "compute/tree/read/get_pipeline.h"
#include "compute/tree/tree_context.h"
#include "gossamer/values.h"

namespace gossamer {

class ManyGetter {
 public:
  ManyGetter(TreeContext& context, GetPipeline& pipeline, Getter& single)
      : context_(context), pipeline_(pipeline), single_(single) {}

  // values[i] is that of keys[i]. The keys and `values` live until the task ends.
  // Errors of a key: those of Getter::GetUntilDone.
  Task<void> Get(std::span<const KeyView> keys, Values& values);

 private:
  // Keys of one chunk: one traversal.
  static constexpr size_t kChunk = GetPipeline::kMaxKeys;
  // Most chunks in flight, and most keys that are got by themselves.
  static constexpr size_t kWindow = 2;
  static constexpr size_t kSingleWindow = 64;
  // Bytes of values that are got by themselves at a time, so that Values keeps about to its bound.
  // How long they are is not known
  // beforehand: those of the last calls tell. The first call of a session gets kSingleWindow.
  static constexpr size_t kBytesInFlight = size_t{4} << 20;

  // One call.
  struct Run {
    std::span<const KeyView> keys;
    Values& values;
    Workers& workers;
    size_t next = 0;              // the first key that no chunk has yet
    std::vector<uint32_t>& rest;  // keys to get by themselves
    size_t next_rest = 0;
    size_t largest = 0;  // bytes of a value, of those got by themselves
  };

  Task<void> Work(Run& run);
  // How many values of that size are got at a time.
  static size_t WindowFor(size_t value_bytes);
  void StartOnRest(Run& run, size_t value_bytes);
  Task<void> WorkOnRest(Run& run);

  TreeContext& context_;
  GetPipeline& pipeline_;
  Getter& single_;
  IdlePool<GetPipeline::Chunk> idle_;
  IdlePool<std::vector<uint32_t>> idle_rests_;
  size_t expected_bytes_ = 0;  // of a value: about the largest of late
};

}  // namespace gossamer
