// GatheredGets: gets of several coroutines that go out together.
//
// A get joins the group that is open, or opens one. The group closes in the scheduler's next round,
// when every coroutine that was ready has run, and goes through PlainGets. A get goes on when the
// memory server of its own leaf has answered: it waits for no other one. A get that is alone in its
// session does not wait for others.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT, shared by the group. For a key that is not plain that of Getter; and 1 RT, shared, more
// if READs have shown that.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <span>
#include <string>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/get.h"
#include "compute/tree/plain_gets.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class GatheredGets {
 public:
  GatheredGets(TreeContext& context, PlainGets& plain, Getter& single)
      : running_(context.running),
        links_(context.links),
        scheduler_(links_.scheduler()),
        plain_(plain),
        single_(single) {}

  // As Getter::GetUntilDone.
  Task<Result<std::string>> Get(KeyView key) {
    return IsAlone() ? single_.GetUntilDone(key) : GetTogether(key);
  }

 private:
  // Half of what one traversal can take: while one group is on its way, the gets of another begin.
  static constexpr size_t kMost = PlainGets::kMaxKeys / 2;

  struct Group {
    size_t size = 0;
    std::array<KeyView, kMost> keys;
    std::array<std::coroutine_handle<>, kMost> waiters;
    PlainGets::Chunk chunk;

    std::span<const KeyView> joined() const { return std::span(keys).first(size); }
  };
  // co_await Joining: the answer. To be used at once.
  struct Joining {
    Group& group;
    size_t index;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { group.waiters[index] = waiter; }
    const PlainGet::Answer& await_resume() const { return group.chunk.answer(index); }
  };

  bool IsAlone() const { return open_ == nullptr && scheduler_.running() <= 1; }
  Task<Result<std::string>> GetTogether(KeyView key);
  Joining Join(KeyView key);
  Task<void> Run();
  // Executes the batch of a part of the group, and lets its gets go on.
  Task<void> Read(Group& group, const PlainGets::Part& part, Op op);
  void Resume(const Group& group, const PlainGets::Part& part);

  RunningOperations::OfSession& running_;
  Links& links_;
  Scheduler& scheduler_;
  PlainGets& plain_;
  Getter& single_;
  Group* open_ = nullptr;  // has room
  IdlePool<Group> idle_;
};

}  // namespace gossamer
