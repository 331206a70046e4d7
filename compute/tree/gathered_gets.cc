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
  const RunningOperations::Scope scope(running_);
  const auto group = idle_.Take();
  group->size = 0;
  open_ = &*group;
  co_await scheduler_.NextRound();
  if (open_ == &*group) open_ = nullptr;
  // As many as a group can need: buffers of one size are used again.
  plain_.Reserve(group->chunk, kMost);
  const Op op = links_.Begin();
  plain_.Prepare(group->joined(), group->chunk);
  Resume(*group, group->chunk.rest());
  const std::span<const PlainGets::Part> parts = group->chunk.parts();
  Workers others(scheduler_);
  for (size_t i = 1; i < parts.size(); ++i) others.Start(Read(*group, parts[i], op));
  if (!parts.empty()) co_await Read(*group, parts.front(), op);
  if (others.running() != 0) co_await others.Wait();
  // Behind all gets that go on: each copies its value first.
  co_await scheduler_.NextRound();
  group->chunk.GiveBuffersBack();
}

Task<void> GatheredGets::Read(Group& group, const PlainGets::Part& part, Op op) {
  co_await links_.Execute(op, *part.batch);
  // All batches of the group were posted in one round trip.
  if (&part != &group.chunk.parts().front()) op.wire.round_trips = 0;
  plain_.Count(op);
  plain_.Judge(group.joined(), group.chunk, part);
  Resume(group, part);
}

void GatheredGets::Resume(const Group& group, const PlainGets::Part& part) {
  // Not resumed here: one that runs the scheduler, by a synchronous call, lets the others go on too.
  for (const size_t i : part.keys()) scheduler_.MakeReady(group.waiters[i]);
}

}  // namespace gossamer
