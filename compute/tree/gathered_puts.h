// GatheredPuts: puts, inserts, updates and deletes of several coroutines that go out together.
//
// A write joins the group of its kind that is open, or opens one. The group closes in the scheduler's next round, when
// every coroutine that was ready has run, and goes through ManyLeafWriter. A write goes on when its own leaf is written: it
// waits for no other memory server. What ManyLeafWriter leaves is written by its own coroutine, where it may be done along
// with another's write. A write that is one of few in its session does not wait for others.
//
// Writes of one key that are in flight together may take effect in any order.
//
// Thread-safety: none; one for each session.
// Cost: 2 RT, shared by the group. For a write that is not plain that of LeafWriter, and up to 2 RT, shared, more.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/leaf_writer.h"
#include "compute/tree/many_leaf_writer.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write_batch.h"

namespace gossamer {

class GatheredPuts {
 public:
  GatheredPuts(TreeContext& context, ManyLeafWriter& leaves, LeafWriter& single)
      : running_(context.running),
        scheduler_(context.links.scheduler()),
        leaves_(leaves),
        single_(single) {}

  // As LeafWriter::WriteUntilDone.
  Task<Status> Write(KeyView key, std::string_view value, WriteMode mode) {
    return GoesAlone(mode) || !leaves_.MayBePlain(key, value)
               ? single_.WriteUntilDone(key, value, mode)
               : WriteTogether(key, value, mode);
  }

 private:
  // So many coroutines of a session take less time by themselves: a group has its own cost.
  static constexpr size_t kFew = 4;
  // Bounds the memory of groups that wait for a silent server: some 170 KB each.
  static constexpr size_t kMostInFlight = 32;
  // Half of what one traversal can take: while one group is on its way, the writes of another begin.
  static constexpr size_t kMost = Traversal::kMaxBatch / 2;

  // Writes of one mode.
  struct Group {
    size_t size = 0;
    std::array<KeyValueView, kMost> pairs;
    std::array<std::coroutine_handle<>, kMost> waiters;
    std::array<bool, kMost> is_left;  // to its coroutine
    std::vector<Status> results = std::vector<Status>(kMost, Ok());
    WriteBatch::Order order;
  };
  // co_await Joining: the result; nullopt if the write is left to the caller.
  struct Joining {
    Group& group;
    size_t index;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { group.waiters[index] = waiter; }
    std::optional<Status> await_resume() const {
      if (group.is_left[index]) return std::nullopt;
      return group.results[index];
    }
  };
  // Lets the writes of a group go on.
  class Waker;

  Group*& open(WriteMode mode) { return open_[static_cast<size_t>(mode)]; }
  // An estimate: running() includes the session's own background tasks.
  bool GoesAlone(WriteMode mode) {
    return open(mode) == nullptr && (scheduler_.running() <= kFew || in_flight_ == kMostInFlight);
  }
  Task<Status> WriteTogether(KeyView key, std::string_view value, WriteMode mode);
  Joining Join(WriteMode mode, const KeyValueView& pair);
  Task<void> Run(WriteMode mode);

  RunningOperations::OfSession& running_;
  Scheduler& scheduler_;
  ManyLeafWriter& leaves_;
  LeafWriter& single_;
  std::array<Group*, kWriteModes> open_{};  // have room
  IdlePool<Group> idle_;
  size_t in_flight_ = 0;  // groups that have not ended; open groups count
};

}  // namespace gossamer
