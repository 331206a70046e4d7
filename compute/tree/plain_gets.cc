#include "compute/tree/plain_gets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {

bool PlainGets::Reserve(Chunk& chunk, size_t count) {
  if (chunk.room_ >= count) return true;
  Result<BufferLease> buffers = context_.links.Buffer(count * PlainGet::kBufferBytes);
  if (!buffers) return false;
  chunk.buffers_ = std::move(buffers.value());
  chunk.room_ = count;
  return true;
}

Task<void> PlainGets::Get(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), PlainGet::Answer{});
  if (!is_possible() || !Reserve(chunk, count)) co_return;
  chunk.batches_.Clear();
  context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  const LeafGeometry& geometry = context_.geometry();
  for (size_t i = 0; i < count; ++i) {
    Chunk::Lookup& lookup = chunk.lookups_[i];
    lookup.is_plain = lookup.get.Prepare(context_, keys[i], chunk.spots_[i]);
    if (!lookup.is_plain) continue;
    lookup.get.AddReads(geometry, chunk.buffers_.address(i * PlainGet::kBufferBytes),
                        chunk.batches_.For(lookup.get.leaf().server(), PlainGet::kMaxReads));
  }
  if (chunk.batches_.used().empty()) co_return;
  Op op;
  co_await context_.links.ExecuteAll(op, chunk.batches_.used());
  SumHomes(chunk, count);
  WireCounts& total = context_.counters.of(OperationClass::kRead);
  total += op.wire;
  uint64_t answered = 0;
  for (size_t i = 0; i < count; ++i) {
    const Chunk::Lookup& lookup = chunk.lookups_[i];
    if (!lookup.is_plain || !lookup.get.is_read()) continue;
    const std::optional<GroupView> home = rules::AcceptUnit(
        lookup.get.home_unit(geometry), lookup.get.leaf(), lookup.get.home(), lookup.checksum);
    chunk.answers_[i] = lookup.get.Judge(context_, keys[i], home);
    if (chunk.answers_[i].state != PlainGet::State::kNotPlain) ++answered;
  }
  total.operations += answered;
  context_.cache.CountHits(answered);
}

void PlainGets::SumHomes(Chunk& chunk, size_t count) const {
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
  for (size_t i = 0; i < count; ++i) {
    Chunk::Lookup& lookup = chunk.lookups_[i];
    if (!lookup.is_plain) continue;
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
