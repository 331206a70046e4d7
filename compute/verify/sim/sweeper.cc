#include "compute/verify/sim/sweeper.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace gossamer::simulator {
namespace {

constexpr uint64_t kGranule = ReachedMemory::kGranule;
constexpr uint64_t kStepsBetweenLooks = 512;
constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr int kOfTheNextOwner = 0xa5;

uint64_t WordOf(const Lease& lease) {
  return uint64_t{static_cast<uint16_t>(lease.compute)} << 32 | lease.incarnation;
}

}  // namespace

void Sweeper::Look() {
  const bool is_due =
      ++steps_ >= kStepsBetweenLooks || network_.Now() - looked_at_ >= kBetweenLooks;
  if (!is_due) return;
  steps_ = 0;
  looked_at_ = network_.Now();
  const bool all_live =
      std::ranges::all_of(memory_, [](const auto& server) { return server != nullptr; });
  if (all_live) LookNow();
}

void Sweeper::LeaveGivenBack() {
  for (size_t server = 0; server < swept_.size(); ++server) {
    if (memory_[server] == nullptr) continue;
    std::vector<bool> still(swept_[server].size());
    for (const GrantedExtent& extent : memory_[server]->Granted().extents) {
      if (!swept_leases_.contains({server, WordOf(extent.lease)})) continue;
      for (uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += kGranule) {
        still[at / kGranule] = swept_[server][at / kGranule];
      }
    }
    swept_[server] = std::move(still);
  }
}

void Sweeper::LookNow() {
  LeaveGivenBack();
  std::vector<GrantedMemory> granted;
  std::set<LeaseKey> in_force;
  for (size_t server = 0; server < memory_.size(); ++server) {
    granted.push_back(memory_[server]->Granted());
    for (const LeaseInForce& each : granted.back().in_force) {
      in_force.insert({server, WordOf(each.lease)});
    }
  }
  std::optional<Granules> reached;
  for (size_t server = 0; server < memory_.size(); ++server) {
    std::set<LeaseKey> swept_now;
    for (const GrantedExtent& extent : granted[server].extents) {
      const LeaseKey key{server, WordOf(extent.lease)};
      if (in_force.contains(key) || swept_leases_.contains(key)) continue;
      const auto [known, is_new] = ended_.try_emplace(key);
      std::set<LeaseKey>& before = known->second;
      for (size_t other = 0; is_new && other < memory_.size(); ++other) {
        for (const LeaseInForce& each : granted[other].in_force) {
          if (each.client_uuid == extent.client_uuid) before.insert({other, WordOf(each.lease)});
        }
      }
      if (std::ranges::any_of(before,
                              [&](const LeaseKey& lease) { return in_force.contains(lease); })) {
        continue;
      }
      if (!reached) reached = FindReached();
      if (!reached) return;
      Sweep(server, extent, *reached);
      swept_now.insert(key);
    }
    swept_leases_.merge(swept_now);
  }
}

std::optional<Sweeper::Granules> Sweeper::FindReached() {
  ReachedMemory reached(network_, memory_, parameters_);
  if (!reached.Walk()) return std::nullopt;
  while (swept_.size() < memory_.size()) {
    swept_.emplace_back(reached.granules()[swept_.size()].size());
  }
  return reached.granules();
}

void Sweeper::Sweep(size_t server, const GrantedExtent& extent, const Granules& reached) {
  const std::span<std::byte> region = network_.Memory(memory_[server]->address());
  for (uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += kGranule) {
    if (reached[server][at / kGranule]) continue;
    swept_[server][at / kGranule] = true;
    std::memset(region.data() + at, kOfTheNextOwner, kGranule);
  }
}

uint64_t Sweeper::Overwrite() {
  LeaveGivenBack();
  uint64_t bytes = 0;
  for (size_t server = 0; server < swept_.size(); ++server) {
    if (memory_[server] == nullptr) continue;
    const std::span<std::byte> region = network_.Memory(memory_[server]->address());
    for (uint64_t granule = 0; granule < swept_[server].size(); ++granule) {
      if (!swept_[server][granule]) continue;
      std::memset(region.data() + granule * kGranule, kOfTheNextOwner, kGranule);
      bytes += kGranule;
    }
  }
  return bytes;
}

}  // namespace gossamer::simulator
