#include "compute/tree/read/get_pipeline.h"

#include <algorithm>
#include <utility>

namespace gossamer {

GetPipeline::Part& GetPipeline::PartOf(std::vector<Part>& parts, Batch& batch) {
  // Nearly always. The search would find it, too, with 27 instructions more for each key.
  if (!parts.empty() && parts.back().batch == &batch) return parts.back();
  const auto has_it = [&batch](const Part& part) { return part.batch == &batch; };
  const auto found = std::find_if(parts.rbegin(), parts.rend(), has_it);
  if (found != parts.rend()) return *found;
  Part& part = parts.emplace_back();
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

Task<void> GetPipeline::Get(Op& op, std::span<const KeyView> keys, Chunk& chunk) {
  Prepare(keys, chunk);
  if (chunk.parts().empty()) co_return;
  co_await context_.links.ExecuteAll(op, chunk.batches_.used());
  for (const Part& part : chunk.parts()) Judge(keys, chunk, part, chunk.in_blocks_);
}

void GetPipeline::Prepare(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), GetJob::Answer{});
  chunk.batches_.Clear();
  chunk.parts_.clear();
  chunk.rest_.count = 0;
  chunk.in_blocks_.count = 0;
  chunk.aimed_.count = 0;
  const bool may_be_plain = Reserve(chunk, count);
  const bool guesses = context_.guesses.serve_many() && context_.guesses.are_there();
  std::array<uint64_t, kMaxKeys> hashes;
  if (may_be_plain) {
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = KeyHash(keys[i]);
      if (guesses) context_.guesses.Prefetch(hashes[i]);
    }
    context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  }
  size_t guess_bytes = 0;
  bool is_equal_aimed = false;  // the key before, to which this one may be equal
  for (size_t i = 0; i < count; ++i) {
    if (is_equal_aimed && AreEqual(keys[i], keys[i - 1])) {
      chunk.first_of_[i] = chunk.first_of_[i - 1];
      chunk.aimed_.Add(i);
      continue;
    }
    chunk.first_of_[i] = static_cast<uint8_t>(i);
    GetJob& job = chunk.jobs_[i];
    is_equal_aimed = may_be_plain && job.Aim(context_, keys[i], hashes[i], chunk.spots_[i]);
    if (is_equal_aimed && guesses) {
      job.Guess(context_);
      guess_bytes += job.guess_bytes();
    }
    (is_equal_aimed ? chunk.aimed_ : chunk.rest_).Add(i);
  }
  AddReads(chunk, guess_bytes);
}

void GetPipeline::AddReads(Chunk& chunk, size_t guess_bytes) {
  LocalAddress guess;  // null: blocks are not read along
  if (guess_bytes != 0) {
    if (Result<BufferLease> buffer = context_.links.Buffer(guess_bytes)) {
      chunk.guesses_ = std::move(buffer.value());
      guess = chunk.guesses_.address();
    }
  }
  Part* last = nullptr;  // that of the key before
  for (const size_t i : chunk.aimed_.keys()) {
    if (chunk.first_of_[i] != i) {
      last->Add(i);
      continue;
    }
    GetJob& job = chunk.jobs_[i];
    Batch& batch = chunk.batches_.For(job.leaf().server(), GetJob::kMaxReads);
    job.AddReads(context_.geometry(), chunk.buffers_.address(i * GetJob::kBufferBytes), guess,
                 batch);
    if (guess.data != nullptr) guess = guess + job.guess_bytes();
    last = &PartOf(chunk.parts_, batch);
    last->Add(i);
  }
}

void GetPipeline::Judge(std::span<const KeyView> keys, Chunk& chunk, const Part& part,
                        Part& in_blocks) {
  uint64_t answered = 0;
  for (const size_t i : part.keys()) {
    const size_t first = chunk.first_of_[i];
    const GetJob& job = chunk.jobs_[i];
    if (first != i) {
      chunk.answers_[i] = chunk.answers_[first];
    } else if (job.is_read()) {
      chunk.answers_[i] = job.Judge(context_, keys[i], keys[i]);
      job.TakeGuess(context_, keys[i], chunk.answers_[i]);
    }
    if (chunk.answers_[i].is_plain()) ++answered;
    if (chunk.answers_[i].verdict == GetJob::Verdict::kBlock) in_blocks.Add(i);
  }
  CountAnswered(answered);
}

Task<void> GetPipeline::GetBlocks(Op& op, std::span<const KeyView> keys, Chunk& chunk,
                                  const Part& in_blocks) {
  const BlocksLease blocks = TakeBlocks();
  PrepareBlocks(keys, chunk, in_blocks, *blocks);
  if (blocks->parts.empty()) co_return;
  co_await context_.links.ExecuteAll(op, blocks->reads.batches());
  for (const Part& part : blocks->parts) JudgeBlocks(keys, chunk, *blocks, part);
}

void GetPipeline::PrepareBlocks(std::span<const KeyView> keys, Chunk& chunk, const Part& in_blocks,
                                Blocks& blocks) {
  BlockReads& reads = blocks.reads;
  reads.Clear();
  blocks.parts.clear();
  blocks.rest.count = 0;
  Part read;
  for (const size_t i : in_blocks.keys()) {
    const size_t first = chunk.first_of_[i];
    if (first != i) {
      const bool is_read =
          read.count != 0 && chunk.first_of_[read.numbers[read.count - 1]] == first;
      (is_read ? read : blocks.rest).Add(i);
      continue;
    }
    const GetJob::Answer& answer = chunk.answers_[i];
    const BlockRef block = answer.block(keys[i]);
    const uint32_t bytes = BlockReadBytes(block.length);
    const bool has_room =
        reads.buffer_bytes() + BlockReads::BufferBytes(bytes) <= BufferPool::kMaxBytes;
    if (!has_room || !context_.blocks.Reaches(block)) {
      blocks.rest.Add(i);
      continue;
    }
    blocks.read_of[i] = static_cast<uint8_t>(reads.size());
    reads.Add(block, bytes);
    read.Add(i);
  }
  if (reads.size() == 0) return;
  Result<BufferLease> buffer = context_.links.Buffer(reads.buffer_bytes());
  if (!buffer) {
    blocks.rest = in_blocks;
    return;
  }
  reads.AddTo(buffer.value().address());
  chunk.blocks_.push_back(std::move(buffer.value()));
  for (const size_t i : read.keys()) {
    Batch& batch = reads.batch(blocks.read_of[chunk.first_of_[i]]);
    PartOf(blocks.parts, batch).Add(i);
  }
}

void GetPipeline::JudgeBlocks(std::span<const KeyView> keys, Chunk& chunk, const Blocks& blocks,
                              const Part& part) {
  uint64_t answered = 0;
  for (const size_t i : part.keys()) {
    GetJob::Answer& answer = chunk.answers_[i];
    const size_t first = chunk.first_of_[i];
    if (first != i) {
      answer = chunk.answers_[first];
    } else if (const size_t number = blocks.read_of[i]; blocks.reads.is_read(number)) {
      GetJob::TakeBlock(keys[i], blocks.reads.bytes(number), answer);
      if (answer.is_plain() && context_.guesses.serve_many()) {
        context_.guesses.Learn(chunk.jobs_[i].hash(), blocks.reads.block(number));
      }
    }
    if (answer.is_plain()) ++answered;
  }
  CountAnswered(answered);
}

void GetPipeline::CountAnswered(uint64_t operations) {
  context_.counters.of(OperationClass::kRead).operations += operations;
  context_.cache.CountHits(operations);
}

}  // namespace gossamer
