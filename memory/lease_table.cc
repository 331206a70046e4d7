#include "memory/lease_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "memory/rules.h"

namespace gossamer {

Result<Lease> LeaseTable::Register(uint64_t client_uuid, Time now,
                                   const control::ProcessName& process) {
  if (const auto known = by_uuid_.find(client_uuid); known != by_uuid_.end()) {
    const size_t index = known->second;
    if (entries_[index].in_force) return Renew(client_uuid, now);
    gone_.erase(entries_[index].gone_at);
    return Begin(index, now, process);
  }
  size_t index = entries_.size();
  if (after_ >= most_incarnations_) {
    return MakeError(Code::kExhausted,
                     fmt::format("all {} incarnations of leases on this memory are used up: start "
                                 "the memory server on new memory",
                                 most_incarnations_));
  }
  if (index < kMaxComputeServers) {
    entries_.push_back({.client_uuid = client_uuid, .incarnation = after_, .epoch = given_.epoch});
  } else {
    if (gone_.empty()) {
      return MakeError(Code::kExhausted,
                       fmt::format("of {} ids for compute servers none is free: {} are registered",
                                   kMaxComputeServers, registered_));
    }
    index = gone_.front();
    gone_.pop_front();
    by_uuid_.erase(entries_[index].client_uuid);
    entries_[index].client_uuid = client_uuid;
    entries_[index].epoch = given_.epoch;
  }
  by_uuid_.emplace(client_uuid, index);
  return Begin(index, now, process);
}

Result<Lease> LeaseTable::Renew(uint64_t client_uuid, Time now) {
  const auto known = by_uuid_.find(client_uuid);
  if (known == by_uuid_.end() || !entries_[known->second].in_force) {
    return MakeError(Code::kFenced,
                     "this compute server has no lease here; it must register first");
  }
  Entry& entry = entries_[known->second];
  if (entry.is_being_fenced) {
    return MakeError(Code::kFenced,
                     "this compute server's lease was not renewed in time; it must connect and "
                     "register anew");
  }
  entry.renewed_at = now;
  return LeaseOf(known->second, entry);
}

std::vector<uint64_t> LeaseTable::ExpireUpTo(Time time) {
  std::vector<uint64_t> expired;
  for (Entry& entry : entries_) {
    if (!entry.in_force || entry.is_being_fenced || entry.renewed_at > time) continue;
    entry.is_being_fenced = true;
    expired.push_back(entry.client_uuid);
  }
  return expired;
}

std::optional<Lease> LeaseTable::End(uint64_t client_uuid) {
  const std::optional<Lease> lease = Find(client_uuid);
  if (!lease) return std::nullopt;
  const size_t index = by_uuid_.at(client_uuid);
  Entry& entry = entries_[index];
  entry.in_force = false;
  --registered_;
  if (IsUsedUp(entry)) {
    by_uuid_.erase(client_uuid);
  } else {
    entry.gone_at = gone_.insert(gone_.end(), index);
  }
  return lease;
}

std::optional<Lease> LeaseTable::Find(uint64_t client_uuid) const {
  const auto known = by_uuid_.find(client_uuid);
  if (known == by_uuid_.end() || !entries_[known->second].in_force) return std::nullopt;
  return LeaseOf(known->second, entries_[known->second]);
}

bool LeaseTable::Acknowledge(uint64_t client_uuid, uint32_t epoch) {
  if (!Find(client_uuid)) return false;
  Entry& entry = entries_[by_uuid_.at(client_uuid)];
  epoch = std::min(epoch, given_.epoch);
  if (epoch <= entry.epoch) return false;
  entry.epoch = epoch;
  return true;
}

uint32_t LeaseTable::AcknowledgedBy(uint64_t client_uuid) const {
  return Find(client_uuid) ? entries_[by_uuid_.at(client_uuid)].epoch : 0;
}

uint32_t LeaseTable::OldestEpoch(Lease* holder) const {
  uint32_t oldest = given_.epoch;
  for (size_t index = 0; index < entries_.size(); ++index) {
    const Entry& entry = entries_[index];
    if (!entry.in_force || entry.epoch >= oldest) continue;
    oldest = entry.epoch;
    if (holder != nullptr) *holder = LeaseOf(index, entry);
  }
  return oldest;
}

bool LeaseTable::IsInForce(Lease lease) const {
  if (!rules::HasEnded(lease.incarnation, after_)) return true;
  const size_t index = static_cast<size_t>(lease.compute) - 1;  // no holder, 0: out of range
  return index < entries_.size() && entries_[index].in_force &&
         entries_[index].incarnation == lease.incarnation;
}

std::vector<LeaseInForce> LeaseTable::InForce() const {
  std::vector<LeaseInForce> leases;
  for (size_t index = 0; index < entries_.size(); ++index) {
    const Entry& entry = entries_[index];
    if (entry.in_force) leases.push_back({entry.client_uuid, LeaseOf(index, entry)});
  }
  return leases;
}

control::ProcessName LeaseTable::ProcessOf(Lease lease) const {
  return IsInForce(lease) ? entries_[static_cast<size_t>(lease.compute) - 1].process
                          : control::ProcessName{};
}

Lease LeaseTable::Begin(size_t index, Time now, const control::ProcessName& process) {
  Entry& entry = entries_[index];
  ++entry.incarnation;  // incarnation 0 is never used
  if (entry.incarnation > given_.incarnation) {
    given_.incarnation = entry.incarnation;
    if (write_down_) write_down_(given_);
  }
  entry.in_force = true;
  entry.is_being_fenced = false;
  entry.renewed_at = now;
  entry.process = process;
  ++registered_;
  return LeaseOf(index, entry);
}

}  // namespace gossamer
