#include "compute/tree/gathered_puts.h"

namespace gossamer {

class GatheredPuts::Waker final : public ManyLeafWriter::Watcher {
 public:
  Waker(Scheduler& scheduler, Group& group, const WriteBatch& batch)
      : scheduler_(scheduler), group_(group), batch_(batch) {}

  void Done(WriteBatch::Range writes) override { Resume(writes, false); }
  void NotPlain(WriteBatch::Range writes) override { Resume(writes, true); }

 private:
  void Resume(WriteBatch::Range writes, bool is_left) {
    for (size_t position = writes.first; position < writes.end; ++position) {
      const size_t index = batch_.IndexOf(position);
      group_.is_left[index] = is_left;
      // Not resumed here: one that runs the scheduler, by a synchronous call, lets the others go on too.
      scheduler_.MakeReady(group_.waiters[index]);
    }
  }

  Scheduler& scheduler_;
  Group& group_;
  const WriteBatch& batch_;
};

Task<Status> GatheredPuts::WriteTogether(KeyView key, std::string_view value, WriteMode mode) {
  if (mode == WriteMode::kDelete) value = {};
  std::optional<Status> result = co_await Join(mode, {key, value});
  if (result) co_return std::move(*result);
  co_return co_await single_.WriteUntilDone(key, value, mode);
}

GatheredPuts::Joining GatheredPuts::Join(WriteMode mode, const KeyValueView& pair) {
  if (open(mode) == nullptr) scheduler_.Spawn(Run(mode));
  Group& group = *open(mode);
  const size_t index = group.size++;
  group.pairs[index] = pair;
  if (group.size == kMost) open(mode) = nullptr;
  return {group, index};
}

Task<void> GatheredPuts::Run(WriteMode mode) {
  const RunningOperations::Scope scope(running_);
  const auto group = idle_.Take();
  group->size = 0;
  ++in_flight_;
  open(mode) = &*group;
  co_await scheduler_.NextRound();
  if (open(mode) == &*group) open(mode) = nullptr;
  WriteBatch batch(mode, std::span(group->pairs).first(group->size),
                   std::span(group->results).first(group->size));
  batch.Sort(group->order);
  Waker waker(scheduler_, *group, batch);
  co_await leaves_.Write(batch, waker);
  // Behind all writes that go on: each takes its result first.
  co_await scheduler_.NextRound();
  --in_flight_;
}

}  // namespace gossamer
