#include "compute/verify/sim/owners.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/granted_memory.h"
#include "compute/verify/sim/reached_memory.h"

namespace gossamer::simulator {
namespace {

bool IsGranted(const GrantedMemory& known, Lease lease, uint64_t offset, uint64_t end) {
  for (const GrantedExtent& extent : known.extents) {
    if (extent.offset <= offset && extent.lease == lease) {
      offset = std::max(offset, extent.offset + extent.bytes);
    }
  }
  return offset >= end;
}

}  // namespace

void CheckOwners(std::span<const std::unique_ptr<EmbeddedMemory>> memory,
                 std::span<const std::unique_ptr<SimulatedClient>> clients, Verdict& verdict) {
  for (size_t server = 0; server < memory.size(); ++server) {
    if (memory[server] == nullptr) continue;
    const GrantedMemory known = memory[server]->Granted();
    for (const auto& client : clients) {
      if (client == nullptr || client->is_dead()) continue;
      const RemoteAllocator::Granted own =
          client->store().GrantedOn(ServerId{static_cast<uint16_t>(server)});
      const bool is_in_force = std::ranges::any_of(known.in_force, [&](const LeaseInForce& one) {
        return one.client_uuid == client->uuid() && one.lease == own.lease;
      });
      if (!is_in_force) continue;
      for (const auto& [offset, end] : own.ends) {
        if (IsGranted(known, *own.lease, offset, end)) continue;
        verdict.Wrong(fmt::format("client {} takes memory at {} of server {} for its own",
                                  client->number(), offset, server));
      }
    }
  }
}

void CheckUse(SimNetwork& network, std::span<const std::unique_ptr<EmbeddedMemory>> memory,
              const StoreParameters& parameters, Verdict& verdict) {
  constexpr uint64_t kGranule = ReachedMemory::kGranule;
  if (std::ranges::any_of(memory, [](const auto& server) { return server == nullptr; })) return;
  ReachedMemory reached(network, memory, parameters);
  if (!reached.Walk()) return;
  if (reached.used_twice()) {
    verdict.Wrong(fmt::format("two uses of the memory at {} of server {}",
                              reached.used_twice()->offset, reached.used_twice()->server));
  }
  for (size_t server = 0; server < memory.size(); ++server) {
    std::vector<bool> rest = reached.granules()[server];
    for (const GrantedExtent& extent : memory[server]->Granted().extents) {
      if (extent.is_waiting) continue;
      for (uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += kGranule) {
        rest[at / kGranule] = false;
      }
    }
    // The first leaf is not in the heap.
    const auto found = std::find(rest.begin() + kHeapOffset / kGranule, rest.end(), true);
    if (found == rest.end()) continue;
    verdict.Wrong(fmt::format("the tree leads to memory at {} of server {}, which is free or waits",
                              (found - rest.begin()) * kGranule, server));
  }
}

}  // namespace gossamer::simulator
