#include "compute/verify/sim/owners.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/granted_memory.h"

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

}  // namespace gossamer::simulator
