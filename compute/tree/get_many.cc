#include "compute/tree/get_many.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/fabric/workers.h"
#include "compute/node/unit_buffers.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A key's groups are read to places as of UnitBuffers, without a trailer.
constexpr size_t kBytesPerKey = UnitBuffers::kTrailer;

// Every fabric takes batches of so many verbs (Limits::max_batch_verbs).
constexpr uint32_t kVerbs = 64;

}  // namespace

struct ManyGetter::Lookup {
  bool is_plain;
  bool reads_overflow;
  uint32_t home;
  const Verb* read;   // of the home group; the overflow group's follows it
  uint32_t checksum;  // of the bytes read of the home group
};

struct ManyGetter::Chunk {
  std::array<NodeCache::LeafSpot, kChunk> spots;
  std::array<Lookup, kChunk> lookups;
  // One for each memory server of the present keys, and another where one is full. Made once, used
  // again.
  std::vector<std::unique_ptr<InlineBatch<kVerbs>>> batches;
  std::vector<Batch*> used;
  BufferLease buffers;

  // A batch for `server` with room for the READs of one more key.
  Batch& BatchFor(ServerId server) {
    const auto is_for = [server](const Batch* batch) {
      return batch->server() == server && batch->verbs().size() + 2 <= kVerbs;
    };
    const auto found = std::ranges::find_if(used, is_for);
    if (found != used.end()) return **found;
    if (used.size() == batches.size()) {
      batches.push_back(std::make_unique<InlineBatch<kVerbs>>());
    }
    used.push_back(batches[used.size()].get());
    used.back()->Reset(server);
    return *used.back();
  }
};

ManyGetter::ManyGetter(TreeContext& context, Getter& single) : context_(context), single_(single) {}

ManyGetter::~ManyGetter() = default;

Task<void> ManyGetter::Get(std::span<const KeyView> keys, Values& values) {
  values.Reset(keys.size());
  const auto rest = idle_rests_.Take();
  rest->clear();
  Run run{keys, values, 0, *rest, 0};
  if (!context_.techniques().two_level_versions) {
    // The leaf is one unit: it is read whole, as a single get does.
    for (size_t i = 0; i < keys.size(); ++i) rest->push_back(static_cast<uint32_t>(i));
    run.next = keys.size();
  }
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
    co_await GetChunk(run, *chunk, first, count);
  }
}

Task<void> ManyGetter::WorkOnRest(Run& run) {
  while (run.next_rest < run.rest.size()) {
    const uint32_t position = run.rest[run.next_rest++];
    run.values.Set(position, co_await single_.GetUntilDone(run.keys[position]));
  }
}

Task<void> ManyGetter::GetChunk(Run& run, Chunk& chunk, size_t first, size_t count) {
  const std::span<const KeyView> keys = run.keys.subspan(first, count);
  Op op;
  chunk.used.clear();
  Result<BufferLease> buffers = context_.links.Buffer(count * kBytesPerKey);
  if (buffers) {
    chunk.buffers = std::move(buffers.value());
    context_.cache.FindLeaves(keys, std::span(chunk.spots).first(count));
    for (size_t i = 0; i < count; ++i) {
      chunk.lookups[i].is_plain = AddReads(chunk, i, keys[i]);
    }
    co_await context_.links.ExecuteAll(op, chunk.used);
  } else {
    for (Lookup& lookup : chunk.lookups) lookup.is_plain = false;
  }
  SumHomes(chunk, count);
  size_t plain = 0;
  for (size_t i = 0; i < count; ++i) {
    if (chunk.lookups[i].is_plain && TakeValue(chunk, i, keys[i], run.values, first + i)) {
      ++plain;
    } else {
      run.rest.push_back(static_cast<uint32_t>(first + i));
    }
  }
  chunk.buffers = {};
  WireCounts& total = context_.counters.of(OperationClass::kRead);
  total += op.wire;
  total.operations += plain;
}

bool ManyGetter::AddReads(Chunk& chunk, size_t i, KeyView key) const {
  const RemotePtr leaf = chunk.spots[i].leaf;
  const LeafGeometry& geometry = context_.geometry();
  if (leaf.is_null() || key.size() > context_.store.parameters.max_key_bytes) return false;
  const Links::Connecting connecting = context_.links.ConnectFor(leaf, geometry.node_bytes());
  if (!connecting.await_ready() || !connecting.await_resume()) return false;
  Lookup& lookup = chunk.lookups[i];
  const uint64_t hash = KeyHash(key);
  lookup.home = geometry.GroupOf(hash);
  lookup.reads_overflow = LeafHint(chunk.spots[i].hint).MayHaveOverflowed(hash, lookup.home);
  Batch& batch = chunk.BatchFor(leaf.server());
  const auto read = [&](uint32_t unit, size_t at) {
    return &batch.Add(Verb::Read(leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                                 chunk.buffers.address(i * kBytesPerKey + at)));
  };
  lookup.read = read(lookup.home, UnitBuffers::kHome);
  if (lookup.reads_overflow) read(geometry.overflow_unit(), UnitBuffers::kOverflow);
  return true;
}

void ManyGetter::SumHomes(Chunk& chunk, size_t count) const {
  constexpr size_t kStreams = 4;
  const size_t bytes = context_.geometry().unit_bytes() - sizeof(uint32_t);
  std::array<uint32_t, kStreams> seeds{};
  std::array<const std::byte*, kStreams> spans{};
  std::array<Lookup*, kStreams> lookups{};
  size_t streams = 0;
  const auto sum = [&] {
    const auto sums = Crc32cOfEach(seeds, spans, bytes);
    for (size_t i = 0; i < streams; ++i) lookups[i]->checksum = sums[i];
    streams = 0;
  };
  for (size_t i = 0; i < count; ++i) {
    Lookup& lookup = chunk.lookups[i];
    if (!lookup.is_plain) continue;
    seeds[streams] = UnitSeed(chunk.spots[i].leaf.word(), lookup.home);
    spans[streams] =
        chunk.buffers.data() + i * kBytesPerKey + UnitBuffers::kHome + sizeof(uint32_t);
    lookups[streams] = &lookup;
    if (++streams == kStreams) sum();
  }
  // The rest, beside streams that were summed before.
  if (streams != 0) {
    for (size_t i = streams; i < kStreams; ++i) spans[i] = spans[0];
    sum();
  }
}

bool ManyGetter::TakeValue(const Chunk& chunk, size_t i, KeyView key, Values& values,
                           size_t position) {
  const Lookup& lookup = chunk.lookups[i];
  if (lookup.read[0].status != VerbStatus::kSuccess) return false;
  const LeafGeometry& geometry = context_.geometry();
  const NodeCache::LeafSpot& spot = chunk.spots[i];
  const auto unit_at = [&](size_t at) {
    return std::span(chunk.buffers.data() + i * kBytesPerKey + at, geometry.unit_bytes());
  };
  const std::optional<GroupView> home =
      rules::AcceptUnit(unit_at(UnitBuffers::kHome), spot.leaf, lookup.home, lookup.checksum);
  if (!home || !home->Admits(key)) return false;
  std::optional<Entry> entry = home->Find(key);
  std::optional<GroupView> overflow;
  if (!entry && home->overflowed()) {
    if (!lookup.reads_overflow || lookup.read[1].status != VerbStatus::kSuccess) return false;
    overflow =
        rules::ParseUnit(unit_at(UnitBuffers::kOverflow), spot.leaf, geometry.overflow_unit());
    if (!overflow || !rules::OfOneVersion(*home, *overflow)) return false;
    entry = overflow->Find(key);
  }
  if (entry && entry->is_block) return false;
  const uint32_t known = 1u << lookup.home | (overflow ? 1u << geometry.overflow_unit() : 0);
  context_.cache.LearnHint(key, spot, geometry, known, [&](uint32_t number) -> const GroupView& {
    return number == lookup.home ? *home : *overflow;
  });
  if (entry) values.Set(position, entry->stored);
  return true;
}

}  // namespace gossamer
