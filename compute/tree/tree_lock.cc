// Remote locks: taken by CAS from 0 with the READ of what they guard behind it in one batch, released by CAS from
// the exact word taken (rules R4, L1, L2). Nobody waits for a lock while holding one.
#include <string>

#include "compute/tree/tree.h"
#include "compute/tree/unit_buffers.h"

namespace gossamer {
namespace {

// A leaf whose units fail under the lock through so many fresh descents is corrupt (rule R5).
constexpr uint32_t kMaxFailures = 4;
// A repair finds a lock taken so many times before it gives up.
constexpr uint32_t kRepairPatience = 3;

}  // namespace

Result<LockWord> Tree::WordFor(RemotePtr node, uint64_t& slot) {
  BOOST_OUTCOME_TRYV(CheckPointer(node, shared_.parameters.node_bytes));
  const ServerInfo* server = shared_.servers.Find(node.server());
  slot = LockSlotOffset(node, server->lock_table_bytes);
  return LockWord(server->lease, node);
}

Task<Status> Tree::BackOff(const Operation& operation, RemotePtr node, uint64_t holder,
                           uint32_t attempt, Scheduler::Clock::time_point since) {
  ++counters_.locks.remote_retries;
  // A read that hopped waits for its repair, but never for a lock: whoever hops next tries again.
  const bool gives_up = operation.is_repair && attempt >= kRepairPatience;
  if (gives_up ||
      scheduler_.Now() - since > std::chrono::milliseconds(shared_.options.lock_timeout_ms)) {
    const LockWord word = LockWord::FromWord(holder);
    co_return MakeError(Code::kContended,
                        "the lock of server " + std::to_string(ToInteger(node.server())) +
                            " offset " + std::to_string(node.offset()) +
                            " stayed with compute server " +
                            std::to_string(static_cast<uint16_t>(word.lease().compute)) +
                            " (incarnation " + std::to_string(word.lease().incarnation) + ") for " +
                            std::to_string(shared_.options.lock_timeout_ms) + " ms");
  }
  co_await Pause(attempt);
  co_return Ok();
}

// 1 RT: CAS, and behind it (atomic before READ) the home group, and the overflow group where the hint says that
// the key may be there. `alongside`, a batch of the caller's, goes out with the first try.
// What comes back is current: nobody else writes the leaf until it is unlocked.
Task<Result<Tree::LockedLeaf>> Tree::LockLeaf(Operation& operation, KeyView key, Batch* alongside) {
  const uint64_t hash = KeyHash(key);
  const uint32_t unit = shared_.geometry.GroupOf(hash);
  const uint32_t unit_bytes = shared_.geometry.unit_bytes();
  Result<BufferLease> buffers = Buffer(UnitBuffers::kBytes);
  if (!buffers) co_return buffers.error();
  LockedLeaf locked;
  locked.unit = unit;
  locked.buffers = std::move(buffers.value());
  const BufferLease& lease = locked.buffers;
  const auto since = scheduler_.Now();
  bool has_path = false;
  bool afresh = false;
  uint32_t failures = 0;

  for (uint32_t attempt = 0;; ++attempt) {
    if (!has_path) {
      const Result<Step> path = co_await FindLeaf(operation, key);
      if (!path) co_return path.error();
      locked.path = path.value();
    }
    const RemotePtr leaf = locked.leaf();
    const Result<LockWord> word = WordFor(leaf, locked.slot);
    if (!word) co_return word.error();
    locked.word = word.value();
    if (!queue_.IsAt(locked.turn, leaf.server(), locked.slot)) {
      locked.turn.GiveUp();
      locked.turn = co_await queue_.Wait(leaf.server(), locked.slot);
      if (!locked.turn) {
        has_path = false;  // The leaf has split meanwhile, and the cache knows it.
        continue;
      }
    }
    const bool want_overflow = (locked.path.hint & OverflowHint(hash)) != 0;

    InlineBatch<3> batch(leaf.server());
    batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, 0, locked.word.word(),
                                lease.address(UnitBuffers::kLockWord)));
    batch.Add(Verb::Read(leaf.offset() + shared_.geometry.unit_offset(unit), unit_bytes,
                         lease.address(UnitBuffers::kHome)));
    if (want_overflow) {
      batch.Add(
          Verb::Read(leaf.offset() + shared_.geometry.unit_offset(shared_.geometry.overflow_unit()),
                     unit_bytes, lease.address(UnitBuffers::kOverflow)));
    }
    Batch* const batches[] = {alongside, &batch};
    co_await ExecuteAll(operation, batches);
    if (alongside != nullptr && alongside->status() != VerbStatus::kSuccess) {
      // The caller's WRITE is not there; do not go on, but do not leave the lock behind either.
      if (batch.status() == VerbStatus::kSuccess && batch.verbs()[0].old_value() == 0) {
        const Status unlocked = co_await Unlock(operation, locked);
        if (!unlocked) co_return unlocked.error();
      }
      co_return Unreachable(*alongside);
    }
    alongside = nullptr;
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    const uint64_t holder = batch.verbs()[0].old_value();
    if (holder != 0) {
      // The READs came before the lock was ours: discarded (rule R4). The leaf may split meanwhile.
      const Status waited = co_await BackOff(operation, leaf, holder, attempt, since);
      if (!waited) co_return waited.error();
      has_path = false;
      continue;
    }
    ++counters_.locks.acquired;

    locked.home = GroupView::Parse({lease.data() + UnitBuffers::kHome, unit_bytes}, leaf, unit);
    if (want_overflow) {
      locked.overflow = GroupView::Parse({lease.data() + UnitBuffers::kOverflow, unit_bytes}, leaf,
                                         shared_.geometry.overflow_unit());
    } else {
      locked.overflow.reset();
    }
    const bool whole =
        locked.home && (!want_overflow ||
                        (locked.overflow && locked.overflow->version() == locked.home->version()));
    if (whole && locked.home->Admits(key)) co_return std::move(locked);

    RemotePtr sibling;
    Key low;
    const bool is_far_off = whole && IsFarOff(locked.path) && !afresh;
    if (whole) ++counters_.cache.stale;
    if (whole && !is_far_off) {
      // The leaf has split: what is right of its high fence is in its sibling.
      low = locked.home->high().key;
      const Result<RemotePtr> read = co_await UnlockForSibling(operation, locked);
      if (!read) co_return read.error();
      sibling = read.value();
    } else {
      const Status unlocked = co_await Unlock(operation, locked);
      if (!unlocked) co_return unlocked.error();
    }
    locked.turn.GiveUp();
    ForgetPath(locked.path);
    has_path = !sibling.is_null() || is_far_off;
    if (is_far_off) {
      afresh = true;
      const Result<Step> path =
          co_await Descend(operation, SearchGoal::Covering(key), 0, Trust::kNothing);
      if (!path) co_return path.error();
      locked.path = path.value();
    } else if (has_path) {
      ScheduleRepair(leaf, 0);
      locked.path = Step{sibling, 0, RemotePtr(), 0, low};
    } else {
      // Not this leaf any more, or corrupt: the parent, read again, tells (rule R5).
      if (++failures == kMaxFailures) {
        co_return CorruptNode(leaf, "a leaf that fails its checksums under its lock");
      }
      const Result<RootWord> root = co_await ReadRoot(operation);
      if (!root) co_return root.error();
    }
  }
}

// 1 RT, under the lock.
Task<Status> Tree::ReadOverflowLocked(Operation& operation, LockedLeaf& locked) {
  const LeafGeometry& geometry = shared_.geometry;
  InlineBatch<1> batch(locked.leaf().server());
  batch.Add(Verb::Read(locked.leaf().offset() + geometry.unit_offset(geometry.overflow_unit()),
                       geometry.unit_bytes(), locked.buffers.address(UnitBuffers::kOverflow)));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  locked.overflow =
      GroupView::Parse({locked.buffers.data() + UnitBuffers::kOverflow, geometry.unit_bytes()},
                       locked.leaf(), geometry.overflow_unit());
  if (!locked.overflow || locked.overflow->version() != locked.home->version()) {
    co_return CorruptNode(locked.leaf(),
                          "an overflow group that fails its checksum under the lock");
  }
  co_return Ok();
}

// 1 RT. The READ may take effect behind the unlock (N2): the equal version tells that the sibling is still that of the
// group (rule R3).
Task<Result<RemotePtr>> Tree::UnlockForSibling(Operation& operation, const LockedLeaf& locked) {
  const LeafGeometry& geometry = shared_.geometry;
  InlineBatch<2> batch(locked.leaf().server());
  batch.Add(Verb::Read(locked.leaf().offset() + geometry.trailer_offset(), kTrailerBytes,
                       locked.buffers.address(UnitBuffers::kTrailer)));
  batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, locked.word.word(), 0,
                              locked.buffers.address(UnitBuffers::kUnlockWord)));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  BOOST_OUTCOME_CO_TRYV(CheckHeld(batch, locked.word));
  const std::optional<TrailerView> trailer = TrailerView::Parse(
      {locked.buffers.data() + UnitBuffers::kTrailer, kTrailerBytes}, locked.leaf(), geometry);
  if (!trailer || trailer->version() != locked.home->version()) co_return RemotePtr();
  co_return trailer->sibling();
}

Task<Status> Tree::Unlock(Operation& operation, const LockedLeaf& locked) {
  return Unlock(operation, locked.leaf(), locked.word, locked.slot,
                locked.buffers.address(UnitBuffers::kUnlockWord));
}

// 1 RT. Also the verb whose success makes "absent" and "exists" count (rule L5).
Task<Status> Tree::Unlock(Operation& operation, RemotePtr node, LockWord word, uint64_t slot,
                          LocalAddress old_word) {
  InlineBatch<1> batch(node.server());
  batch.Add(Verb::CompareSwap(Space::kLockTable, slot, word.word(), 0, old_word));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  co_return CheckHeld(batch, word);
}

// Fenced: a batch that unlocks with its last verb found another's word.
Status Tree::CheckHeld(const Batch& batch, LockWord word) {
  const uint64_t held = batch.verbs().back().old_value();
  if (held == word.word()) return Ok();
  return MakeError(Code::kFenced, "memory server " + std::to_string(ToInteger(batch.server())) +
                                      " has given this compute server's lock to another (" +
                                      std::to_string(held) +
                                      "): its lease has ended; open the store again");
}

// Whatever did not succeed may have been applied. That goes for kFlushed too, when what failed before it on the queue
// pair was another operation's verb and ended as kUnknown (E3); and for a WRITE that was made while the lock was
// somebody else's (rule U2).
Status Tree::CommitStatus(const Batch& batch, LockWord word) {
  if (batch.status() != VerbStatus::kSuccess) {
    return MakeError(Code::kMaybeApplied,
                     "memory server " + std::to_string(ToInteger(batch.server())) +
                         " was lost during the write (" +
                         std::string(VerbStatusName(batch.status())) + "): read to find out");
  }
  Status held = CheckHeld(batch, word);
  if (!held) held.error().code = Code::kMaybeApplied;
  return held;
}

}  // namespace gossamer
