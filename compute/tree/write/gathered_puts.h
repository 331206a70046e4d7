// GatheredPuts: puts, inserts, updates and deletes of several coroutines that go out together.
//
// A group of writes of one kind goes through WritePipeline. A write goes on when its own leaf is
// written: it waits for no other memory server. What WritePipeline leaves is written by its own
// coroutine, where it may be done along with another's write.
//
// Writes of one key that are in flight together may take effect in any order.
//
// Thread-safety: none; one for each session.
// Cost: 2 RT, shared by the group. For a write that is not plain that of LeafWriter, and up to 2
// RT, shared, more.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/gather.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_writer.h"
#include "compute/tree/write/write_batch.h"
#include "compute/tree/write/write_pipeline.h"

namespace gossamer {

class GatheredPuts {
 public:
  GatheredPuts(TreeContext& context, WritePipeline& pipeline, LeafWriter& single);

  // Whether a write can join others.
  bool is_open(WriteMode mode) const { return writes_[static_cast<size_t>(mode)].is_open(); }
  // As LeafWriter::WriteUntilDone.
  Task<Status> Write(KeyView key, std::string_view value, WriteMode mode, Expiry expiry) {
    const bool is_too_much = !is_open(mode) && in_flight_ >= kMostInFlight;
    return is_too_much || !pipeline_.MayBePlain(key, value, expiry)
               ? single_.WriteUntilDone(key, value, mode, nullptr, expiry)
               : WriteTogether(key, value, mode, expiry);
  }

 private:
  // Bounds the memory of groups that wait for a silent server: some 170 KB each.
  static constexpr size_t kMostInFlight = 32;

  struct State;
  using Writes = Gather<KeyValueView, State>;
  friend Writes;
  // Of one group's writes.
  struct State {
    std::array<bool, kMostGathered> is_left;  // to its coroutine
    std::vector<Status> results = std::vector<Status>(kMostGathered, Ok());
    KeyOrder order;
  };

  Writes& writes(WriteMode mode) { return writes_[static_cast<size_t>(mode)]; }
  Task<Status> WriteTogether(KeyView key, std::string_view value, WriteMode mode, Expiry expiry);
  Task<void> Do(Writes::Group& group, WriteMode mode);
  void End(Writes::Group&) { --in_flight_; }

  WritePipeline& pipeline_;
  LeafWriter& single_;
  std::array<Writes, kWriteModes> writes_;  // by mode
  size_t in_flight_ = 0;                    // groups that have not ended; open groups count
};

}  // namespace gossamer
