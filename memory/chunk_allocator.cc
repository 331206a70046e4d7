#include "memory/chunk_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memory/rules.h"

namespace gossamer {
namespace {

uint64_t GrainsUpTo(uint64_t bytes) {
  return (bytes + ChunkAllocator::kGrain - 1) / ChunkAllocator::kGrain;
}

// Rule G1: the memory waits no more, not even if it will wait again.
void LeaveOffer(ChunkAllocator::Offer& offer, uint64_t offset, uint64_t bytes) {
  if (!rules::EndsOffer()) return;
  std::vector<control::WaitingRange> rest;
  for (const control::WaitingRange& range : offer.ranges) {
    const uint64_t end = range.offset + range.bytes;
    const uint64_t before = std::min(end, offset);
    const uint64_t behind = std::max(range.offset, offset + bytes);
    if (range.offset < before) rest.push_back({range.offset, before - range.offset});
    if (behind < end) rest.push_back({behind, end - behind});
  }
  offer.ranges = std::move(rest);
}

}  // namespace

uint64_t ChunkAllocator::BytesOf(Lease owner) const {
  return holders_[FindHolder(owner)].grains * kGrain;
}

std::optional<ChunkAllocator::Extent> ChunkAllocator::NextExtent(uint64_t from) const {
  const uint64_t offset = std::max(from, heap_offset_);
  if (offset >= OffsetOf(grains_)) return std::nullopt;
  const uint64_t grain = GrainsUpTo(offset - heap_offset_);
  if (grain == grains_) return std::nullopt;
  Run run = RunAt(grain);
  while (run.is_free()) {
    if (run.end == grains_) return std::nullopt;
    run = RunAt(run.end);
  }
  run.first = std::max(run.first, grain);
  return ExtentOf(run);
}

// -- handing out

Result<ChunkAllocator::Extent> ChunkAllocator::Allocate(uint64_t bytes, Owner owner,
                                                        control::ExtentKind kind) {
  if (bytes == 0) return MakeError(Code::kInvalidArgument, "0 bytes of memory were asked for");
  if (bytes > heap_bytes()) return NoMemory(bytes);
  const std::vector<Extent> waiting = AllocateWaiting(bytes, owner.lease, kind, 1);
  if (!waiting.empty()) return waiting.front();
  const uint16_t holder = HolderOf(owner);
  if (holder == kFree) {
    return MakeError(Code::kExhausted,
                     fmt::format("{} leases hold memory, and no more can; most of them have ended: "
                                 "`gossamer sweep` gives their memory back",
                                 kMostOwners));
  }
  const Wanted wanted(bytes, kind);
  uint64_t looks_left = kMostLooks;
  std::optional<Run> found = FindRest(wanted, true, looks_left);
  if (!found) found = FindChunks(wanted);
  if (!found) found = FindRest(wanted, false, looks_left);
  if (looks_left != 0) searched_to_ = 0;
  if (!found) {
    ForgetIfEmpty(holder);
    return NoMemory(bytes);
  }
  // One rest, or adjacent chunks.
  for (uint64_t at = found->first; at < found->end;) {
    const Run run = RunAt(at);
    found->use.next = found->use.next.With(run.use.next);
    at = run.end;
  }
  found->use.owner = holder;
  found->use.kind = kind;
  for (uint64_t at = found->first; at < found->end;) {
    const Run run = RunAt(at);
    Run part = CutOut(run, at, run.end);
    // Some parts that get blocks may be worn, and not all in one epoch.
    const uint16_t of_nodes = part.use.next.of_nodes;
    part.use = found->use;
    if (kind == control::ExtentKind::kBlocks) part.use.next.of_nodes = of_nodes;
    Add(part);
    at = run.end;
  }
  return ExtentOf(*found);
}

std::vector<ChunkAllocator::Extent> ChunkAllocator::AllocateWaiting(uint64_t bytes, Lease owner,
                                                                    control::ExtentKind kind,
                                                                    size_t most) {
  const uint16_t holder = FindHolder(owner);
  if (holder == kFree || bytes == 0 || bytes > heap_bytes()) return {};
  const Wanted wanted(bytes, kind);
  std::vector<Run> found;
  uint64_t found_grains = 0;
  VisitWaiting(holder, holders_[holder].wanted_from, [&](Run run) {
    const std::optional<uint64_t> place = Place(run, wanted);
    if (!place) return true;
    const uint64_t most_grains =
        std::max(wanted.grains, chunk_grains_ - std::min(chunk_grains_, found_grains));
    run.first = *place;
    run.end = std::min(run.end, run.first + most_grains);
    found.push_back(run);
    found_grains += run.grains();
    return found.size() < most && found_grains < chunk_grains_;
  });
  std::vector<Extent> extents;
  for (const Run& each : found) {
    Run run = CutOut(RunAt(each.first), each.first, each.end);
    run.use.is_waiting = false;
    run.use.kind = kind;
    LeaveOffer(holders_[holder].offer, OffsetOf(run.first), run.grains() * kGrain);
    Add(run);
    extents.push_back(ExtentOf(run));
  }
  return extents;
}

// -- taking back

Status ChunkAllocator::Check(const control::Range& range, Lease by, bool is_owned) const {
  const auto refuse = [&](const std::string& why) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("cannot take back {} bytes at offset {}: {}", range.bytes, range.offset, why));
  };
  if (range.bytes == 0 || range.offset % kGrain != 0 || range.bytes % kGrain != 0) {
    return refuse(fmt::format("not a multiple of {}", kGrain));
  }
  if (is_owned) return refuse("the owner's lease is in force");
  const uint64_t heap_end = OffsetOf(grains_);
  if (range.offset < heap_offset_ || range.offset >= heap_end ||
      range.bytes > heap_end - range.offset) {
    return refuse("not handed out");
  }
  const uint64_t end = GrainAt(range.offset + range.bytes);
  for (uint64_t at = GrainAt(range.offset); at < end;) {
    const Run run = RunAt(at);
    const std::string why = WhyNot(range, run, by);
    if (!why.empty()) return refuse(why);
    at = run.end;
  }
  return Ok();
}

std::string ChunkAllocator::WhyNot(const control::Range& range, const Run& run, Lease by) const {
  if (run.is_free()) return "not handed out";
  const Lease owner = map_.OwnerAt(run.use.owner).lease;
  switch (range.past) {
    case control::Past::kUnused:
      if (owner != by) return "never used, it belongs to another compute server";
      [[fallthrough]];
    case control::Past::kUsed:
      if (run.use.is_waiting) return "not handed out";
      if (run.use.kind == control::ExtentKind::kBlocks &&
          range.generation >= Generations::kOfBlocks) {
        return "blocks have no such generation";
      }
      return {};
    case control::Past::kOrphaned:
      return owner == OwnerIn(range) ? "" : "it belongs to another lease";
  }
  return "of no known past";
}

void ChunkAllocator::Take(const Run& run, uint64_t from, uint64_t to, const control::Range& range,
                          bool waits, uint32_t epoch) {
  Run part = CutOut(run, from, to);
  if (!part.use.is_waiting) part.use.next = Next(part.use, range, epoch);
  part.use.is_waiting = waits;
  if (waits) {
    Add(part);
  } else {
    Free(part);
  }
}

ChunkAllocator::Generations ChunkAllocator::Next(const Use& use, const control::Range& range,
                                                 uint32_t epoch) {
  // No pointer to orphaned memory is left.
  if (range.past == control::Past::kOrphaned) return {};
  Generations next = use.next;
  const control::Range last = rules::LastUse(range);
  const int generation = last.generation + (last.past == control::Past::kUsed ? 1 : 0);
  if (use.kind == control::ExtentKind::kBlocks) {
    next.of_blocks = static_cast<uint8_t>(generation % Generations::kOfBlocks);
    return next;
  }
  next.of_nodes = rules::NextOfNodes(static_cast<uint16_t>(generation), Generations::kOfNodes);
  if (!next.AllowNodes()) next.of_nodes = worn_.In(epoch);
  return next;
}

uint16_t ChunkAllocator::Worn::In(uint32_t epoch) {
  if (cohorts[older].grains == 0) older = 1 - older;
  const Cohort& first = cohorts[older];
  const bool joins_older = first.grains == 0 || epoch <= first.worn_in;
  const size_t cohort = joins_older ? older : 1 - older;
  Cohort& joined = cohorts[cohort];
  joined.worn_in = joined.grains == 0 ? epoch : std::max(joined.worn_in, epoch);
  return static_cast<uint16_t>(Generations::kOfNodes + cohort);
}

void ChunkAllocator::EndEpochsBefore(uint32_t oldest) {
  for (size_t i = 0; i < worn_.cohorts.size(); ++i, worn_.older = 1 - worn_.older) {
    const Worn::Cohort& cohort = worn_.cohorts[worn_.older];
    if (cohort.grains == 0) continue;
    if (cohort.worn_in >= oldest) return;
    for (uint64_t at = worn_runs_.Next(0); at != GrainSet::kNone;) {
      const Run run = RunAt(at);
      at = worn_runs_.Next(run.end);
      if (run.use.next.of_nodes != Generations::kOfNodes + worn_.older) continue;
      Run renewed = CutOut(run, run.first, run.end);
      renewed.use.next.of_nodes = 0;
      Add(renewed);
    }
  }
}

void ChunkAllocator::Ended(Lease owner) {
  const uint16_t holder = FindHolder(owner);
  if (holder == kFree) return;
  while (!holders_[holder].waiting_in.empty()) {
    const uint64_t first = holders_[holder].waiting_in.begin()->first * chunk_grains_;
    for (uint64_t at = waiting_.Next(first); at < first + chunk_grains_;) {
      const Run run = RunAt(at);
      at = waiting_.Next(run.end);
      if (run.use.owner == holder) Free(CutOut(run, run.first, run.end));
    }
  }
  if (FindHolder(owner) == kFree) return;  // all that it had has waited
  holders_[holder].offer = {};
  holders_[holder].has_ended = true;
  orphaned_grains_ += holders_[holder].grains;
}

// -- offers

ChunkAllocator::Offer ChunkAllocator::MakeOffer(Lease owner, size_t most) {
  const uint16_t holder = FindHolder(owner);
  if (holder == kFree) return {};
  Offer offer{++last_offer_, {}};
  VisitWaiting(holder, holders_[holder].offered_from, [&](const Run& run) {
    offer.ranges.push_back({OffsetOf(run.first), run.grains() * kGrain});
    return offer.ranges.size() < most;
  });
  holders_[holder].offer = offer;
  return offer;
}

uint64_t ChunkAllocator::GiveUp(Lease owner, uint32_t offer) {
  const uint16_t holder = FindHolder(owner);
  if (holder == kFree || holders_[holder].offer.number != offer) return 0;
  uint64_t given_up = 0;
  for (const auto& [offset, bytes] : std::exchange(holders_[holder].offer.ranges, {})) {
    const uint64_t end = GrainAt(offset + bytes);
    for (uint64_t at = GrainAt(offset); at < end;) {
      const Run run = RunAt(at);
      const uint64_t to = std::min(run.end, end);
      if (run.use.owner == holder && run.use.is_waiting) {
        given_up += to - at;
        Free(CutOut(run, at, to));
      }
      at = to;
    }
  }
  return given_up * kGrain;
}

template <typename Visit>
void ChunkAllocator::VisitWaiting(uint16_t holder, uint64_t& from, const Visit& visit) const {
  const std::map<uint64_t, uint64_t>& chunks = holders_[holder].waiting_in;
  const uint64_t began = std::exchange(from, 0);
  uint64_t looks_left = kMostLooks;
  // Visits what begins in [at, end).
  const auto visit_part = [&](uint64_t at, uint64_t end) {
    for (auto chunk = chunks.lower_bound(at / chunk_grains_); chunk != chunks.end(); ++chunk) {
      const uint64_t chunk_first = chunk->first * chunk_grains_;
      const uint64_t part_end = std::min(end, chunk_first + chunk_grains_);
      for (at = waiting_.Next(std::max(at, chunk_first)); at < part_end;) {
        const Run run = RunAt(at);
        const bool is_enough = run.use.owner == holder && !visit(run);
        if (is_enough || --looks_left == 0) {
          from = at;
          return false;
        }
        at = waiting_.Next(run.end);
      }
      if (part_end == end) return true;
      at = 0;
    }
    return true;
  };
  if (visit_part(began, grains_)) visit_part(0, began);
}

// -- owners

uint16_t ChunkAllocator::FindHolder(Lease lease) const {
  const auto found = holder_of_.find(lease);
  return found == holder_of_.end() ? kFree : found->second;
}

uint16_t ChunkAllocator::HolderOf(const Owner& owner) {
  if (const uint16_t known = FindHolder(owner.lease); known != kFree) return known;
  uint16_t holder = kFree;
  if (!unused_holders_.empty()) {
    holder = unused_holders_.back();
    unused_holders_.pop_back();
  } else if (holders_.size() <= kMostOwners) {
    holder = static_cast<uint16_t>(holders_.size());
    holders_.emplace_back();
  } else {
    return kFree;
  }
  map_.SetHolder(holder, owner);
  holder_of_[owner.lease] = holder;
  return holder;
}

void ChunkAllocator::ForgetIfEmpty(uint16_t holder) {
  if (holders_[holder].grains != 0) return;
  holder_of_.erase(map_.OwnerAt(holder).lease);
  holders_[holder] = {};
  unused_holders_.push_back(holder);
}

}  // namespace gossamer
