#include "compute/allocation/session_allocator.h"

#include <bitset>
#include <chrono>
#include <utility>

#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// Memory servers that refused are asked again after 500 ms.
constexpr std::chrono::milliseconds kRetryInterval{100};

void NotePassedOver(Op& op, const Loss& lost, bool has_memory) {
  op.lacks_memory = !has_memory;
  if (has_memory) {
    op.passed_over = lost;
  } else {
    op.NoteLoss(lost);
  }
}

}  // namespace

// Skips memory on servers that this session cannot reach, even if other sessions can.
template <typename Pointer, typename Allocate>
Task<Result<Allocated<Pointer>>> SessionAllocator::AllocateInReach(Op& op, Allocate allocate) {
  std::bitset<Servers::kMaxServers> out_of_reach;
  for (;;) {
    Loss loss = links_.LossOfPresent(ServerId{0});
    std::optional<ServerId> lost;
    Result<Allocated<Pointer>> allocated = co_await allocate(lost);
    if (lost) {
      loss.server = *lost;
      NotePassedOver(op, loss, allocated.has_value());
    }
    if (!allocated) co_return allocated.error();
    const ServerId server = allocated.value().pointer().server();
    const Error* why = links_.WhyDown(server);
    if (why == nullptr) co_return std::move(allocated.value());
    if (out_of_reach[ToInteger(server)]) co_return *why;
    out_of_reach.set(ToInteger(server));
    allocator_.Lost(server, links_.scheduler().Now());
  }
}

Task<Result<Allocated<RemotePtr>>> SessionAllocator::AllocateNode(Op& op, ServerId near,
                                                                  NodeKind kind) {
  return AllocateInReach<RemotePtr>(op, [this, &op, near, kind](std::optional<ServerId>& lost) {
    return allocator_.AllocateNode({links_.scheduler(), op.wire, lost}, near, kind);
  });
}

Task<Result<Allocated<BlockPtr>>> SessionAllocator::AllocateBlock(Op& op,
                                                                  std::optional<ServerId> near,
                                                                  uint32_t length) {
  return AllocateInReach<BlockPtr>(op, [this, &op, near, length](std::optional<ServerId>& lost) {
    return allocator_.AllocateBlock({links_.scheduler(), op.wire, lost}, near, length);
  });
}

void SessionAllocator::TakeBlocks(std::optional<ServerId> near,
                                  std::span<RemoteAllocator::BlockWish> wishes) {
  allocator_.TakeBlocks(near, links_.scheduler().Now(), wishes);
  for (RemoteAllocator::BlockWish& wish : wishes) {
    // It is given back.
    if (wish.memory && links_.WhyDown(wish.memory.pointer().server()) != nullptr) wish.memory = {};
  }
}

Task<bool> SessionAllocator::AwaitMemory(const Error& error) {
  using Refusal = RemoteAllocator::Refusal;
  if (error.code != Code::kExhausted) co_return false;
  Scheduler& scheduler = links_.scheduler();
  const Refusal refusal = allocator_.JudgeRefusal(scheduler.Now());
  if (refusal == Refusal::kFinal) co_return false;
  if (refusal == Refusal::kAskForOthers) {
    const bool has_others = co_await HasOthers();
    if (!has_others) {
      allocator_.EndWait();
      co_return false;
    }
  }
  co_await scheduler.SleepFor(kRetryInterval);
  co_return true;
}

// Whether other compute servers are registered with some memory server: they may keep memory there.
Task<bool> SessionAllocator::HasOthers() {
  Endpoint& endpoint = links_.scheduler().endpoint();
  for (const ServerInfo* server : links_.servers().All()) {
    const Result<control::StatReply> stat =
        co_await CallControl<control::StatReply>(endpoint, server->id, control::StatRequest{});
    if (stat && stat.value().compute_servers > 1) co_return true;
  }
  co_return false;
}

void SessionAllocator::FreeBlocks(const Op& op, std::span<const BlockRef> blocks) {
  if (blocks.empty()) return;
  if (allocator_.FreeBlocks(blocks, links_.scheduler().Now(), op.began.leases)) StartGivingBack();
}

void SessionAllocator::FreeNode(const Op& op, RemotePtr node) {
  if (allocator_.FreeNode(node, op.began.leases)) StartGivingBack();
}

// One coroutine at a time: requests must not pile up before a memory server that does not answer.
void SessionAllocator::StartGivingBack() {
  if (is_giving_back_) return;
  is_giving_back_ = true;
  links_.scheduler().Spawn(GiveBackReturns());
}

Task<void> SessionAllocator::GiveBackReturns() {
  do {
    co_await allocator_.GiveBackReturns(links_.scheduler());
  } while (allocator_.AreReturnsDue(links_.scheduler().endpoint()));
  is_giving_back_ = false;
}

Status SessionAllocator::CheckLinks(Op& op, const LinkedMemory& memory, ServerId from) const {
  if (MayLink(memory, from)) return Ok();
  op.needs_other_memory = true;
  return MakeError(Code::kFenced,
                   "a memory server has ended the lease under which memory was "
                   "allocated for this write");
}

void SessionAllocator::TendPassedOver(Op& op) {
  const std::optional<Loss> loss = std::exchange(op.passed_over, std::nullopt);
  if (loss) links_.scheduler().Spawn(ReplacePassedOver(*loss));
}

Task<void> SessionAllocator::ReplacePassedOver(Loss loss) {
  Op op;
  // A failure leaves the server out for longer.
  static_cast<void>(co_await links_.Replace(op, loss));
}

}  // namespace gossamer
