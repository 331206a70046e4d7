#include "compute/tree/gathered_gets.h"

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
  co_await plain_.Get(std::span(group->keys).first(group->size), group->chunk);
  // Not resumed here: one that runs the scheduler, by a synchronous call, lets the others go on too.
  for (size_t i = 0; i < group->size; ++i) scheduler_.MakeReady(group->waiters[i]);
  // Behind them all: each copies its value first.
  co_await scheduler_.NextRound();
  group->chunk.GiveBuffersBack();
}

}  // namespace gossamer
