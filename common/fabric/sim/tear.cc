#include "common/fabric/sim/tear.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/fabric/sim/chance.h"

namespace gossamer::sim {
namespace {

constexpr uint32_t kWordBits = 64;

bool Overlap(const VerbInFlight& a, const VerbInFlight& b) {
  return a.space == b.space && a.remote_offset < b.remote_offset + b.length &&
         b.remote_offset < a.remote_offset + a.length;
}

bool Conflict(const VerbInFlight& a, const VerbInFlight& b) {
  return &a != &b && (a.is_write() || b.is_write()) && Overlap(a, b);
}

void Move(VerbInFlight& operation, uint32_t at, uint32_t bytes) {
  if (operation.local.data == nullptr) return;
  if (operation.is_read()) {
    std::memcpy(operation.local.data + at, operation.remote + at, bytes);
  } else {
    std::memcpy(operation.remote + at, operation.local.data + at, bytes);
  }
}

// Lets those bytes of `mask`, in the verb's `word`th 64 bytes, take effect that have not yet.
void MoveWord(VerbInFlight& operation, uint32_t word, uint64_t mask) {
  uint64_t& done = operation.done[word];
  uint64_t left = mask & ~done;
  done |= mask;
  while (left != 0) {
    const auto first = static_cast<uint32_t>(std::countr_zero(left));
    const auto run = static_cast<uint32_t>(std::countr_one(left >> first));
    Move(operation, word * kWordBits + first, run);
    left = first + run == kWordBits ? 0 : left >> (first + run) << (first + run);
  }
}

// The mask of the bytes [first, last) within the `word`th 64 bytes.
uint64_t RangeMask(uint32_t word, uint32_t first, uint32_t last) {
  const uint32_t base = word * kWordBits;
  const uint32_t from = std::clamp(first, base, base + kWordBits) - base;
  const uint32_t to = std::clamp(last, base, base + kWordBits) - base;
  if (from >= to) return 0;
  return (~uint64_t{0} >> (kWordBits - (to - from))) << from;
}

// Each of the 8 bytes is randomly all ones or all zeros.
uint64_t RandomBytes(Random& random) { return (random.Next() & 0x0101010101010101) * 0xff; }

void Split(VerbInFlight& operation) {
  if (operation.is_split) return;
  operation.is_split = true;
  operation.done.assign((operation.length + kWordBits - 1) / kWordBits, 0);
}

}  // namespace

void Advance(VerbInFlight& operation, Random& random) {
  const uint32_t length = operation.length;
  Split(operation);
  const auto words = static_cast<uint32_t>(operation.done.size());
  uint32_t first = static_cast<uint32_t>(random.Below(length));
  uint32_t last = length;
  enum class Part : uint8_t { kInside, kOutside, kBytes, kFewBytes, kWords, kLines };
  Part part = Part::kInside;
  switch (random.Below(10)) {
    case 0: break;                         // from one on
    case 1: part = Part::kOutside; break;  // up to one
    case 2: last = first + 1; break;       // one byte
    case 3:
      last = first + 1;
      part = Part::kOutside;
      break;  // all but one
    case 4: last = first + 1 + static_cast<uint32_t>(random.Below(length - first)); break;
    case 5: part = Part::kBytes; break;
    case 6: part = Part::kFewBytes; break;
    case 7: part = Part::kWords; break;
    case 8: part = Part::kLines; break;
    default: first = 0; break;  // the rest
  }
  for (uint32_t word = 0; word < words; ++word) {
    uint64_t mask = 0;
    switch (part) {
      case Part::kInside: mask = RangeMask(word, first, last); break;
      case Part::kOutside: mask = ~RangeMask(word, first, last); break;
      case Part::kBytes: mask = random.Next(); break;
      case Part::kFewBytes: mask = random.Next() & random.Next() & random.Next(); break;
      case Part::kWords: mask = RandomBytes(random); break;
      case Part::kLines: mask = random.Below(2) == 0 ? ~uint64_t{0} : 0; break;
    }
    MoveWord(operation, word, mask & RangeMask(word, 0, length));
  }
}

namespace {

// Lets the verb's bytes within the given memory range take effect, except bytes that already have.
void AdvanceWithin(VerbInFlight& operation, uint64_t offset, uint64_t length) {
  const uint64_t end = operation.remote_offset + operation.length;
  const auto first = static_cast<uint32_t>(std::clamp(offset, operation.remote_offset, end) -
                                           operation.remote_offset);
  const auto last = static_cast<uint32_t>(
      std::clamp(offset + length, operation.remote_offset, end) - operation.remote_offset);
  Split(operation);
  for (uint32_t word = 0; word < operation.done.size(); ++word) {
    MoveWord(operation, word, RangeMask(word, first, last));
  }
}

// Of the bytes shared with the WRITE, the READ gets the first words new and the rest old.
void MeetAtSeam(VerbInFlight& read, VerbInFlight& write, Random& random) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  const uint64_t from = std::max(read.remote_offset, write.remote_offset);
  const uint64_t to =
      std::min(read.remote_offset + read.length, write.remote_offset + write.length);
  AdvanceWithin(write, from, random.Below((to - from + kWord - 1) / kWord) * kWord);
  AdvanceWithin(read, write.remote_offset, write.length);
}

// A READ overlaps a clean WRITE.
void MeetCleanly(VerbInFlight& read, VerbInFlight& write, uint32_t reads_per_seam, Random& random) {
  constexpr uint64_t kMeetingsPerAdvance = 2;
  constexpr uint64_t kMeetingsPerLateAdvance = 64;
  if (OneIn(random, reads_per_seam)) return MeetAtSeam(read, write, random);
  const bool is_late = read.remote_offset < write.remote_offset + write.late_last &&
                       write.remote_offset + write.late_first < read.remote_offset + read.length;
  if (OneIn(random, is_late ? kMeetingsPerLateAdvance : kMeetingsPerAdvance)) {
    AdvanceWithin(write, read.remote_offset, read.length);
  }
  AdvanceWithin(read, write.remote_offset, write.length);
}

}  // namespace

void ActiveVerbs::Start(VerbInFlight& operation, std::byte* remote, Random& random) {
  operation.remote = remote;
  operation.is_split = false;
  operation.is_clean = operation.is_write() && OneIn(random, 2);
  if (operation.is_clean) {
    operation.late_first = static_cast<uint32_t>(random.Below(operation.length));
    operation.late_last =
        operation.late_first + 1 +
        static_cast<uint32_t>(random.Below(operation.length - operation.late_first));
  }
  const bool meets = std::ranges::any_of(
      active_, [&](const VerbInFlight* other) { return Conflict(operation, *other); });
  operation.mixes_left = meets ? 1 + static_cast<uint32_t>(random.Below(3)) : 0;
  operation.active_index = active_.size();
  active_.push_back(&operation);
}

void ActiveVerbs::Mix(VerbInFlight& operation, uint32_t reads_per_seam, Random& random) {
  bool is_clean = operation.is_clean;
  for (VerbInFlight* other : active_) {
    if (!Conflict(operation, *other) || !(operation.is_clean || other->is_clean)) continue;
    is_clean = true;
    if (operation.is_read()) MeetCleanly(operation, *other, reads_per_seam, random);
    if (other->is_read()) MeetCleanly(*other, operation, reads_per_seam, random);
  }
  if (is_clean) return;
  // In random order.
  const bool late = random.Below(2) == 0;
  if (!late) Advance(operation, random);
  for (VerbInFlight* other : active_) {
    if (Conflict(operation, *other) && random.Below(4) != 0) Advance(*other, random);
  }
  if (late) Advance(operation, random);
}

void ActiveVerbs::MixReads(Space space, uint64_t offset, Random& random) {
  for (VerbInFlight* other : active_) {
    if (other->is_read() && other->space == space &&
        other->remote_offset < offset + sizeof(uint64_t) &&
        offset < other->remote_offset + other->length && random.Below(2) == 0) {
      Advance(*other, random);
    }
  }
}

void ActiveVerbs::Finish(VerbInFlight& operation) {
  if (!operation.is_split) {
    Move(operation, 0, operation.length);
  } else {
    for (uint32_t word = 0; word < operation.done.size(); ++word) {
      MoveWord(operation, word, RangeMask(word, 0, operation.length));
    }
  }
  Drop(operation);
}

void ActiveVerbs::Drop(VerbInFlight& operation) {
  active_[operation.active_index] = active_.back();
  active_[operation.active_index]->active_index = operation.active_index;
  active_.pop_back();
}

}  // namespace gossamer::sim
