// Gather: operations of several coroutines of a session that go out together.
//
// An operation joins the group that is open, or opens one. The group closes in the scheduler's next
// round, when every coroutine that was ready has run, and its owner does its operations. Each goes
// on when the owner lets it: it waits for no other one of its group.
//
// Thread-safety: none; one for each session.
// Cost: two coroutines for a group; no allocation once as many groups have been in use at a time.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <span>

#include "common/fabric/scheduler.h"
#include "common/idle_pool.h"
#include "common/task.h"
#include "compute/cache/traversal.h"
#include "compute/session/running_operations.h"

namespace gossamer {

// Most operations of a group. Half of what one traversal can take: while one group is on its way,
// the operations of another begin.
inline constexpr size_t kMostGathered = kMaxGroup / 2;

// `State` is what the owner keeps for a group.
template <typename Operation, typename State>
class Gather {
 public:
  struct Group {
    size_t size = 0;
    std::array<Operation, kMostGathered> operations;
    std::array<std::coroutine_handle<>, kMostGathered> waiters;
    State state;

    std::span<const Operation> joined() const { return std::span(operations).first(size); }
  };

  // co_await Joining: suspends until the operation may go on. Then `group` is its own until it
  // waits for something else.
  struct Joining {
    Group& group;
    size_t index;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { group.waiters[index] = waiter; }
    Joining await_resume() const { return *this; }
  };

  Gather(RunningOperations::OfSession& running, Scheduler& scheduler)
      : running_(running), scheduler_(scheduler) {}

  bool is_open() const { return open_ != nullptr; }
  // Joins the open group. If there is none, opens one, which `owner` serves:
  //   Task<void> owner.Do(Group&, arguments...)  does the operations, and lets each go on
  //   void owner.End(Group&)                     all have gone on
  template <typename Owner, typename... Arguments>
  Joining Join(const Operation& operation, Owner& owner, Arguments... arguments) {
    if (open_ == nullptr) scheduler_.Spawn(Run(owner, arguments...));
    Group& group = *open_;
    const size_t index = group.size++;
    group.operations[index] = operation;
    if (group.size == kMostGathered) open_ = nullptr;
    return {group, index};
  }
  // Lets operation `index` go on, but not here: one that runs the scheduler, by a synchronous call,
  // lets the others go on too.
  void Resume(const Group& group, size_t index) { scheduler_.MakeReady(group.waiters[index]); }

 private:
  template <typename Owner, typename... Arguments>
  Task<void> Run(Owner& owner, Arguments... arguments) {
    const RunningOperations::Scope scope(running_);
    const auto group = idle_.Take();
    group->size = 0;
    open_ = &*group;
    co_await scheduler_.NextRound();
    if (open_ == &*group) open_ = nullptr;
    co_await owner.Do(*group, arguments...);
    // Behind all operations that go on: each takes its answer first.
    co_await scheduler_.NextRound();
    owner.End(*group);
  }

  RunningOperations::OfSession& running_;
  Scheduler& scheduler_;
  Group* open_ = nullptr;  // has room
  IdlePool<Group> idle_;
};

}  // namespace gossamer
