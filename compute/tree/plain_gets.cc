#include "compute/tree/plain_gets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Whether a lookup whose READs are in `own`, if it is plain, is one of `batch`, or of any if that is null.
bool IsOf(const Batch* batch, const Batch* own) {
  return own != nullptr && (batch == nullptr || batch == own);
}

}  // namespace

bool PlainGets::Reserve(Chunk& chunk, size_t count) {
  if (chunk.room_ >= count) return true;
  Result<BufferLease> buffers = context_.links.Buffer(count * PlainGet::kBufferBytes);
  if (!buffers) return false;
  chunk.buffers_ = std::move(buffers.value());
  chunk.room_ = count;
  return true;
}

Task<void> PlainGets::Get(std::span<const KeyView> keys, Chunk& chunk) {
  Prepare(keys, chunk);
  if (chunk.batches().empty()) co_return;
  Op op;
  co_await context_.links.ExecuteAll(op, chunk.batches());
  Judge(keys, chunk, nullptr, op);
}

void PlainGets::Prepare(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), PlainGet::Answer{});
  chunk.batches_.Clear();
  if (!is_possible() || !Reserve(chunk, count)) {
    for (Chunk::Lookup& lookup : std::span(chunk.lookups_).first(count)) lookup.batch = nullptr;
    return;
  }
  context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  const LeafGeometry& geometry = context_.geometry();
  for (size_t i = 0; i < count; ++i) {
    Chunk::Lookup& lookup = chunk.lookups_[i];
    lookup.batch = nullptr;
    if (!lookup.get.Prepare(context_, keys[i], chunk.spots_[i])) continue;
    Batch& batch = chunk.batches_.For(lookup.get.leaf().server(), PlainGet::kMaxReads);
    lookup.get.AddReads(geometry, chunk.buffers_.address(i * PlainGet::kBufferBytes), batch);
    lookup.batch = &batch;
  }
}

void PlainGets::Judge(std::span<const KeyView> keys, Chunk& chunk, const Batch* batch,
                      const Op& op) {
  SumHomes(chunk, keys.size(), batch);
  WireCounts& total = context_.counters.of(OperationClass::kRead);
  total += op.wire;
  uint64_t answered = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Chunk::Lookup& lookup = chunk.lookups_[i];
    if (!IsOf(batch, lookup.batch) || !lookup.get.is_read()) continue;
    const std::optional<GroupView> home =
        rules::AcceptUnit(lookup.get.home_unit(context_.geometry()), lookup.get.leaf(),
                          lookup.get.home(), lookup.checksum);
    chunk.answers_[i] = lookup.get.Judge(context_, keys[i], home);
    if (chunk.answers_[i].state != PlainGet::State::kNotPlain) ++answered;
  }
  total.operations += answered;
  context_.cache.CountHits(answered);
}

void PlainGets::SumHomes(Chunk& chunk, size_t count, const Batch* batch) const {
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
    if (!IsOf(batch, lookup.batch)) continue;
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
