// What to do about lost queue pairs: replace them, and find out what became of what was posted.
//
// Nothing is decided before the memory server has confirmed that the old queue pair is destroyed: until then late
// packets may land (rule U1). Then the lock word tells (rule U2), as long as this compute server's lease is the same:
// the turn at a lock is kept meanwhile, so that a word of our own is that of the operation that asks. (Without
// hierarchical locks each word has a ticket, for the same reason.)
#include <algorithm>
#include <bitset>
#include <string>

#include "common/mutants.h"
#include "compute/session/registration.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// How often one operation starts again after the loss of a queue pair. What it has posted under a lock is settled
// however often that takes, up to where nothing can be right any more.
constexpr uint32_t kMaxRetries = 16;
constexpr uint32_t kMaxLosses = 10'000;
// How often a lease may end while it is registered.
constexpr uint32_t kMaxRegistrations = 64;
// A coroutine that waits for another one of its session to replace the queue pair looks after this, then after twice
// as long each time, up to kLookLatest.
constexpr std::chrono::microseconds kLookFirst{10};
constexpr std::chrono::microseconds kLookLatest{1000};
// A server that could not be reached is not tried again for so long: operations on it fail at once meanwhile.
constexpr std::chrono::milliseconds kTryAgain{500};

Error Unreached(const Servers& servers, ServerId server, std::string_view why) {
  const ServerInfo* info = servers.Find(server);
  return CannotBeReached(server, info == nullptr ? "an unknown address" : info->address, why);
}

}  // namespace

Task<Status> Tree::Recover(Operation& operation, ServerId server) {
  NoteLoss(operation, server);
  if (++operation.losses > kMaxLosses) {
    co_return Unreached(shared_.servers, server,
                        "one operation lost " + std::to_string(kMaxLosses) + " queue pairs to it");
  }
  Link& link = links_[ToInteger(server)];
  co_await AwaitIdle(link);
  const bool is_done = link.recovered_at > operation.posted_at && link.lease.incarnation != 0;
  if (is_done) co_return Ok();  // Another coroutine saw to it.
  if (link.is_down && scheduler_.Now() - link.failed_at < kTryAgain) co_return link.why;
  link.is_busy = true;
  Status replaced = co_await ReplaceQueuePair(server);
  if (!replaced && replaced.error().code == Code::kNodeUnreachable) {
    replaced = Unreached(shared_.servers, server, replaced.error().message);
  }
  link.is_busy = false;
  link.is_down = !replaced;
  if (!replaced) {
    shared_.allocator.Lost(server, scheduler_.Now());
    link.failed_at = scheduler_.Now();
    link.why = replaced.error();
  }
  co_return replaced;
}

Task<void> Tree::AwaitIdle(const Link& link) {
  for (auto look = kLookFirst; link.is_busy; look = std::min(2 * look, kLookLatest)) {
    co_await scheduler_.SleepFor(look);
  }
}

Task<Status> Tree::ReplaceQueuePair(ServerId server) {
  Link& link = links_[ToInteger(server)];
  uint32_t silences = 0;
  std::string why;
  for (uint32_t attempt = 0; attempt < kMaxRegistrations; ++attempt) {
    // First: what other coroutines post on the next queue pair is not of this lease (rule L4).
    link.lease = {};
    QueuePairRequest request;
    request.server = server;
    co_await scheduler_.endpoint().Execute(request);
    BOOST_OUTCOME_CO_TRYV(std::move(request.status));
    const Scheduler::Clock::time_point asked_at = scheduler_.Now();
    link.recovered_at = ++recoveries_;
    const Result<Registration> registered = co_await RegisterOver(scheduler_.endpoint(), server);
    if (registered) {
      link.lease = registered.value().lease;
      // Another lease than the one before: memory that was granted under that is not ours any more (rule U4).
      shared_.allocator.Registered(server, registered.value());
      co_return Ok();
    }
    // Fenced: the lease before is just being ended. Unreachable: this queue pair has been lost as well.
    const Code code = registered.error().code;
    silences = scheduler_.Now() - asked_at < kSilentRegistration ? 0 : silences + 1;
    if ((code != Code::kFenced && code != Code::kNodeUnreachable) || silences == kMostSilences) {
      co_return registered.error();
    }
    why = registered.error().message;
    co_await Pause(attempt + 1);
  }
  co_return MakeError(Code::kNodeUnreachable, std::to_string(kMaxRegistrations) +
                                                  " registrations failed, the last one as: " + why);
}

Task<Status> Tree::Register(Operation& operation, ServerId server) {
  Link& link = links_[ToInteger(server)];
  co_await AwaitIdle(link);
  if (link.is_down) {
    operation.posted_at = recoveries_;
    co_return co_await Recover(operation, server);
  }
  if (link.lease.incarnation != 0) co_return Ok();
  link.is_busy = true;
  ++operation.wire.sends;
  ++operation.wire.round_trips;
  operation.posted_at = recoveries_;
  const Result<Registration> registered = co_await RegisterOver(scheduler_.endpoint(), server);
  if (registered) {
    link.lease = registered.value().lease;
    shared_.allocator.Registered(server, registered.value());
  }
  link.is_busy = false;
  if (registered) co_return Ok();
  co_return co_await Recover(operation, server);
}

Task<bool> Tree::ShouldRetry(Operation& operation, Error& error) {
  const bool is_loss = error.code == Code::kNodeUnreachable || error.code == Code::kFenced;
  const std::optional<ServerId> lost = std::exchange(operation.lost, std::nullopt);
  const bool needs_other_memory = std::exchange(operation.needs_other_memory, false);
  const bool lacks_memory = std::exchange(operation.lacks_memory, false);
  if (!is_loss || (!lost && !needs_other_memory) || ++operation.retries > kMaxRetries)
    co_return false;
  if (!lost) co_return true;
  operation.posted_at = operation.lost_at;
  const Status recovered = co_await Recover(operation, *lost);
  // The allocator passes over what is out of reach.
  if (!recovered && needs_other_memory && shared_.allocator.HasOther(*lost)) co_return true;
  // Why the server cannot be reached tells more than that a verb to it was lost; but why no other had memory, too, is
  // said behind it.
  if (!recovered && lacks_memory) error.message = recovered.error().message + "; " + error.message;
  if (!recovered && !lacks_memory) error = recovered.error();
  co_return recovered.has_value();
}

// Memory that this session cannot reach is of no use to it, whatever others have to say of the server.
template <typename Pointer, typename Allocate>
Task<Result<Allocated<Pointer>>> Tree::AllocateInReach(Operation& operation, Allocate allocate) {
  std::bitset<Servers::kMaxServers> out_of_reach;
  for (;;) {
    operation.posted_at = recoveries_;
    std::optional<ServerId> lost;
    Result<Allocated<Pointer>> allocated = co_await allocate(lost);
    NotePassedOver(operation, lost, allocated.has_value());
    if (!allocated) co_return allocated.error();
    const ServerId server = allocated.value().pointer().server();
    const Link& link = links_[ToInteger(server)];
    const bool is_in_reach = !link.is_down || scheduler_.Now() - link.failed_at >= kTryAgain;
    if (is_in_reach) co_return std::move(allocated.value());
    if (out_of_reach[ToInteger(server)]) co_return link.why;
    out_of_reach.set(ToInteger(server));
    shared_.allocator.Lost(server, scheduler_.Now());
  }
}

Task<Result<Allocated<RemotePtr>>> Tree::AllocateNode(Operation& operation, ServerId near,
                                                      NodeKind kind) {
  return AllocateInReach<RemotePtr>(
      operation, [this, &operation, near, kind](std::optional<ServerId>& lost) {
        return shared_.allocator.AllocateNode(scheduler_, near, kind, operation.wire, lost);
      });
}

Task<Result<Allocated<BlockPtr>>> Tree::AllocateBlock(Operation& operation, uint32_t length) {
  return AllocateInReach<BlockPtr>(
      operation, [this, &operation, length](std::optional<ServerId>& lost) {
        return shared_.allocator.AllocateBlock(scheduler_, length, operation.wire, lost);
      });
}

void Tree::NotePassedOver(Operation& operation, std::optional<ServerId> lost, bool has_memory) {
  if (!lost) return;
  operation.lacks_memory = !has_memory;
  if (!has_memory) return NoteLoss(operation, *lost);
  operation.passed_over = lost;
  operation.passed_over_at = operation.posted_at;
}

void Tree::TendPassedOver(Operation& operation) {
  const std::optional<ServerId> server = std::exchange(operation.passed_over, std::nullopt);
  if (server) scheduler_.Spawn(RecoverPassedOver(*server, operation.passed_over_at));
}

Task<void> Tree::RecoverPassedOver(ServerId server, uint64_t lost_at) {
  Operation operation;
  operation.posted_at = lost_at;
  const Status recovered = co_await Recover(operation, server);
  static_cast<void>(recovered);  // It is left out for longer.
}

// The lock stays the caller's whatever comes of it.
Task<Status> Tree::ExecuteHeld(Operation& operation, const NodeLock& lock, Batch& reads) {
  for (;;) {
    if (LeaseWith(lock.place.server).incarnation == 0) {
      BOOST_OUTCOME_CO_TRYV(co_await Register(operation, lock.place.server));
    }
    BOOST_OUTCOME_CO_TRYV(CheckEpoch(operation, lock, lock.held));
    co_await Execute(operation, reads);
    if (reads.status() == VerbStatus::kSuccess) co_return Ok();
    BOOST_OUTCOME_CO_TRYV(co_await Recover(operation, reads.server()));
  }
}

void Tree::Orphan(NodeLock& lock, HeldLock held) {
  const LockPlace place = lock.place;
  OrphanedLocks::Orphan orphan{
      place, held, scheduler_.endpoint().BrokenQueuePairId(place.server), {}};
  NodeLock given = std::exchange(lock, NodeLock());
  lock.place = place;
  lock.node = given.node;
  if (given.turn && !IsBroken(Mutant::kU5Turn)) orphan.closed = given.turn.Close(place);
  shared_.orphans.Add(std::move(orphan));
}

Task<Status> Tree::AwaitSettled(const Operation& operation, NodeLock& lock) {
  OrphanedLocks& orphans = shared_.orphans;
  const ServerId server = lock.place.server;
  const Link& link = links_[ToInteger(server)];
  if (link.is_down && scheduler_.Now() - link.failed_at < kTryAgain) co_return link.why;
  const uint64_t failures = orphans.CountFailures(server);
  orphans.TryAgain(server);
  bool is_late = false;
  for (auto look = kLookFirst;; look = std::min(2 * look, kLookLatest)) {
    orphans.Tend();
    if (!shared_.locks.IsClosed(lock.place)) co_return Ok();
    is_late = HasWaitedLong(lock);
    if (operation.is_repair || is_late || orphans.CountFailures(server) != failures) break;
    co_await scheduler_.SleepFor(look);
  }
  if (!is_late) {
    co_return Unreached(shared_.servers, server,
                        "it was lost by an operation that may hold a lock there");
  }
  co_return MakeError(
      Code::kNodeUnreachable,
      "memory server " + std::to_string(ToInteger(server)) +
          " was lost by an operation that may hold a lock there, and what became of it is not "
          "known yet, " +
          std::to_string(shared_.options.lock_timeout_ms) + " ms later: try again");
}

// Once the old queue pair is destroyed, nothing of the first try can land on what the next one wrote.
Task<Status> Tree::WriteUnseen(Operation& operation, ServerId server, const Verb& write) {
  for (;;) {
    InlineBatch<1> batch(server);
    batch.Add(write);
    co_await Execute(operation, batch);
    if (batch.status() == VerbStatus::kSuccess) co_return Ok();
    BOOST_OUTCOME_CO_TRYV(co_await Recover(operation, server));
  }
}

Task<Result<uint64_t>> Tree::ReadLockWord(Operation& operation, const NodeLock& lock,
                                          LocalAddress word_at) {
  for (;;) {
    InlineBatch<1> batch(lock.place.server);
    batch.Add(Verb::FetchAdd(Space::kLockTable, lock.place.slot, 0, word_at));
    co_await Execute(operation, batch);
    if (batch.status() == VerbStatus::kSuccess) co_return batch.verbs()[0].old_value();
    BOOST_OUTCOME_CO_TRYV(co_await Recover(operation, lock.place.server));
  }
}

Task<Result<uint64_t>> Tree::FindLockWord(Operation& operation, NodeLock& lock, HeldLock held,
                                          LocalAddress word_at) {
  Status recovered = co_await Recover(operation, lock.place.server);
  Result<uint64_t> found = uint64_t{0};
  if (recovered) {
    found = co_await ReadLockWord(operation, lock, word_at);
    if (!found) recovered = found.error();
  }
  if (recovered) recovered = co_await Register(operation, lock.place.server);
  if (recovered) co_return found;
  Orphan(lock, held);
  co_return recovered.error();
}

Task<Result<bool>> Tree::Settle(Operation& operation, NodeLock& lock, const HeldLock& held,
                                AndThen and_then, const std::optional<NewVersion>& changed,
                                LocalAddress word_at) {
  const auto unsettled = [&](const std::string& why) {
    return MakeError(Code::kMaybeApplied,
                     "memory server " + std::to_string(ToInteger(lock.place.server)) +
                         " was lost during the write: read to find out (" + why + ")");
  };
  const Result<uint64_t> found = co_await FindLockWord(operation, lock, held, word_at);
  if (!found) co_return unsettled(found.error().ToString());
  // Another lease: the lock may have been taken from us before the batch, or behind it.
  const Status same = co_await EnterEpoch(operation, lock, held);
  if (!same) co_return unsettled(same.error().ToString());
  if (IsBroken(Mutant::kU2)) co_return false;
  if (found.value() != held.word.word()) {
    // Nobody else could release it, and the unlock came last.
    if (and_then == AndThen::kUnlock) co_return true;
    co_return unsettled("the lock word is another's");
  }
  if (changed) {
    // The new node is reachable once its WRITE was applied, and the one beside it may have been changed since.
    lock.held = held;
    const Result<bool> applied = co_await HasVersion(operation, lock, *changed);
    if (!applied) {
      const Status unlocked = co_await Unlock(operation, lock, word_at);
      static_cast<void>(unlocked);  // What stays open is what was written.
      co_return unsettled(applied.error().ToString());
    }
    if (applied.value()) {
      if (and_then == AndThen::kKeep) co_return true;
      const Status unlocked = co_await Unlock(operation, lock, word_at);
      static_cast<void>(unlocked);  // The write stands, with or without the lock.
      co_return true;
    }
    if (and_then == AndThen::kUnlock) lock.held = {};
  }
  co_return false;
}

// 1 RT, under the lock.
Task<Result<bool>> Tree::HasVersion(Operation& operation, const NodeLock& lock,
                                    const NewVersion& changed) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const RemotePtr node = changed.node;
  Result<BufferLease> buffer = Buffer(bytes);
  if (!buffer) co_return buffer.error();
  InlineBatch<1> batch(node.server());
  batch.Add(Verb::Read(node.offset(), bytes, buffer.value().address()));
  BOOST_OUTCOME_CO_TRYV(co_await ExecuteHeld(operation, lock, batch));
  const std::span<const std::byte> image(buffer.value().data(), bytes);
  if (changed.level == 0) {
    const std::optional<LeafView> leaf = LeafView::Parse(image, node, shared_.geometry);
    if (leaf) co_return leaf->version() == changed.version;
  } else {
    const std::optional<InternalNode> internal = DecodeInternal(image, node);
    if (internal) co_return internal->version == changed.version;
  }
  co_return CorruptNode(node, "a node that fails its checks under its lock");
}

Task<Status> Tree::SettleUnlock(Operation& operation, NodeLock& lock, const HeldLock& held,
                                LocalAddress word_at) {
  for (;;) {
    const Result<uint64_t> found = co_await FindLockWord(operation, lock, held, word_at);
    if (!found) co_return found.error();
    BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(operation, lock, held));
    if (found.value() != held.word.word()) co_return Ok();
    InlineBatch<1> batch(lock.place.server);
    batch.Add(ReleaseVerb(lock, held, word_at));
    co_await Execute(operation, batch);
    if (batch.status() == VerbStatus::kSuccess) {
      co_return CheckReleased(batch.verbs()[0].old_value(), lock, held);
    }
  }
}

}  // namespace gossamer
