#include "compute/allocation/placement.h"

#include <algorithm>
#include <limits>

#include "common/random.h"

namespace gossamer {
namespace {

// "Clearly fuller" than the best server: by more than so many nodes plus this fraction.
constexpr uint64_t kSlackNodes = 8;
constexpr uint64_t kSlackFraction = 8;
// "Clearly more extents" than the share: by more than so many chunks plus this fraction.
constexpr uint64_t kSlackChunks = 2;
constexpr double kOverfull = 1.0 + 1.0 / kSlackFraction;

}  // namespace

void Placement::Learn(ServerId server, const control::Usage& usage, uint64_t chunk_bytes) {
  servers_[server].usage = usage;
  servers_[server].chunk_bytes = chunk_bytes;
}

control::Usage Placement::Total() const {
  control::Usage total;
  for (const auto& [id, server] : servers_) {
    total.heap_bytes += server.usage.heap_bytes;
    total.free_bytes += server.usage.free_bytes;
    total.node_bytes += server.usage.node_bytes;
    total.block_bytes += server.usage.block_bytes;
  }
  return total;
}

void Placement::Cut(ServerId server, control::ExtentKind kind, uint64_t taken) {
  Server& at = servers_[server];
  at.cut_bytes[IndexOf(kind)] += taken;
  uint64_t& at_hand = at.at_hand[IndexOf(kind)];
  at_hand -= std::min(at_hand, taken);
}

void Placement::Sort(std::vector<ServerId>& servers, control::ExtentKind kind, uint64_t bytes,
                     std::optional<ServerId> near) {
  if (servers.size() < 2) return;
  // Memory used by the kind, for each byte that it could use.
  double used = 0;
  double room = 0;
  for (const ServerId id : servers) {
    const Server& server = servers_[id];
    const auto of_kind = static_cast<double>(UsedBytes(server, kind));
    used += of_kind;
    room += of_kind + static_cast<double>(server.usage.free_bytes);
  }
  const Wanted wanted{kind, bytes, room > 0 ? used / room : 0};
  std::ranges::sort(servers, {}, [&](ServerId id) { return RankOf(id, wanted); });

  const auto at = near ? std::ranges::find(servers, *near) : servers.end();
  if (at == servers.end() || RankOf(*near, wanted).is_overfull) return;
  const size_t index = IndexOf(kind);
  const Server& best = servers_[servers.front()];
  const Server& here = servers_[*near];
  const auto best_bytes = static_cast<double>(best.cut_bytes[index]);
  const double share = best.room() > 0 ? best_bytes * here.room() / best.room() : 0;
  const double slack = best_bytes / kSlackFraction + double{kSlackNodes} * node_bytes_;
  if (static_cast<double>(here.cut_bytes[index]) <= share + slack) {
    std::rotate(servers.begin(), at, at + 1);
  }
}

Placement::Rank Placement::RankOf(ServerId id, const Wanted& wanted) const {
  const Server& server = servers_.at(id);
  const size_t index = IndexOf(wanted.kind);
  const auto used = static_cast<double>(UsedBytes(server, wanted.kind));
  const double share = wanted.used_per_room * (used + static_cast<double>(server.usage.free_bytes));
  const auto slack = static_cast<double>(kSlackChunks * server.chunk_bytes);
  const bool needs_extent = server.at_hand[index] < wanted.bytes;
  const auto cut = static_cast<double>(server.cut_bytes[index]);
  return {needs_extent && used > share * kOverfull + slack,
          server.room() > 0 ? cut / server.room() : std::numeric_limits<double>::infinity(),
          SplitMix64::Mix(seed_ + (ToInteger(id) + uint64_t{1}) * 0x9e3779b97f4a7c15)};
}

}  // namespace gossamer
