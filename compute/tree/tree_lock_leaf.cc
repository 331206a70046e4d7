// Leaves under their lock: found, locked, and read as far as a write needs.
#include <bit>

#include "compute/tree/tree.h"

namespace gossamer {
// 1 RT: CAS, and behind it (atomic before READ) the home group, the overflow group where the hint says that it will be
// needed, and what those need who wait for the same leaf. No RT with a lock that was handed over along with
// all that. What is known then is current: nobody else writes the leaf until it is unlocked.
Task<Result<bool>> Tree::LockLeaf(Operation& operation, LeafWrite& write, bool may_be_granted,
                                  Batch* alongside, LockedLeaf& locked) {
  const LeafGeometry& geometry = shared_.geometry;
  const KeyView key = write.entry.key;
  const Techniques& techniques = shared_.options.techniques;
  Result<BufferLease> buffers = Buffer(LockedBuffers::Bytes(geometry.node_bytes()));
  if (!buffers) co_return buffers.error();
  locked.buffers = std::move(buffers.value());
  const std::span<std::byte> image(locked.buffers.data() + LockedBuffers::kImage,
                                   geometry.node_bytes());
  const LocalAddress word_at = locked.buffers.address(LockedBuffers::kLockWord);
  write.image = image.data();
  NodeLock& lock = locked.lock;
  bool has_path = false;
  bool afresh = false;
  uint32_t failures = 0;
  uint32_t disagreements = 0;

  for (;;) {  // With no lock held.
    if (!has_path) {
      const std::optional<Step> cached = FindCachedLeaf(key);
      if (cached) {
        locked.path = *cached;
      } else {
        lock.turn.GiveUp();  // A descent may have to take locks.
        const Result<Step> path = co_await Descend(operation, SearchGoal::Covering(key), 0);
        if (!path) co_return path.error();
        locked.path = path.value();
      }
      has_path = true;
    }
    const RemotePtr leaf = locked.leaf();
    BOOST_OUTCOME_CO_TRYV(AimAt(lock, leaf));
    write.known_units = 0;
    write.knows_trailer = false;
    if (techniques.hierarchical_locks && !shared_.locks.IsAt(lock.turn, lock.place)) {
      lock.turn.GiveUp();
      lock.turn = shared_.locks.TryTake(lock.place, scheduler_);
      if (!lock.turn) {
        if (alongside != nullptr) {
          // An operation that does this write along with its own needs its block to be there.
          co_await Execute(operation, *alongside);
          if (alongside->status() != VerbStatus::kSuccess) {
            operation.needs_other_memory = true;
            co_return Unreachable(operation, *alongside);
          }
          alongside = nullptr;
        }
        write.node = leaf;
        const LockTable::Answer answer = co_await TakeTurn(lock, may_be_granted ? &write : nullptr);
        if (answer == LockTable::Answer::kDone) co_return false;
        if (answer == LockTable::Answer::kLookUp) {
          has_path = false;
          continue;
        }
        if (answer == LockTable::Answer::kClosed) {
          BOOST_OUTCOME_CO_TRYV(co_await AwaitSettled(operation, lock));
          continue;
        }
        const bool is_late = !lock.held && HasWaitedLong(lock);
        if (is_late) co_return co_await Late(lock);
      }
    }
    locked.trailer.reset();
    locked.editor.emplace(image, leaf, geometry);
    if (lock.held && write.known_units != 0) {
      locked.editor->AcceptHandedOver(write.known_units);
      if (write.knows_trailer) AcceptTrailer(locked);
    }

    std::array<Verb, kMaxReads> reads;
    const uint32_t wanted = WantedUnits(locked, write);
    size_t read_count = 0;
    const bool reads_all = (wanted >> geometry.units() & 1) != 0;
    if (reads_all) {
      reads[read_count++] = Verb::Read(leaf.offset(), geometry.node_bytes(),
                                       locked.buffers.address(LockedBuffers::kImage));
    } else {
      for (uint32_t rest = wanted; rest != 0; rest &= rest - 1) {
        reads[read_count++] = ReadUnitVerb(locked, static_cast<uint32_t>(std::countr_zero(rest)));
      }
    }
    const Result<bool> taken =
        co_await TryLock(operation, lock, {reads.data(), read_count}, word_at, alongside);
    alongside = nullptr;
    if (!taken) co_return taken.error();
    if (!taken.value()) {
      BOOST_OUTCOME_CO_TRYV(co_await BackOff(operation, lock));
      // The leaf may have split meanwhile. A dead compute server's lock is taken right here: the way anew may lead over
      // another leaf and its lock, time and again.
      has_path = lock.holder_is_dead;
      continue;
    }

    bool whole = true;
    for (uint32_t rest = wanted & ~(1u << geometry.units()); rest != 0; rest &= rest - 1) {
      whole = locked.editor->Accept(static_cast<uint32_t>(std::countr_zero(rest))) && whole;
    }
    if (whole && reads_all) whole = AcceptTrailer(locked);
    if (whole && locked.unit(write.unit).Admits(key)) co_return true;
    if (!whole && ++failures == kMaxFailures) {
      BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
      co_return CorruptNode(leaf, "a leaf that fails its checksums under its lock");
    }
    BOOST_OUTCOME_CO_TRYV(co_await LeaveStaleLeaf(operation, locked, write, whole, afresh));
    has_path = !locked.path.node.is_null();
    // Another split, or a loss, may come between the READs of group and trailer; but not every time.
    disagreements = whole && !has_path ? disagreements + 1 : 0;
    if (disagreements == kMaxDisagreements) {
      co_return CorruptNode(leaf, "a leaf whose group and trailer do not agree");
    }
  }
}

// The units that `write` and the wishes of those who wait need, less what is known: as bits. The bit behind the units
// stands for the trailer, and for reading the leaf whole: where too many units would be read, or the leaf is full and
// will have to be split.
uint32_t Tree::WantedUnits(LockedLeaf& locked, const LeafWrite& write) {
  const LeafGeometry& geometry = shared_.geometry;
  const uint32_t all = (2u << geometry.units()) - 1;
  if (!shared_.options.techniques.two_level_versions) return locked.trailer ? 0 : all;
  const LeafHint hint(locked.path.hint);
  const auto concerns_overflow = [&](const LeafWrite& one) {
    if (!locked.editor->knows(one.unit)) {
      return one.is_new ? hint.IsTight(one.unit) : hint.MayHaveOverflowed(one.hash, one.unit);
    }
    const GroupView& home = locked.unit(one.unit);
    return !home.Find(one.entry.key) &&
           (home.overflowed() || (one.is_new && !home.HasRoomForAnother(geometry.unit_bytes())));
  };
  if (write.is_new && hint.IsFull(write.unit) && concerns_overflow(write)) {
    return locked.trailer ? 0 : all;
  }
  uint32_t wanted = 0;
  const auto want = [&](const LeafWrite& one) {
    wanted |= 1u << one.unit;
    if (concerns_overflow(one)) wanted |= 1u << geometry.overflow_unit();
  };
  want(write);
  if (locked.lock.turn) {
    locked.lock.turn.ForEachWish(locked.leaf(), [&want](const LockTable::Wish& wish) {
      want(static_cast<const LeafWrite&>(wish));
    });
  }
  const uint32_t unknown = wanted & ~locked.editor->known();
  return std::popcount(unknown) > kMaxReads ? all : unknown;
}

// The locked leaf is not the one for the key: unlocks it, and finds the way to the one that is.
Task<Status> Tree::LeaveStaleLeaf(Operation& operation, LockedLeaf& locked, const LeafWrite& write,
                                  bool is_valid, bool& afresh) {
  const KeyView key = write.entry.key;
  const RemotePtr leaf = locked.leaf();
  const Step stale = std::exchange(locked.path, Step());
  if (is_valid) ++counters_.cache.stale;
  RemotePtr sibling;
  const bool is_far_off = is_valid && IsFarOff(stale) && !afresh;
  if (is_valid && !is_far_off) {
    // The leaf has split: what is right of its high fence is in its sibling.
    const Key low = locked.unit(write.unit).high().key;
    const Result<RemotePtr> read = co_await UnlockForSibling(operation, locked, leaf, write.unit);
    if (!read) co_return read.error();
    sibling = read.value();
    if (!sibling.is_null()) locked.path = Step{sibling, 0, RemotePtr(), 0, low};
  } else {
    BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
  }
  locked.lock.turn.GiveUp();
  ForgetPath(stale);
  if (is_far_off) {
    afresh = true;
    const Result<Step> path =
        co_await Descend(operation, SearchGoal::Covering(key), 0, Trust::kNothing);
    if (!path) co_return path.error();
    locked.path = path.value();
  } else if (!sibling.is_null()) {
    ScheduleRepair(leaf, 0);
  } else {
    // Not this leaf any more, or corrupt: the parent, read again, tells (rule R5).
    const Result<RootWord> root = co_await ReadRoot(operation);
    if (!root) co_return root.error();
  }
  co_return Ok();
}

// 1 RT. The READ may take effect behind the unlock (N2): the equal version tells that the sibling is still that of the
// group (rule R3). Null when trailer and group do not agree.
Task<Result<RemotePtr>> Tree::UnlockForSibling(Operation& operation, LockedLeaf& locked,
                                               RemotePtr leaf, uint32_t unit) {
  const LeafGeometry& geometry = shared_.geometry;
  const NodeVersion version = locked.unit(unit).version();
  const uint32_t trailer_at = LockedBuffers::kImage + geometry.trailer_offset();
  NodeLock& lock = locked.lock;
  const LocalAddress word_at = locked.buffers.address(LockedBuffers::kUnlockWord);
  BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(operation, lock, lock.held));
  const HeldLock held = std::exchange(lock.held, {});
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Read(leaf.offset() + geometry.trailer_offset(), kTrailerBytes,
                       locked.buffers.address(trailer_at)));
  batch.Add(ReleaseVerb(lock, held, word_at));
  const LinkedMemory nothing;
  const CommitGuard guard{held.word.lease(), nothing};
  co_await ExecuteInOrder(operation, batch, &guard);
  if (batch.status() != VerbStatus::kSuccess) {
    BOOST_OUTCOME_CO_TRYV(co_await SettleUnlock(operation, lock, held, word_at));
    co_return RemotePtr();
  }
  BOOST_OUTCOME_CO_TRYV(CheckReleased(batch.verbs().back().old_value(), lock, held));
  const std::optional<TrailerView> trailer =
      ParseTrailer({locked.buffers.data() + trailer_at, kTrailerBytes}, leaf);
  if (!trailer || trailer->version() != version) co_return RemotePtr();
  co_return trailer->sibling();
}

Verb Tree::ReadUnitVerb(const LockedLeaf& locked, uint32_t number) const {
  const uint32_t at = shared_.geometry.unit_offset(number);
  return Verb::Read(locked.leaf().offset() + at, shared_.geometry.unit_bytes(),
                    locked.buffers.address(LockedBuffers::kImage + at));
}

bool Tree::AcceptTrailer(LockedLeaf& locked) const {
  const LeafGeometry& geometry = shared_.geometry;
  const std::byte* at = locked.buffers.data() + LockedBuffers::kImage + geometry.trailer_offset();
  locked.trailer = ParseTrailer({at, kTrailerBytes}, locked.leaf());
  const uint32_t known = static_cast<uint32_t>(std::countr_zero(locked.editor->known()));
  if (locked.trailer && locked.trailer->version() != locked.unit(known).version()) {
    locked.trailer.reset();
  }
  return locked.trailer.has_value();
}

// 1 RT, under the lock.
Task<Status> Tree::ReadOverflow(Operation& operation, LockedLeaf& locked) {
  InlineBatch<1> batch(locked.leaf().server());
  batch.Add(ReadUnitVerb(locked, shared_.geometry.overflow_unit()));
  BOOST_OUTCOME_CO_TRYV(co_await ExecuteHeld(operation, locked.lock, batch));
  if (locked.editor->Accept(shared_.geometry.overflow_unit())) co_return Ok();
  co_return CorruptNode(locked.leaf(), "an overflow group that fails its checksum under the lock");
}

// 1 RT, under the lock, where nothing was changed yet.
Task<Status> Tree::ReadRest(Operation& operation, LockedLeaf& locked) {
  const LeafGeometry& geometry = shared_.geometry;
  const RemotePtr leaf = locked.leaf();
  InlineBatch<1> batch(leaf.server());
  batch.Add(Verb::Read(leaf.offset(), geometry.node_bytes(),
                       locked.buffers.address(LockedBuffers::kImage)));
  BOOST_OUTCOME_CO_TRYV(co_await ExecuteHeld(operation, locked.lock, batch));
  bool whole = true;
  for (uint32_t unit = 0; unit < geometry.units(); ++unit) {
    whole = locked.editor->Accept(unit) && whole;
  }
  if (whole && AcceptTrailer(locked)) co_return Ok();
  co_return CorruptNode(leaf, "a leaf that fails its checks under its lock");
}

}  // namespace gossamer
