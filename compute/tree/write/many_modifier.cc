#include "compute/tree/write/many_modifier.h"

#include <algorithm>

#include "common/fabric/workers.h"

namespace gossamer {

Task<void> ManyModifier::Modify(std::span<const KeyModifier> modifiers, std::span<Status> results) {
  const RunningOperations::Scope scope(context_.running);
  const auto scratch = idle_.Take();
  scratch->pairs.clear();
  scratch->modifications.clear();
  const auto inline_bytes = static_cast<size_t>(context_.store.inline_limits.value_bytes);
  for (const KeyModifier& one : modifiers) {
    scratch->pairs.push_back({one.key, {}});
    scratch->modifications.emplace_back(*one.modifier, inline_bytes);
  }
  WriteBatch batch(WriteMode::kModify, scratch->pairs, results);
  batch.set_modifications(scratch->modifications);
  batch.Sort(scratch->order);
  co_await leaves_.Write(batch, scratch->rest);
  Run run{modifiers, batch, scratch->rest};
  Workers workers(context_.links.scheduler());
  while (workers.running() < kWindow) {
    const WriteBatch::Range writes = Next(run);
    if (writes.first == writes.end) break;
    workers.Start(Work(run, writes));
  }
  co_await workers.Wait();
}

WriteBatch::Range ManyModifier::Next(Run& run) {
  if (run.next == run.end) {
    if (run.next_range == run.ranges.size()) return {};
    const WriteBatch::Range range = run.ranges[run.next_range++];
    run.next = range.first;
    run.end = range.end;
  }
  const WriteBatch::Range writes{run.next, std::min(run.end, run.batch.EndOfKey(run.next))};
  run.next = writes.end;
  return writes;
}

Task<void> ManyModifier::Work(Run& run, WriteBatch::Range writes) {
  for (; writes.first != writes.end; writes = Next(run)) {
    for (size_t position = writes.first; position != writes.end; ++position) {
      const KeyModifier& one = run.modifiers[run.batch.IndexOf(position)];
      run.batch.SetResult(position, co_await single_.ModifyUntilDone(one.key, *one.modifier));
    }
  }
}

}  // namespace gossamer
