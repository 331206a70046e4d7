#include "compute/tree/read/get_many.h"

#include <algorithm>

namespace gossamer {
namespace {

// Values that a call gets by themselves before it knows how long the first of them is: those of the
// last calls may mislead it, and all that are on their way have buffers.
constexpr size_t kFirstSingles = 8;

}  // namespace

Task<void> ManyGetter::Get(std::span<const KeyView> keys, Values& values) {
  const RunningOperations::Scope scope(context_.running);
  values.Reset(keys.size());
  const auto rest = idle_rests_.Take();
  rest->clear();
  Workers workers(context_.links.scheduler());
  Run run{keys, values, workers, 0, *rest, 0, 0};
  while (run.next < keys.size() && workers.running() < kWindow) workers.Start(Work(run));
  co_await workers.Wait();
  StartOnRest(run, std::max(expected_bytes_, kBytesInFlight / kFirstSingles));
  co_await workers.Wait();
  if (!rest->empty())
    expected_bytes_ = std::max(run.largest, expected_bytes_ - expected_bytes_ / 64);
}

Task<void> ManyGetter::Work(Run& run) {
  const auto chunk = idle_.Take();
  while (run.next < run.keys.size()) {
    const size_t first = run.next;
    const size_t count = std::min(kChunk, run.keys.size() - first);
    run.next += count;
    const std::span<const KeyView> keys = run.keys.subspan(first, count);
    Op op = context_.links.Begin();
    co_await pipeline_.Get(op, keys, *chunk);
    if (chunk->in_blocks().count != 0 && run.values.has_room()) {
      co_await pipeline_.GetBlocks(op, keys, *chunk, chunk->in_blocks());
    }
    pipeline_.Count(op);
    for (size_t i = 0; i < count; ++i) {
      const GetJob::Answer& answer = chunk->answer(i);
      // Equal keys share a block: their values may be much more than was read.
      const bool is_too_much = answer.kind != Entry::Kind::kInline && !run.values.has_room();
      if (!answer.is_plain() || is_too_much) {
        run.rest.push_back(static_cast<uint32_t>(first + i));
      } else if (answer.verdict == GetJob::Verdict::kFound) {
        run.values.Set(first + i, answer.stored, Expiry::FromStored(answer.expires_at));
      }
    }
    chunk->GiveBuffersBack();
  }
}

size_t ManyGetter::WindowFor(size_t value_bytes) {
  return std::clamp<size_t>(kBytesInFlight / std::max<size_t>(value_bytes, 1), 1, kSingleWindow);
}

void ManyGetter::StartOnRest(Run& run, size_t value_bytes) {
  while (run.next_rest < run.rest.size() && run.workers.running() < WindowFor(value_bytes)) {
    run.workers.Start(WorkOnRest(run));
  }
}

Task<void> ManyGetter::WorkOnRest(Run& run) {
  while (run.next_rest < run.rest.size()) {
    const uint32_t position = run.rest[run.next_rest++];
    if (!run.values.has_room()) {
      run.values.LeaveOut(position);
      continue;
    }
    uint64_t expires_at = 0;
    const Result<std::string> value =
        co_await single_.GetUntilDone(run.keys[position], &expires_at);
    if (value) run.largest = std::max(run.largest, value.value().size());
    run.values.Set(position, value, Expiry::FromStored(expires_at));
    if (run.workers.running() > WindowFor(run.largest)) co_return;
    StartOnRest(run, run.largest);
  }
}

}  // namespace gossamer
