// ChunkAllocator: its runs, their indexes and counts, and the search for free ones.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
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

uint64_t HeapBytes(uint64_t heap_offset, uint64_t region_bytes) {
  return region_bytes < heap_offset ? 0 : RoundDown(region_bytes - heap_offset, kNodeAlignment);
}

// Bits of Use::Pack, from the lowest: the owner, the kind, whether it waits, generations of blocks,
// of nodes.
constexpr uint32_t kKindAt = 15;
constexpr uint32_t kWaitingAt = 16;
constexpr uint32_t kBlocksAt = 17;
constexpr uint32_t kNodesAt = 23;
static_assert(ChunkAllocator::kMostOwners < 1 << kKindAt);
static_assert(ChunkAllocator::Generations::kOfBlocks <= 1 << (kNodesAt - kBlocksAt));
static_assert(ChunkAllocator::Generations::kOfNodes + 2 <= 1 << (32 - kNodesAt));  // two cohorts

}  // namespace

uint32_t ChunkAllocator::Use::Pack() const {
  const uint32_t is_of_blocks = kind == control::ExtentKind::kBlocks ? 1 : 0;
  return owner | is_of_blocks << kKindAt | uint32_t{is_waiting} << kWaitingAt |
         uint32_t{next.of_blocks} << kBlocksAt | uint32_t{next.of_nodes} << kNodesAt;
}

ChunkAllocator::Use ChunkAllocator::Use::Unpack(uint32_t word) {
  Use use;
  use.owner = static_cast<uint16_t>(word & ((1U << kKindAt) - 1));
  const bool is_of_blocks = (word >> kKindAt & 1) != 0;
  use.kind = is_of_blocks ? control::ExtentKind::kBlocks : control::ExtentKind::kNodes;
  use.is_waiting = (word >> kWaitingAt & 1) != 0;
  use.next.of_blocks =
      static_cast<uint8_t>(word >> kBlocksAt & ((1U << (kNodesAt - kBlocksAt)) - 1));
  use.next.of_nodes = static_cast<uint16_t>(word >> kNodesAt);
  return use;
}

// Worn memory stays apart: it would take the others' generations away, or wait for another epoch.
bool ChunkAllocator::Use::IsLike(const Use& other) const {
  const bool are_worn_alike =
      next.AllowNodes() ? other.next.AllowNodes() : next.of_nodes == other.next.of_nodes;
  return owner == other.owner && kind == other.kind && is_waiting == other.is_waiting &&
         are_worn_alike;
}

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes)
    : heap_offset_(heap_offset),
      grains_(HeapBytes(heap_offset, region_bytes) / kGrain),
      chunk_grains_(chunk_bytes / kGrain),
      uses_(grains_),
      starts_(grains_),
      waiting_(grains_),
      worn_runs_(grains_) {
  assert(heap_offset % kNodeAlignment == 0 && std::has_single_bit(chunk_bytes) &&
         chunk_bytes >= kNodeAlignment);
  static_assert(kNodeAlignment / kGrain >= kSteps);
  for (size_t i = 0; i <= SizeClass(chunk_grains_); ++i) {
    free_by_class_.emplace_back(UnitsOf(grains_, i));
  }
  if (grains_ != 0) Add({0, grains_, {}});
}

uint64_t ChunkAllocator::BookkeepingBytes(uint64_t heap_bytes, uint64_t chunk_bytes) {
  const uint64_t grains = heap_bytes / kGrain;
  uint64_t bytes = grains * sizeof(uint32_t) + 3 * GrainSet::BytesFor(grains);
  for (size_t i = 0; i <= SizeClass(chunk_bytes / kGrain); ++i) {
    bytes += GrainSet::BytesFor(UnitsOf(grains, i));
  }
  return bytes;
}

ChunkAllocator::Run ChunkAllocator::RunAt(uint64_t grain) const {
  ++looks_;
  const uint64_t first = starts_.Previous(grain);
  return {first, std::min(starts_.Next(first + 1), grains_), Use::Unpack(uses_[first])};
}

ChunkAllocator::Extent ChunkAllocator::ExtentOf(const Run& run) const {
  return {OffsetOf(run.first), run.grains() * kGrain, holders_[run.use.owner].owner,
          run.use.kind,        run.use.next,          run.use.is_waiting};
}

void ChunkAllocator::Add(Run run) {
  while (run.is_free() && run.first / chunk_grains_ != (run.end - 1) / chunk_grains_) {
    const uint64_t chunk_end = RoundDown(run.first, chunk_grains_) + chunk_grains_;
    AddJoined({run.first, chunk_end, run.use});
    run.first = chunk_end;
  }
  AddJoined(run);
}

void ChunkAllocator::AddJoined(Run run) {
  const auto may_join = [&](uint64_t border, uint64_t neighbour) {
    if (run.is_free() && border % chunk_grains_ == 0) return false;
    ++looks_;
    return run.use.IsLike(Use::Unpack(uses_[neighbour]));
  };
  const uint64_t left = run.first == 0 ? GrainSet::kNone : starts_.Previous(run.first - 1);
  if (left != GrainSet::kNone && may_join(run.first, left)) {
    const Run before{left, run.first, Use::Unpack(uses_[left])};
    Unlink(before);
    run.use.next = run.use.next.With(before.use.next);
    run.first = left;
  }
  if (run.end != grains_ && may_join(run.end, run.end)) {
    const Run behind = RunAt(run.end);
    Unlink(behind);
    run.use.next = run.use.next.With(behind.use.next);
    run.end = behind.end;
  }
  Link(run);
}

ChunkAllocator::Run ChunkAllocator::CutOut(const Run& run, uint64_t from, uint64_t to) {
  Unlink(run);
  if (run.first < from) Link({run.first, from, run.use});
  if (to < run.end) Link({to, run.end, run.use});
  return {from, to, run.use};
}

void ChunkAllocator::Link(const Run& run) {
  starts_.Insert(run.first);
  uses_[run.first] = run.use.Pack();
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
  starts_.Erase(run.first);
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
  if (!use.next.AllowNodes()) worn_[use.next.of_nodes - Generations::kOfNodes].grains += grains;
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
  const uint16_t holder = std::exchange(run.use.owner, kFree);
  run.use.is_waiting = false;
  run.use.kind = control::ExtentKind::kNodes;  // free runs are alike in this
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
