// Placement: which memory server holds the next node or value block of a compute server.
//
// Two rules, applied to nodes and to blocks separately:
//   - Allocations spread over the servers in proportion to their free memory. The server with the
//     fewest bytes cut per free byte comes first.
//   - A server comes last if it would have to grant one more extent of the kind and already has
//     clearly more of them than its share of the store's. Otherwise many compute servers with an
//     extent or two each would all begin on the same server.
//
// A node is best placed on the server of the node that leads to it: a split then saves a round
// trip. That server comes first unless it is clearly fuller than the best one. Ties are broken by
// chance, from the seed.
//
// Usage arrives with each reply of a server and may be old.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "proto/control.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class Placement {
 public:
  Placement(uint64_t seed, uint32_t node_bytes) : seed_(seed), node_bytes_(node_bytes) {}

  // `usage`: as reported by `server`, which grants memory in multiples of `chunk_bytes`.
  void Learn(ServerId server, const control::Usage& usage, uint64_t chunk_bytes);
  // Of all servers that are known.
  control::Usage Total() const;
  // `Granted`: this compute server got `bytes` more on `server`. `Cut`: `taken` of its bytes there
  // were cut off for a piece of `kind`. `Lost`: it lost all of them.
  void Granted(ServerId server, control::ExtentKind kind, uint64_t bytes) {
    servers_[server].at_hand[IndexOf(kind)] += bytes;
  }
  void Cut(ServerId server, control::ExtentKind kind, uint64_t taken);
  void Lost(ServerId server) { servers_[server].at_hand = {}; }

  // Sorts `servers`, best first, for a piece of `bytes`. `near`: the server of the node that will
  // lead to the piece; ignored if not in `servers`.
  void Sort(std::vector<ServerId>& servers, control::ExtentKind kind, uint64_t bytes,
            std::optional<ServerId> near);

 private:
  struct Server {
    control::Usage usage;
    uint64_t chunk_bytes = 0;
    // For each kind: bytes granted to this compute server and not yet cut; bytes it has cut.
    std::array<uint64_t, 2> at_hand{};
    std::array<uint64_t, 2> cut_bytes{};

    // Bytes that this compute server can still allocate there.
    double room() const { return static_cast<double>(usage.free_bytes + at_hand[0] + at_hand[1]); }
  };
  struct Rank {
    bool is_overfull;
    double cut_per_room;
    uint64_t chance;
    auto operator<=>(const Rank&) const = default;
  };

  static size_t IndexOf(control::ExtentKind kind) {
    return kind == control::ExtentKind::kNodes ? 0 : 1;
  }
  static uint64_t UsedBytes(const Server& server, control::ExtentKind kind) {
    return kind == control::ExtentKind::kNodes ? server.usage.node_bytes : server.usage.block_bytes;
  }
  struct Wanted {
    control::ExtentKind kind;
    uint64_t bytes;
    double used_per_room;  // bytes of the kind in use per byte of room, over all servers
  };
  Rank RankOf(ServerId id, const Wanted& wanted) const;

  const uint64_t seed_;
  const uint32_t node_bytes_;
  std::map<ServerId, Server> servers_;
};

}  // namespace gossamer
