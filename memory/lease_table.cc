#include "memory/lease_table.h"

#include <string>

namespace gossamer {

Result<Lease> LeaseTable::Register(uint64_t client_uuid, Time now) {
  if (const auto known = by_uuid_.find(client_uuid); known != by_uuid_.end()) {
    if (entries_[known->second].in_force) return Renew(client_uuid, now);
    return Begin(known->second, now);
  }
  size_t index = entries_.size();
  if (index < kMaxComputeServers) {
    entries_.push_back({.client_uuid = client_uuid});
  } else {
    while (!gone_.empty() && entries_[gone_.front()].in_force) gone_.pop_front();
    if (gone_.empty()) {
      return MakeError(Code::kExhausted, std::to_string(kMaxComputeServers) +
                                             " compute servers are registered, which is the most");
    }
    index = gone_.front();
    gone_.pop_front();
    by_uuid_.erase(entries_[index].client_uuid);
    entries_[index].client_uuid = client_uuid;
  }
  by_uuid_.emplace(client_uuid, index);
  return Begin(index, now);
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
  entries_[index].in_force = false;
  gone_.push_back(index);
  --registered_;
  return lease;
}

std::optional<Lease> LeaseTable::Find(uint64_t client_uuid) const {
  const auto known = by_uuid_.find(client_uuid);
  if (known == by_uuid_.end() || !entries_[known->second].in_force) return std::nullopt;
  return LeaseOf(known->second, entries_[known->second]);
}

bool LeaseTable::IsInForce(Lease lease) const {
  const size_t index = static_cast<size_t>(lease.compute) - 1;  // Of nobody, 0: out of range.
  return index < entries_.size() && entries_[index].in_force &&
         entries_[index].incarnation == lease.incarnation;
}

// After 16 M registrations of one id its incarnations come again; 0 is never one.
Result<Lease> LeaseTable::Begin(size_t index, Time now) {
  Entry& entry = entries_[index];
  entry.incarnation = entry.incarnation % kMaxIncarnation + 1;
  entry.in_force = true;
  entry.is_being_fenced = false;
  entry.renewed_at = now;
  ++registered_;
  return LeaseOf(index, entry);
}

}  // namespace gossamer
