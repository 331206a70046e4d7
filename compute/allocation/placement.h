// Placement: which memory server the next node or value block of a compute server goes to.
//
// Two rules, for nodes and for blocks each by itself:
//   - What this compute server allocates spreads over the servers in proportion to the memory that is free there.
//     The server with the fewest bytes cut per free byte comes first.
//   - A server comes last that would have to grant one more extent of the kind, and has clearly more of them than its
//     share of the store's: many compute servers, each with an extent or two, would otherwise begin on the same server.
// A node is best placed beside the node that leads to it, as a split then costs a round trip less: that server comes
// first, unless it is clearly fuller than the server that would. Between equals chance decides, by the seed.
//
// How full a server is comes with each of its replies, and may be old. Thread-safety: none.
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

  // `server` says how its memory is used, and hands out memory in multiples of `chunk_bytes`.
  void Learn(ServerId server, const control::Usage& usage, uint64_t chunk_bytes);
  // This compute server has got `bytes` more there; `taken` of what it had were cut off for a piece of `kind`; it has
  // lost what it had.
  void Granted(ServerId server, control::ExtentKind kind, uint64_t bytes) {
    servers_[server].at_hand[IndexOf(kind)] += bytes;
  }
  void Cut(ServerId server, control::ExtentKind kind, uint64_t taken);
  void Lost(ServerId server) { servers_[server].at_hand = {}; }

  // Sorts `servers`, best first, for a piece of `bytes`. `near`, if it is among them: the server of the node that will
  // lead to this one.
  void Sort(std::vector<ServerId>& servers, control::ExtentKind kind, uint64_t bytes,
            std::optional<ServerId> near);

 private:
  struct Server {
    control::Usage usage;
    uint64_t chunk_bytes = 0;
    // Of each kind, granted to this compute server and not cut yet; and cut by it.
    std::array<uint64_t, 2> at_hand{};
    std::array<uint64_t, 2> cut_bytes{};

    // What can still be allocated there.
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
    double used_per_room;  // of the kind, over all servers
  };
  Rank RankOf(ServerId id, const Wanted& wanted) const;
  uint64_t ChanceOf(ServerId id) const;

  const uint64_t seed_;
  const uint32_t node_bytes_;
  std::map<ServerId, Server> servers_;
};

}  // namespace gossamer
