#include "compute/tree/plain_gets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {

PlainGets::Part& PlainGets::Chunk::PartOf(Batch& batch) {
  const auto has_it = [&batch](const Part& part) { return part.batch == &batch; };
  const auto found = std::find_if(parts_.rbegin(), parts_.rend(), has_it);
  if (found != parts_.rend()) return *found;
  Part& part = parts_.emplace_back();
  part.batch = &batch;
  return part;
}

bool PlainGets::Reserve(Chunk& chunk, size_t count) {
  if (chunk.room_ >= count) return true;
  Result<BufferLease> buffers = context_.links.Buffer(count * PlainGet::kBufferBytes);
  if (!buffers) return false;
  chunk.buffers_ = std::move(buffers.value());
  chunk.room_ = count;
  return true;
}

Task<void> PlainGets::Get(std::span<const KeyView> keys, Chunk& chunk) {
  Op op = context_.links.Begin();
  Prepare(keys, chunk);
  if (chunk.parts().empty()) co_return;
  co_await context_.links.ExecuteAll(op, chunk.batches_.used());
  Count(op);
  for (const Part& part : chunk.parts()) Judge(keys, chunk, part);
}

void PlainGets::Prepare(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), PlainGet::Answer{});
  chunk.batches_.Clear();
  chunk.parts_.clear();
  chunk.rest_.count = 0;
  const bool may_be_plain = is_possible() && Reserve(chunk, count);
  if (may_be_plain) context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  for (size_t i = 0; i < count; ++i) {
    PlainGet& get = chunk.lookups_[i].get;
    if (!may_be_plain || !get.Prepare(context_, keys[i], chunk.spots_[i])) {
      chunk.rest_.Add(i);
      continue;
    }
    Batch& batch = chunk.batches_.For(get.leaf().server(), PlainGet::kMaxReads);
    get.AddReads(context_.geometry(), chunk.buffers_.address(i * PlainGet::kBufferBytes), batch);
    chunk.PartOf(batch).Add(i);
  }
}

void PlainGets::Judge(std::span<const KeyView> keys, Chunk& chunk, const Part& part) {
  SumHomes(chunk, part);
  uint64_t answered = 0;
  for (const size_t i : part.keys()) {
    const Chunk::Lookup& lookup = chunk.lookups_[i];
    if (!lookup.get.is_read()) continue;
    const std::optional<GroupView> home =
        rules::AcceptUnit(lookup.get.home_unit(context_.geometry()), lookup.get.leaf(),
                          lookup.get.home(), lookup.checksum);
    chunk.answers_[i] = lookup.get.Judge(context_, keys[i], home);
    if (chunk.answers_[i].state != PlainGet::State::kNotPlain) ++answered;
  }
  context_.counters.of(OperationClass::kRead).operations += answered;
  context_.cache.CountHits(answered);
}

void PlainGets::SumHomes(Chunk& chunk, const Part& part) const {
  constexpr size_t kStreams = 4;
  const LeafGeometry& geometry = context_.geometry();
  const size_t bytes = geometry.unit_bytes() - sizeof(uint32_t);
  std::array<uint32_t, kStreams> seeds{};
  std::array<const std::byte*, kStreams> spans{};
  std::array<Chunk::Lookup*, kStreams> lookups{};
  size_t streams = 0;
  const auto sum = [&] {
    const auto sums = Crc32cOfEach(seeds, spans, bytes);
    for (size_t i = 0; i < streams; ++i) lookups[i]->checksum = sums[i];
    streams = 0;
  };
  for (const size_t i : part.keys()) {
    Chunk::Lookup& lookup = chunk.lookups_[i];
    seeds[streams] = UnitSeed(lookup.get.leaf().word(), lookup.get.home());
    spans[streams] = lookup.get.home_unit(geometry).data() + sizeof(uint32_t);
    lookups[streams] = &lookup;
    if (++streams == kStreams) sum();
  }
  // The rest, beside streams that were summed before.
  if (streams != 0) {
    for (size_t i = streams; i < kStreams; ++i) spans[i] = spans[0];
    sum();
  }
}

}  // namespace gossamer
