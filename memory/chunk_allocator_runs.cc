// ChunkAllocator: its runs, their indexes and counts, and the search for free ones.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>
#include <utility>

#include "memory/chunk_allocator.h"

namespace gossamer {
namespace {

uint64_t RoundDown(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }
uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return RoundDown(value + multiple - 1, multiple);
}
uint32_t Log2(uint64_t value) { return static_cast<uint32_t>(std::bit_width(value)) - 1; }

// Sizes of free runs in grains: 1, 2, 3, then four steps from each power of two to the next, as
// those of blocks. So every run of the class that a block's size begins has room for it.
constexpr uint64_t kSteps = 4;
size_t SizeClass(uint64_t grains) {
  if (grains < kSteps) return grains - 1;
  const uint32_t power = Log2(grains);
  return kSteps - 1 + (power - 2) * kSteps + (grains >> (power - 2)) % kSteps;
}
uint32_t ClassShift(size_t size_class) {
  if (size_class < kSteps - 1) return size_class == 0 ? 0 : 1;
  return static_cast<uint32_t>((size_class - (kSteps - 1)) / kSteps) + 2;
}
uint64_t UnitsOf(uint64_t grains, size_t size_class) {
  return (grains >> ClassShift(size_class)) + 1;
}

// Whether neighbours are one run.
bool AreAlike(const HeapMap::Run& left, const HeapMap::Run& right, uint64_t chunk_grains) {
  const bool is_apart = right.is_free() && right.first % chunk_grains == 0;
  return !is_apart && left.use.IsLike(right.use);
}

}  // namespace

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes)
    : ChunkAllocator(heap_offset, chunk_bytes, HeapMap::New(GrainsOf(heap_offset, region_bytes))) {}

Result<ChunkAllocator> ChunkAllocator::Open(uint64_t heap_offset, uint64_t region_bytes,
                                            uint64_t chunk_bytes, HeapMap map, uint32_t epoch) {
  const uint64_t grains = GrainsOf(heap_offset, region_bytes);
  if (map.grains() != grains) {
    return MakeError(Code::kCorruption,
                     fmt::format("the map of the heap is of {} bytes from offset {} on, and the "
                                 "heap has {}",
                                 map.grains() * kGrain, heap_offset, grains * kGrain));
  }
  BOOST_OUTCOME_TRYV(map.Check(heap_offset));
  ChunkAllocator opened(heap_offset, chunk_bytes, std::move(map));
  for (Worn::Cohort& cohort : opened.worn_.cohorts) cohort.worn_in = epoch;
  return opened;
}

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t chunk_bytes, HeapMap map)
    : heap_offset_(heap_offset),
      grains_(map.grains()),
      chunk_grains_(chunk_bytes / kGrain),
      map_(std::move(map)),
      waiting_(grains_),
      worn_runs_(grains_) {
  assert(heap_offset % kNodeAlignment == 0 && std::has_single_bit(chunk_bytes) &&
         chunk_bytes >= kNodeAlignment);
  static_assert(kNodeAlignment / kGrain >= kSteps);
  for (size_t i = 0; i <= SizeClass(chunk_grains_); ++i) {
    free_by_class_.emplace_back(UnitsOf(grains_, i));
  }
  std::optional<Run> last;  // it may yet be joined with the next one
  for (uint64_t at = 0; at < grains_;) {
    Run run = RunAt(at);
    if (run.use.is_waiting) {
      run.use = run.use.Freed();
      map_.SetUse(run.first, run.use);
    }
    run = FirstPart(run);
    at = run.end;
    if (!run.is_free()) {
      if (run.use.owner >= holders_.size()) holders_.resize(run.use.owner + size_t{1});
      holders_[run.use.owner].has_ended = true;
    }
    if (last && AreAlike(*last, run, chunk_grains_)) {
      last = Run{last->first, run.end, map_.Join(last->first, run.first)};
      continue;
    }
    if (last) Link(*last);
    last = run;
  }
  if (last) Link(*last);
  for (size_t i = 1; i < holders_.size(); ++i) {
    const auto holder = static_cast<uint16_t>(i);
    if (holders_[i].grains == 0) {
      unused_holders_.push_back(holder);
    } else {
      holder_of_[map_.OwnerAt(holder).lease] = holder;
    }
  }
}

uint64_t ChunkAllocator::GrainsOf(uint64_t heap_offset, uint64_t region_bytes) {
  return region_bytes < heap_offset
             ? 0
             : RoundDown(region_bytes - heap_offset, kNodeAlignment) / kGrain;
}

uint64_t ChunkAllocator::BookkeepingBytes(uint64_t heap_bytes, uint64_t chunk_bytes) {
  const uint64_t grains = heap_bytes / kGrain;
  uint64_t bytes =
      HeapMap::BytesFor(grains) + HeapMap::SummaryBytesFor(grains) + 2 * GrainSet::BytesFor(grains);
  for (size_t i = 0; i <= SizeClass(chunk_bytes / kGrain); ++i) {
    bytes += GrainSet::BytesFor(UnitsOf(grains, i));
  }
  return bytes;
}

ChunkAllocator::Run ChunkAllocator::RunAt(uint64_t grain) const {
  ++looks_;
  return map_.RunAt(grain);
}

ChunkAllocator::Extent ChunkAllocator::ExtentOf(const Run& run) const {
  return {OffsetOf(run.first), run.grains() * kGrain, map_.OwnerAt(run.use.owner),
          run.use.kind,        run.use.next,          run.use.is_waiting};
}

void ChunkAllocator::Add(Run run) {
  for (const uint64_t end = run.end; run.first < end;) {
    Run part = FirstPart(run);
    run.first = part.end;
    map_.SetUse(part.first, part.use);
    if (part.first != 0) {
      const Run left = RunAt(part.first - 1);
      if (AreAlike(left, part, chunk_grains_)) {
        Unlink(left);
        part = {left.first, part.end, map_.Join(left.first, part.first)};
      }
    }
    if (part.end != grains_) {
      const Run right = RunAt(part.end);
      if (AreAlike(part, right, chunk_grains_)) {
        Unlink(right);
        part = {part.first, right.end, map_.Join(part.first, right.first)};
      }
    }
    Link(part);
  }
}

ChunkAllocator::Run ChunkAllocator::FirstPart(const Run& run) {
  const uint64_t chunk_end = RoundDown(run.first, chunk_grains_) + chunk_grains_;
  if (!run.is_free() || run.end <= chunk_end) return run;
  map_.Split(run.first, chunk_end);
  return {run.first, chunk_end, run.use};
}

ChunkAllocator::Run ChunkAllocator::CutOut(const Run& run, uint64_t from, uint64_t to) {
  Unlink(run);
  if (to < run.end) {
    map_.Split(run.first, to);
    Link({to, run.end, run.use});
  }
  if (run.first < from) {
    map_.Split(run.first, from);
    Link({run.first, from, run.use});
  }
  return {from, to, run.use};
}

void ChunkAllocator::Link(const Run& run) {
  if (!run.use.next.AllowNodes()) worn_runs_.Insert(run.first);
  if (run.is_free()) {
    const size_t size_class = SizeClass(run.grains());
    free_by_class_[size_class].Insert(run.first >> ClassShift(size_class));
  } else if (run.use.is_waiting) {
    waiting_.Insert(run.first);
    ++holders_[run.use.owner].waiting_in[run.first / chunk_grains_];
  }
  Count(run, true);
}

void ChunkAllocator::Unlink(const Run& run) {
  if (!run.use.next.AllowNodes()) worn_runs_.Erase(run.first);
  if (run.is_free()) {
    const size_t size_class = SizeClass(run.grains());
    free_by_class_[size_class].Erase(run.first >> ClassShift(size_class));
  } else if (run.use.is_waiting) {
    waiting_.Erase(run.first);
    std::map<uint64_t, uint64_t>& chunks = holders_[run.use.owner].waiting_in;
    const auto chunk = chunks.find(run.first / chunk_grains_);
    if (--chunk->second == 0) chunks.erase(chunk);
  }
  Count(run, false);
}

void ChunkAllocator::Count(const Run& run, bool is_added) {
  // Subtraction wraps around, as unsigned numbers do.
  const uint64_t grains = is_added ? run.grains() : 0 - run.grains();
  const uint64_t one = is_added ? 1 : ~uint64_t{0};
  const Use& use = run.use;
  if (!use.next.AllowNodes())
    worn_.cohorts[use.next.of_nodes - Generations::kOfNodes].grains += grains;
  if (run.is_free()) {
    free_grains_ += grains;
    free_runs_ += one;
    if (run.grains() == chunk_grains_) free_chunks_ += one;
    return;
  }
  (use.kind == control::ExtentKind::kNodes ? node_grains_ : block_grains_) += grains;
  handed_out_runs_ += one;
  if (use.is_waiting) waiting_grains_ += grains;
  Holder& holder = holders_[use.owner];
  holder.grains += grains;
  if (holder.has_ended) orphaned_grains_ += grains;
}

void ChunkAllocator::Free(Run run) {
  const uint16_t holder = run.use.owner;
  run.use = run.use.Freed();
  Add(run);
  ForgetIfEmpty(holder);
}

// -- free memory by size

ChunkAllocator::Wanted::Wanted(uint64_t bytes, control::ExtentKind wanted_kind)
    : grains((bytes + kGrain - 1) / kGrain),
      alignment(wanted_kind == control::ExtentKind::kNodes ? RoundUp(bytes, kNodeAlignment)
                                                           : kGrain),
      kind(wanted_kind) {}

std::optional<uint64_t> ChunkAllocator::Place(const Run& run, const Wanted& wanted) const {
  if (!run.use.next.Allow(wanted.kind)) return std::nullopt;
  const uint64_t place = GrainAt(RoundUp(OffsetOf(run.first), wanted.alignment));
  return place + wanted.grains <= run.end ? std::optional(place) : std::nullopt;
}

std::optional<ChunkAllocator::Run> ChunkAllocator::FindInClass(size_t size_class,
                                                               const Wanted& wanted, uint64_t least,
                                                               uint64_t& looks_left) {
  const GrainSet& runs = free_by_class_[size_class];
  const uint32_t shift = ClassShift(size_class);
  const uint64_t began = searched_to_ >> shift;
  for (const auto& [first, end] : {std::pair(began, UnitsOf(grains_, size_class)), {0, began}}) {
    for (uint64_t unit = runs.Next(first); unit < end; unit = runs.Next(unit + 1)) {
      if (looks_left == 0) return std::nullopt;
      // The run goes on to the end of the unit in which it begins: it is the last one there.
      Run run = RunAt(std::min((unit + 1) << shift, grains_) - 1);
      if (--looks_left == 0) searched_to_ = run.first;
      const std::optional<uint64_t> place = Place(run, wanted);
      if (!place || run.grains() < least) continue;
      run.first = *place;
      return run;
    }
  }
  return std::nullopt;
}

std::optional<ChunkAllocator::Run> ChunkAllocator::FindRest(const Wanted& wanted, bool is_large,
                                                            uint64_t& looks_left) {
  const uint64_t enough = std::max(wanted.grains, chunk_grains_ / kLargeRests);
  if (enough >= chunk_grains_) return std::nullopt;  // rests are smaller than that
  const size_t chunks = SizeClass(chunk_grains_);
  std::optional<Run> found;
  if (is_large) {
    for (size_t i = SizeClass(enough); !found && i < chunks; ++i) {
      found = FindInClass(i, wanted, enough, looks_left);
    }
  } else {
    for (size_t i = SizeClass(enough) + 1; !found && i-- > SizeClass(wanted.grains);) {
      found = FindInClass(i, wanted, wanted.grains, looks_left);
    }
  }
  return found;
}

// First fit.
std::optional<ChunkAllocator::Run> ChunkAllocator::FindChunks(const Wanted& wanted) {
  const uint64_t count = (wanted.grains - 1) / chunk_grains_ + 1;
  const GrainSet& chunks = free_by_class_.back();
  uint64_t adjacent = 0;
  uint64_t last = 0;
  for (uint64_t chunk = chunks.Next(0); chunk != GrainSet::kNone; chunk = chunks.Next(chunk + 1)) {
    const Run run = RunAt(chunk * chunk_grains_);
    adjacent = chunk == last + 1 ? adjacent : 0;
    adjacent = run.use.next.Allow(wanted.kind) ? adjacent + 1 : 0;
    last = chunk;
    if (adjacent == count) return Run{(chunk + 1 - count) * chunk_grains_, run.end, run.use};
  }
  return std::nullopt;
}

Error ChunkAllocator::NoMemory(uint64_t bytes) const {
  return MakeError(Code::kExhausted,
                   fmt::format("{} bytes asked for; {} of {} chunks of {} bytes and {} smaller "
                               "rests are free, {} of {} bytes in all",
                               bytes, free_chunks_, grains_ / chunk_grains_, chunk_bytes(),
                               free_runs_ - free_chunks_, free_bytes(), heap_bytes()));
}

}  // namespace gossamer
