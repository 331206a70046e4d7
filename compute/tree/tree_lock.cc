// Remote locks: taken by CAS from 0 with the READ of what they guard behind it in one batch, released by CAS from
// the exact word taken (rules R4, L1, L2). Nobody waits for a lock while holding one.
#include <string>

#include "compute/tree/tree.h"
#include "compute/tree/unit_buffers.h"

namespace gossamer {
namespace {

// A leaf whose units fail under the lock through so many fresh descents is corrupt (rule R5).
constexpr uint32_t kMaxFailures = 4;

}  // namespace

Result<LockWord> Tree::WordFor(RemotePtr node, uint64_t& slot) {
  BOOST_OUTCOME_TRYV(CheckPointer(node, shared_.parameters.node_bytes));
  const ServerInfo* server = shared_.servers.Find(node.server());
  slot = LockSlotOffset(node, server->lock_table_bytes);
  return LockWord(server->lease, node);
}

Task<Status> Tree::BackOff(RemotePtr node, uint64_t holder, uint32_t attempt,
                           std::chrono::steady_clock::time_point since) {
  ++counters_.locks.remote_retries;
  if (std::chrono::steady_clock::now() - since >
      std::chrono::milliseconds(shared_.lock_timeout_ms)) {
    const LockWord word = LockWord::FromWord(holder);
    co_return MakeError(Code::kContended,
                        "the lock of server " + std::to_string(ToInteger(node.server())) +
                            " offset " + std::to_string(node.offset()) +
                            " stayed with compute server " +
                            std::to_string(static_cast<uint16_t>(word.lease().compute)) +
                            " (incarnation " + std::to_string(word.lease().incarnation) + ") for " +
                            std::to_string(shared_.lock_timeout_ms) + " ms");
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
  const auto since = std::chrono::steady_clock::now();
  bool hopped = false;
  uint32_t failures = 0;

  for (uint32_t attempt = 0;; ++attempt) {
    if (!hopped) {
      const Result<Step> path = co_await FindLeaf(operation, key);
      if (!path) co_return path.error();
      locked.path = path.value();
    }
    const RemotePtr leaf = locked.leaf();
    const Result<LockWord> word = WordFor(leaf, locked.slot);
    if (!word) co_return word.error();
    locked.word = word.value();
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
        const Status unlocked = co_await Unlock(operation, leaf, locked.word, locked.slot);
        if (!unlocked) co_return unlocked.error();
      }
      co_return Unreachable(*alongside);
    }
    alongside = nullptr;
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    const uint64_t holder = batch.verbs()[0].old_value();
    if (holder != 0) {
      // The READs came before the lock was ours: discarded (rule R4). The leaf may split meanwhile.
      const Status waited = co_await BackOff(leaf, holder, attempt, since);
      if (!waited) co_return waited.error();
      hopped = false;
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
    if (whole) {
      // Stale: the leaf has split. Its sibling is right of the high fence (rule R3, under the lock).
      ++counters_.cache.stale;
      low = locked.home->high().key;
      const Result<RemotePtr> read = co_await ReadSiblingLocked(operation, locked);
      if (!read && read.error().code != Code::kCorruption) co_return read.error();
      if (read) sibling = read.value();
    }
    const Status unlocked = co_await Unlock(operation, leaf, locked.word, locked.slot);
    if (!unlocked) co_return unlocked.error();
    ForgetPath(locked.path);
    hopped = !sibling.is_null();
    if (hopped) {
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

// 1 RT, under the lock. Null at the right edge, which a leaf with a finite high fence never is.
Task<Result<RemotePtr>> Tree::ReadSiblingLocked(Operation& operation, const LockedLeaf& locked) {
  const LeafGeometry& geometry = shared_.geometry;
  InlineBatch<1> batch(locked.leaf().server());
  batch.Add(Verb::Read(locked.leaf().offset() + geometry.trailer_offset(), kTrailerBytes,
                       locked.buffers.address(UnitBuffers::kTrailer)));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  const std::optional<TrailerView> trailer = TrailerView::Parse(
      {locked.buffers.data() + UnitBuffers::kTrailer, kTrailerBytes}, locked.leaf(), geometry);
  if (!trailer || trailer->version() != locked.home->version()) {
    co_return CorruptNode(locked.leaf(), "a trailer that fails its checksum under the lock");
  }
  co_return trailer->sibling();
}

// 1 RT. Also the verb whose success makes "absent" and "exists" count (rule L5).
Task<Status> Tree::Unlock(Operation& operation, RemotePtr node, LockWord word, uint64_t slot) {
  Result<BufferLease> old_word = Buffer(BufferPool::kMinBytes);
  if (!old_word) co_return old_word.error();
  InlineBatch<1> batch(node.server());
  batch.Add(Verb::CompareSwap(Space::kLockTable, slot, word.word(), 0, old_word.value().address()));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  co_return CommitStatus(batch, word);
}

Status Tree::CommitStatus(const Batch& batch, LockWord word) {
  const std::string server = "memory server " + std::to_string(ToInteger(batch.server()));
  switch (batch.status()) {
    case VerbStatus::kSuccess: break;
    case VerbStatus::kFlushed:
      // Nothing before it in the batch failed: the queue pair was broken before the post.
      return MakeError(Code::kNodeUnreachable, server + " was lost before anything was written");
    case VerbStatus::kPending:
    case VerbStatus::kRemoteAccess:
    case VerbStatus::kUnknown:
      return MakeError(Code::kMaybeApplied,
                       server + " was lost during the write: read to find out");
  }
  const uint64_t held = batch.verbs().back().old_value();
  if (held == word.word()) return Ok();
  return MakeError(Code::kFenced, server + " has given this compute server's lock to another (" +
                                      std::to_string(held) +
                                      "): its lease has ended; open the store again");
}

}  // namespace gossamer
