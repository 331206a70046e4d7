#include "compute/tree/read/get_pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace gossamer {

GetPipeline::Part& GetPipeline::Chunk::PartOf(Batch& batch) {
  const auto has_it = [&batch](const Part& part) { return part.batch == &batch; };
  const auto found = std::find_if(parts_.rbegin(), parts_.rend(), has_it);
  if (found != parts_.rend()) return *found;
  Part& part = parts_.emplace_back();
  part.batch = &batch;
  return part;
}

bool GetPipeline::Reserve(Chunk& chunk, size_t count) {
  if (chunk.room_ >= count) return true;
  Result<BufferLease> buffers = context_.links.Buffer(count * GetJob::kBufferBytes);
  if (!buffers) return false;
  chunk.buffers_ = std::move(buffers.value());
  chunk.room_ = count;
  return true;
}

Task<void> GetPipeline::Get(std::span<const KeyView> keys, Chunk& chunk) {
  Op op = context_.links.Begin();
  Prepare(keys, chunk);
  if (chunk.parts().empty()) co_return;
  co_await context_.links.ExecuteAll(op, chunk.batches_.used());
  Count(op);
  for (const Part& part : chunk.parts()) Judge(keys, chunk, part);
}

void GetPipeline::Prepare(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), GetJob::Answer{});
  chunk.batches_.Clear();
  chunk.parts_.clear();
  chunk.rest_.count = 0;
  const bool may_be_plain = Reserve(chunk, count);
  if (may_be_plain) context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  Part* last = nullptr;  // that of the key before
  for (size_t i = 0; i < count; ++i) {
    if (last != nullptr && AreEqual(keys[i], keys[i - 1])) {
      chunk.first_of_[i] = chunk.first_of_[i - 1];
      last->Add(i);
      continue;
    }
    chunk.first_of_[i] = static_cast<uint8_t>(i);
    last = nullptr;
    GetJob& job = chunk.jobs_[i];
    if (!may_be_plain || !job.Aim(context_, keys[i], chunk.spots_[i])) {
      chunk.rest_.Add(i);
      continue;
    }
    Batch& batch = chunk.batches_.For(job.leaf().server(), GetJob::kMaxReads);
    job.AddReads(context_.geometry(), chunk.buffers_.address(i * GetJob::kBufferBytes), batch);
    last = &chunk.PartOf(batch);
    last->Add(i);
  }
}

void GetPipeline::Judge(std::span<const KeyView> keys, Chunk& chunk, const Part& part) {
  uint64_t answered = 0;
  for (const size_t i : part.keys()) {
    const size_t first = chunk.first_of_[i];
    const GetJob& job = chunk.jobs_[i];
    if (first != i) {
      chunk.answers_[i] = chunk.answers_[first];
    } else if (job.is_read()) {
      chunk.answers_[i] = job.Judge(context_, keys[i], keys[i]);
    }
    if (chunk.answers_[i].is_plain()) ++answered;
  }
  context_.counters.of(OperationClass::kRead).operations += answered;
  context_.cache.CountHits(answered);
}

}  // namespace gossamer
