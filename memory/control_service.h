// The control service: answers the messages of proto/control.h, on the port's control thread.
//
// Requests are bytes from the network: each is checked for size, type, version and values before
// anything is done, and whatever does not pass is answered by an ErrorReply. Memory is given to
// registered compute servers only, and belongs to the lease under which it was asked for: one that
// registers again has abandoned what it had before (rule U4). Thread-safety: all calls from any
// thread.
#pragma once

#include <mutex>

#include "common/fabric/fabric.h"
#include "memory/chunk_allocator.h"
#include "memory/lease_table.h"
#include "proto/control.h"

namespace gossamer {

class ControlService final : public ControlHandler {
 public:
  ControlService(ChunkAllocator allocator, LockTablePlacement lock_table);

  uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                  std::span<std::byte, kMaxControlBytes> reply) override;
  void ClientGone(uint64_t client_uuid) override;

  control::StatReply Stat() const;

 private:
  using Reply = std::span<std::byte, kMaxControlBytes>;

  uint32_t Register(uint64_t client_uuid, Reply reply);
  uint32_t Allocate(uint64_t client_uuid, const control::AllocateRequest& request, Reply reply);
  uint32_t Release(uint64_t client_uuid, const control::ReleaseRequest& request, Reply reply);
  uint32_t ListExtents(const control::ListExtentsRequest& request, Reply reply) const;
  Result<Lease> LeaseOf(uint64_t client_uuid) const;
  control::StatReply StatLocked() const;

  mutable std::mutex mutex_;
  ChunkAllocator allocator_;
  LeaseTable leases_;
  const LockTablePlacement lock_table_;
};

}  // namespace gossamer
