#include "compute/tree/gathered_gets.h"

#include "common/fabric/workers.h"

namespace gossamer {

Task<Result<std::string>> GatheredGets::GetTogether(KeyView key) {
  const PlainGet::Answer& answer = co_await Join(key);
  if (answer.state == PlainGet::State::kFound) co_return std::string(answer.value);
  if (answer.state == PlainGet::State::kAbsent) co_return MakeError(Code::kNotFound);
  co_return co_await single_.GetUntilDone(key);
}

GatheredGets::Joining GatheredGets::Join(KeyView key) {
  if (open_ == nullptr) scheduler_.Spawn(Run());
  Group& group = *open_;
  const size_t index = group.size++;
  group.keys[index] = key;
  if (group.size == kMost) open_ = nullptr;
  return {group, index};
}

Task<void> GatheredGets::Run() {
  const auto group = idle_.Take();
  group->size = 0;
  open_ = &*group;
  co_await scheduler_.NextRound();
  if (open_ == &*group) open_ = nullptr;
  // As many as a group can need: buffers of one size are used again.
  plain_.Reserve(group->chunk, kMost);
  plain_.Prepare(group->joined(), group->chunk);
  Resume(*group, nullptr);
  const std::span<Batch* const> batches = group->chunk.batches();
  Workers others(scheduler_);
  for (size_t i = 1; i < batches.size(); ++i) others.Start(Read(*group, *batches[i]));
  if (!batches.empty()) co_await Read(*group, *batches.front());
  if (others.running() != 0) co_await others.Wait();
  // Behind all gets that go on: each copies its value first.
  co_await scheduler_.NextRound();
  group->chunk.GiveBuffersBack();
}

Task<void> GatheredGets::Read(Group& group, Batch& batch) {
  Op op;
  co_await links_.Execute(op, batch);
  // All batches of the group were posted in one round trip.
  if (&batch != group.chunk.batches().front()) op.wire.round_trips = 0;
  plain_.Judge(group.joined(), group.chunk, &batch, op);
  Resume(group, &batch);
}

void GatheredGets::Resume(Group& group, const Batch* batch) {
  // Not resumed here: one that runs the scheduler, by a synchronous call, lets the others go on too.
  for (size_t i = 0; i < group.size; ++i) {
    if (group.chunk.batch_of(i) == batch) scheduler_.MakeReady(group.waiters[i]);
  }
}

}  // namespace gossamer
