#include "compute/tree/plain_gets.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/node/unit_buffers.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A key's groups are read to places as of UnitBuffers, without a trailer.
constexpr size_t kBytesPerKey = UnitBuffers::kTrailer;

}  // namespace

Batch& PlainGets::Chunk::BatchFor(ServerId server) {
  const auto is_for = [server](const Batch* batch) {
    return batch->server() == server && batch->verbs().size() + 2 <= kMaxKeys;
  };
  const auto found = std::ranges::find_if(used_, is_for);
  if (found != used_.end()) return **found;
  if (used_.size() == batches_.size()) batches_.push_back(std::make_unique<ServerBatch>());
  used_.push_back(batches_[used_.size()].get());
  used_.back()->Reset(server);
  return *used_.back();
}

Task<void> PlainGets::Get(std::span<const KeyView> keys, Chunk& chunk) {
  const size_t count = keys.size();
  std::ranges::fill(std::span(chunk.answers_).first(count), Answer{});
  if (!is_possible()) co_return;
  Result<BufferLease> buffers = context_.links.Buffer(count * kBytesPerKey);
  if (!buffers) co_return;
  chunk.buffers_ = std::move(buffers.value());
  chunk.used_.clear();
  context_.cache.FindLeaves(keys, std::span(chunk.spots_).first(count));
  for (size_t i = 0; i < count; ++i) chunk.lookups_[i].is_plain = AddReads(chunk, i, keys[i]);
  Op op;
  co_await context_.links.ExecuteAll(op, chunk.used_);
  SumHomes(chunk, count);
  WireCounts& total = context_.counters.of(OperationClass::kRead);
  total += op.wire;
  for (size_t i = 0; i < count; ++i) {
    if (!chunk.lookups_[i].is_plain) continue;
    chunk.answers_[i] = Judge(chunk, i, keys[i]);
    if (chunk.answers_[i].state != State::kNotPlain) ++total.operations;
  }
}

bool PlainGets::AddReads(Chunk& chunk, size_t i, KeyView key) const {
  const RemotePtr leaf = chunk.spots_[i].leaf;
  const LeafGeometry& geometry = context_.geometry();
  if (leaf.is_null() || key.size() > context_.store.parameters.max_key_bytes) return false;
  const Links::Connecting connecting = context_.links.ConnectFor(leaf, geometry.node_bytes());
  if (!connecting.await_ready() || !connecting.await_resume()) return false;
  Chunk::Lookup& lookup = chunk.lookups_[i];
  const uint64_t hash = KeyHash(key);
  lookup.home = geometry.GroupOf(hash);
  lookup.reads_overflow = LeafHint(chunk.spots_[i].hint).MayHaveOverflowed(hash, lookup.home);
  Batch& batch = chunk.BatchFor(leaf.server());
  const auto read = [&](uint32_t unit, size_t at) {
    return &batch.Add(Verb::Read(leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                                 chunk.buffers_.address(i * kBytesPerKey + at)));
  };
  lookup.read = read(lookup.home, UnitBuffers::kHome);
  if (lookup.reads_overflow) read(geometry.overflow_unit(), UnitBuffers::kOverflow);
  return true;
}

void PlainGets::SumHomes(Chunk& chunk, size_t count) const {
  constexpr size_t kStreams = 4;
  const size_t bytes = context_.geometry().unit_bytes() - sizeof(uint32_t);
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
    seeds[streams] = UnitSeed(chunk.spots_[i].leaf.word(), lookup.home);
    spans[streams] =
        chunk.buffers_.data() + i * kBytesPerKey + UnitBuffers::kHome + sizeof(uint32_t);
    lookups[streams] = &lookup;
    if (++streams == kStreams) sum();
  }
  // The rest, beside streams that were summed before.
  if (streams != 0) {
    for (size_t i = streams; i < kStreams; ++i) spans[i] = spans[0];
    sum();
  }
}

PlainGets::Answer PlainGets::Judge(const Chunk& chunk, size_t i, KeyView key) {
  const Chunk::Lookup& lookup = chunk.lookups_[i];
  if (lookup.read[0].status != VerbStatus::kSuccess) return {};
  const LeafGeometry& geometry = context_.geometry();
  const NodeCache::LeafSpot& spot = chunk.spots_[i];
  const auto unit_at = [&](size_t at) {
    return std::span(chunk.buffers_.data() + i * kBytesPerKey + at, geometry.unit_bytes());
  };
  const std::optional<GroupView> home =
      rules::AcceptUnit(unit_at(UnitBuffers::kHome), spot.leaf, lookup.home, lookup.checksum);
  if (!home || !home->Admits(key)) return {};
  std::optional<Entry> entry = home->Find(key);
  std::optional<GroupView> overflow;
  if (!entry && home->overflowed()) {
    if (!lookup.reads_overflow || lookup.read[1].status != VerbStatus::kSuccess) return {};
    overflow =
        rules::ParseUnit(unit_at(UnitBuffers::kOverflow), spot.leaf, geometry.overflow_unit());
    if (!overflow || !rules::OfOneVersion(*home, *overflow)) return {};
    entry = overflow->Find(key);
  }
  if (entry && entry->is_block) return {};
  const uint32_t known = 1u << lookup.home | (overflow ? 1u << geometry.overflow_unit() : 0);
  context_.cache.LearnHint(key, spot, geometry, known, [&](uint32_t number) -> const GroupView& {
    return number == lookup.home ? *home : *overflow;
  });
  if (!entry) return {State::kAbsent, {}};
  return {State::kFound, entry->stored};
}

}  // namespace gossamer
