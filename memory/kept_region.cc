#include "memory/kept_region.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

#include "common/process.h"

namespace gossamer {
namespace {

// A kill leaves a prefix of the stores, in program order.
void InOrder() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

void KeptRegion::Use(Parts parts) {
  parts_ = std::move(parts);
  last_ = ReadLife();
  life_.reset();
}

// -- lives

std::optional<RegionLife> KeptRegion::ReadLife() const {
  std::optional<RegionLife> found;
  for (const uint64_t at : kLivesAt) {
    RegionLife life;
    std::memcpy(&life, state() + at, sizeof life);
    const bool is_valid = life.sequence != 0 && life.checksum == ChecksumOf(life);
    if (is_valid && (!found || life.sequence > found->sequence)) found = life;
  }
  return found;
}

void KeptRegion::WriteLife(RegionLife life) {
  life.checksum = ChecksumOf(life);
  std::byte* const at = state() + kLivesAt[life.sequence % 2];
  std::memset(at + offsetof(RegionLife, checksum), 0, sizeof life.checksum);
  InOrder();
  std::memcpy(at, &life, offsetof(RegionLife, checksum));
  InOrder();
  std::memcpy(at + offsetof(RegionLife, checksum), &life.checksum, sizeof life.checksum);
  InOrder();
  life_ = life;
}

std::vector<uint64_t> KeptRegion::earlier() const {
  if (!last_) return {};
  std::vector<uint64_t> incarnations{last_->header.incarnation};
  for (const uint64_t incarnation : last_->earlier) {
    if (incarnation != 0) incarnations.push_back(incarnation);
  }
  return incarnations;
}

void KeptRegion::BeginLife(const RegionHeader& header) {
  RegionLife life{};
  life.sequence = life_ ? life_->sequence + 1 : last_ ? last_->sequence + 1 : 1;
  const std::vector<uint64_t> before = earlier();
  std::copy_n(before.begin(), std::min(before.size(), life.earlier.size()), life.earlier.begin());
  life.header = header;
  const std::string process = OwnProcessIdentity();
  process.copy(life.process.data(), life.process.size());
  WriteLife(life);
  std::memcpy(parts_.memory.region.data(), &header, sizeof header);
  InOrder();
}

// -- what is noted

GivenNumbers KeptRegion::given() const {
  GivenNumbers given;
  std::memcpy(&given.incarnation, state() + kGivenIncarnationAt, sizeof given.incarnation);
  std::memcpy(&given.epoch, state() + kGivenEpochAt, sizeof given.epoch);
  return given;
}

void KeptRegion::NoteGiven(const GivenNumbers& given) {
  const auto store = [this](uint64_t at, uint32_t number) {
    auto* const word = reinterpret_cast<uint32_t*>(state() + at);
    std::atomic_ref(*word).store(number, std::memory_order_release);
  };
  store(kGivenIncarnationAt, given.incarnation);
  store(kGivenEpochAt, given.epoch);
}

uint64_t KeptRegion::tested_device() const {
  uint64_t digest = 0;
  std::memcpy(&digest, state() + kTestedDeviceAt, sizeof digest);
  return digest;
}

void KeptRegion::NoteTestedDevice(uint64_t digest) {
  std::memcpy(state() + kTestedDeviceAt, &digest, sizeof digest);
}

ClockNote KeptRegion::clock() const {
  ClockNote clock;
  std::memcpy(&clock, state() + kClockAt, sizeof clock);
  return clock;
}

void KeptRegion::NoteClock(const ClockNote& clock) {
  std::memcpy(state() + kClockAt, &clock, sizeof clock);
}

bool KeptRegion::IsOfThisBoot() const {
  if (!last_) return false;
  const std::string own = OwnProcessIdentity();
  const size_t slash = own.find('/');
  if (slash == std::string::npos) return false;  // it is not known
  const std::string_view boot = std::string_view(own).substr(0, slash + 1);
  return std::string_view(last_->process.data(), last_->process.size()).starts_with(boot);
}

KeptRegion::Noted KeptRegion::ReadRecord() const {
  Noted found;
  for (const uint64_t at : kRecordsAt) {
    RegionRecord record;
    std::memcpy(&record, state() + at, sizeof record);
    if (record.sequence <= found.sequence || record.text_bytes > kMaxStoreRecordBytes) continue;
    const std::string_view text(reinterpret_cast<const char*>(state() + at + sizeof record),
                                record.text_bytes);
    if (record.checksum == ChecksumOf(record, text)) found = {record.sequence, text};
  }
  return found;
}

std::string KeptRegion::record() const { return std::string(ReadRecord().text); }

void KeptRegion::NoteRecord(std::string_view text) {
  assert(text.size() <= kMaxStoreRecordBytes);
  RegionRecord record{ReadRecord().sequence + 1, static_cast<uint32_t>(text.size()), 0};
  record.checksum = ChecksumOf(record, text);
  // Sequences alternate between the two, so the other one is the older one, or none.
  std::byte* const at = state() + kRecordsAt[record.sequence % 2];
  std::memset(at, 0, sizeof record.sequence);
  InOrder();
  std::memcpy(at + sizeof record, text.data(), text.size());
  std::memcpy(at + sizeof record.sequence, &record.text_bytes,
              sizeof record - sizeof record.sequence);
  InOrder();
  std::memcpy(at, &record.sequence, sizeof record.sequence);
  InOrder();
}

// -- in memory

Result<std::unique_ptr<RegionInMemory>> RegionInMemory::New(uint64_t region_bytes,
                                                            uint64_t map_bytes) {
  RegionFileHeader at{};  // for the places of the parts alone
  at.region_bytes = region_bytes;
  at.map_bytes = map_bytes;
  BOOST_OUTCOME_TRY(mapping, MapMemory(FileBytes(at), false));
  std::unique_ptr<RegionInMemory> region(new RegionInMemory(std::move(mapping)));
  const std::span<std::byte> memory = region->mapping_.span();
  Parts parts;
  parts.memory.region = memory.first(region_bytes);
  parts.memory.description = "kept in this process";
  parts.state = memory.subspan(StateAt(at), kStateBytes);
  parts.map = memory.subspan(MapAt(at), map_bytes);
  region->Use(std::move(parts));
  return region;
}

}  // namespace gossamer
