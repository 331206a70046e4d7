// SessionAllocator: allocates a session's nodes and blocks on servers that this session can reach.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/session/links.h"
#include "compute/session/op.h"

namespace gossamer {

class SessionAllocator {
 public:
  SessionAllocator(Links& links, RemoteAllocator& allocator)
      : links_(links), allocator_(allocator) {}

  // As in RemoteAllocator. Notes a lost server in `op`.
  Task<Result<Allocated<RemotePtr>>> AllocateNode(Op& op, ServerId near, NodeKind kind);
  Task<Result<Allocated<BlockPtr>>> AllocateBlock(Op& op, std::optional<ServerId> near,
                                                  uint32_t length);
  void TakeBlocks(std::optional<ServerId> near, std::span<RemoteAllocator::BlockWish> wishes);
  // Whether an operation that ended with `error` is to be tried again, because other compute
  // servers may have given memory back by then. Waits a little before that. Requires (unchecked):
  // the operation holds no lock.
  Task<bool> AwaitMemory(const Error& error);
  // Gives memory back to memory servers in the background where that is due.
  // As long as that is under way, the session must be polled: epochs wait for it.
  void FreeBlocks(const Op& op, std::span<const BlockRef> blocks);
  void FreeNode(const Op& op, RemotePtr node);
  bool is_giving_back() const { return is_giving_back_; }
  // As in RemoteAllocator.
  void LeaveBehind() const { allocator_.LeaveBehind(); }
  bool MayLink(const LinkedMemory& memory, ServerId from) const {
    return allocator_.MayLink(memory, from);
  }
  // Returns Fenced, noted in `op`, unless MayLink(memory, from).
  Status CheckLinks(Op& op, const LinkedMemory& memory, ServerId from) const;
  // Replaces, in the background, the queue pair to a server that gave no memory. Requires
  // (unchecked): `op` holds no lock.
  void TendPassedOver(Op& op);

 private:
  template <typename Pointer, typename Allocate>
  Task<Result<Allocated<Pointer>>> AllocateInReach(Op& op, Allocate allocate);
  Task<void> ReplacePassedOver(Loss loss);
  Task<bool> HasOthers();
  void StartGivingBack();
  Task<void> GiveBackReturns();

  Links& links_;
  RemoteAllocator& allocator_;
  bool is_giving_back_ = false;
};

}  // namespace gossamer
