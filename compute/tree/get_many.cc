#include "compute/tree/get_many.h"

#include <algorithm>

#include "common/fabric/workers.h"

namespace gossamer {

Task<void> ManyGetter::Get(std::span<const KeyView> keys, Values& values) {
  const RunningOperations::Scope scope(context_.running);
  values.Reset(keys.size());
  const auto rest = idle_rests_.Take();
  rest->clear();
  Run run{keys, values, 0, *rest, 0};
  Workers workers(context_.links.scheduler());
  while (run.next < keys.size() && workers.running() < kWindow) workers.Start(Work(run));
  co_await workers.Wait();
  while (run.next_rest < rest->size() && workers.running() < kSingleWindow) {
    workers.Start(WorkOnRest(run));
  }
  co_await workers.Wait();
}

Task<void> ManyGetter::Work(Run& run) {
  const auto chunk = idle_.Take();
  while (run.next < run.keys.size()) {
    const size_t first = run.next;
    const size_t count = std::min(kChunk, run.keys.size() - first);
    run.next += count;
    co_await plain_.Get(run.keys.subspan(first, count), *chunk);
    for (size_t i = 0; i < count; ++i) {
      const PlainGet::Answer& answer = chunk->answer(i);
      if (answer.state == PlainGet::State::kFound) run.values.Set(first + i, answer.value);
      if (answer.state == PlainGet::State::kNotPlain) {
        run.rest.push_back(static_cast<uint32_t>(first + i));
      }
    }
    chunk->GiveBuffersBack();
  }
}

Task<void> ManyGetter::WorkOnRest(Run& run) {
  while (run.next_rest < run.rest.size()) {
    const uint32_t position = run.rest[run.next_rest++];
    if (!run.values.has_room()) {
      run.values.LeaveOut(position);
      continue;
    }
    run.values.Set(position, co_await single_.GetUntilDone(run.keys[position]));
  }
}

}  // namespace gossamer
