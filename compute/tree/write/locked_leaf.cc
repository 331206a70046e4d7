#include "compute/tree/write/locked_leaf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
Status LeafLocker::UseBuffers(LeafWish& wish, LockedLeaf& locked) const {
  const size_t bytes = LockedBuffers::Bytes(context_.geometry().node_bytes());
  Result<BufferLease> buffers = context_.links.Buffer(bytes);
  if (!buffers) return buffers.error();
  locked.lease = std::move(buffers.value());
  locked.UseBuffer(locked.lease.address());
  wish.image = locked.image().data;
  return Ok();
}

Task<Result<LeafLocker::Outcome>> LeafLocker::Lock(Op& op, LeafWish& wish, bool may_be_granted,
                                                   Batch* alongside, LockedLeaf& locked,
                                                   Tried* tried) {
  const LeafGeometry& geometry = context_.geometry();
  const KeyView key = wish.write.entry.key;
  if (!locked.lease) {
    BOOST_OUTCOME_CO_TRYV(UseBuffers(wish, locked));
  }
  Search search;
  search.has_path = !locked.path.node.is_null();

  for (;;) {  // no lock is held here, but perhaps that of `tried`
    Result<RemoteLock::Attempt> attempt = RemoteLock::Attempt::kTaken;
    uint32_t wanted = 0;
    if (tried != nullptr) {
      wanted = tried->trial.wanted;
      if (!tried->is_taken) {
        attempt = co_await locked.lock.FinishTry(tried->trial.taking, tried->batch);
      }
      tried = nullptr;
    } else {
      if (!search.has_path) {
        search.left.reset();
        BOOST_OUTCOME_CO_TRYV(co_await FindPath(op, key, locked));
        search.has_path = true;
      }
      BOOST_OUTCOME_CO_TRYV(co_await locked.lock.AimAt(locked.leaf()));
      wish.known_units = 0;
      wish.knows_trailer = false;
      if (!locked.lock.HasTurn() && !locked.lock.TryTakeTurn()) {
        const Result<Turn> turn = co_await TakeTurn(op, wish, may_be_granted, alongside, locked);
        if (!turn) co_return turn.error();
        if (turn.value() == Turn::kDoneByAnother) co_return Outcome::kDoneByAnother;
        if (turn.value() == Turn::kLookUp) search.has_path = false;
        if (turn.value() != Turn::kMine) continue;
      }
      locked.trailer.reset();
      locked.editor.emplace(std::span(wish.image, geometry.node_bytes()), locked.leaf(), geometry,
                            locked.within());
      if (locked.lock.is_held() && wish.known_units != 0) {
        locked.editor->AcceptHandedOver(wish.known_units);
        if (wish.knows_trailer) AcceptTrailer(locked);
      }
      std::array<Verb, RemoteLock::kMaxReads> reads;
      wanted = WantedUnits(locked, wish.write, wish.along, wish.is_whole);
      size_t read_count = 0;
      ForEachRead(locked, wanted, [&](auto make) { reads[read_count++] = make(); });
      attempt =
          co_await locked.lock.Try({reads.data(), read_count}, std::exchange(alongside, nullptr));
    }
    if (!attempt) co_return attempt.error();
    if (attempt.value() == RemoteLock::Attempt::kRefused) {
      BOOST_OUTCOME_CO_TRYV(co_await locked.lock.BackOff());
      // The leaf may have split meanwhile, so look the path up again. But take a dead compute
      // server's lock right here, and go on from a sibling: a new path may lead to another leaf
      // and its lock, again and again.
      search.has_path = locked.lock.holder_is_dead() || search.left.has_value();
      continue;
    }

    const bool is_valid = Accept(locked, wanted);
    if (is_valid && locked.unit(wish.write.unit).Admits(key)) co_return Outcome::kLocked;
    BOOST_OUTCOME_CO_TRYV(co_await LeaveStaleLeaf(op, locked, wish.write, is_valid, search));
  }
}

Task<Status> LeafLocker::FindPath(Op& op, KeyView key, LockedLeaf& locked) const {
  const std::optional<NodeCache::Step> cached = context_.cache.FindLeaf(key);
  if (cached) {
    locked.path = *cached;
    co_return Ok();
  }
  locked.lock.GiveUpTurn();  // A descent may have to take locks.
  const Result<NodeCache::Step> path =
      co_await context_.descent.To(op, SearchGoal::Covering(key), 0);
  if (!path) co_return path.error();
  locked.path = path.value();
  co_return Ok();
}

bool LeafLocker::PrepareTry(LeafWish& wish, LockedLeaf& locked, Tried& tried) const {
  if (!PrepareTrial(locked)) return false;
  locked.lock.PrefetchTurn();
  if (!UseBuffers(wish, locked) || !locked.lock.TryTakeTurn()) return false;
  tried.batch.Reset(locked.leaf().server());
  AddTrial(locked, {&wish.write, 1}, tried.batch, tried.trial);
  return true;
}

bool LeafLocker::AcceptTry(const LeafWish& wish, LockedLeaf& locked, Tried& tried) const {
  const bool is_taken = tried.batch.status() == VerbStatus::kSuccess &&
                        rules::MayUse(RemoteLock::HasTaken(tried.trial.taking, tried.batch));
  if (!is_taken) return false;
  locked.lock.LearnTaken(tried.trial.taking, tried.batch);
  tried.is_taken = true;
  return Accept(locked, tried.trial.wanted) &&
         locked.unit(wish.write.unit).Admits(wish.write.entry.key);
}

bool LeafLocker::PrepareTrial(LockedLeaf& locked) const {
  const RemoteLock::Aiming aiming = locked.lock.AimAt(locked.leaf());
  return aiming.await_ready() && aiming.await_resume() &&
         context_.links.IsRegistered(locked.lock.server());
}

void LeafLocker::AddTrial(LockedLeaf& locked, std::span<const LeafWrite> writes, Batch& batch,
                          Trial& trial) const {
  assert(!writes.empty() && locked.lock.HasTurn());
  const LeafGeometry& geometry = context_.geometry();
  locked.editor.emplace(std::span(locked.image().data, geometry.node_bytes()), locked.leaf(),
                        geometry, locked.within());
  locked.lock.AddTaking(batch, {}, trial.taking);
  trial.wanted = WantedUnits(locked, writes.front(), writes.subspan(1), false);
  ForEachRead(locked, trial.wanted, [&batch](auto make) { batch.AddMade(make); });
}

bool LeafLocker::AcceptTrial(LockedLeaf& locked, const Trial& trial, const Batch& batch) const {
  assert(locked.lock.is_held());
  const std::span<const Verb> behind = batch.verbs().subspan(trial.taking.verb + 1);
  const auto end = std::ranges::find_if_not(behind, &Verb::is_read);
  return std::all_of(behind.begin(), end,
                     [](const Verb& verb) { return verb.status == VerbStatus::kSuccess; }) &&
         Accept(locked, trial.wanted);
}

void LeafLocker::LearnHint(const LockedLeaf& locked, KeyView key) const {
  const LeafEditor& editor = *locked.editor;
  context_.cache.LearnHint(
      key, {locked.leaf(), locked.path.hint}, context_.geometry(), editor.known(),
      [&editor](uint32_t number) -> const GroupView& { return editor.Unit(number); });
}

Task<Result<LeafLocker::Turn>> LeafLocker::TakeTurn(Op& op, LeafWish& wish, bool may_be_granted,
                                                    Batch*& alongside, LockedLeaf& locked) const {
  if (alongside != nullptr) {
    // An operation that does this write along with its own needs the block to be written.
    co_await context_.links.Execute(op, *alongside);
    if (alongside->status() != VerbStatus::kSuccess) {
      op.needs_other_memory = true;
      co_return Links::Unreachable(op, *alongside);
    }
    alongside = nullptr;
  }
  wish.node = locked.leaf();
  const LockTable::Answer answer = co_await locked.lock.TakeTurn(may_be_granted ? &wish : nullptr);
  if (answer == LockTable::Answer::kDone) co_return Turn::kDoneByAnother;
  if (answer == LockTable::Answer::kLookUp) co_return Turn::kLookUp;
  if (answer == LockTable::Answer::kClosed) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.AwaitSettled());
    co_return Turn::kTryAgain;
  }
  const bool is_late = !locked.lock.is_held() && locked.lock.HasWaitedLong();
  if (is_late) co_return co_await locked.lock.ContendedError();
  co_return Turn::kMine;
}

// Returns the bit set of unknown units that the writes and the waiters' wishes need. The bit behind
// the units stands for the trailer: the leaf is read whole, because too many units would be read,
// or because the leaf is full and has to be split.
uint32_t LeafLocker::WantedUnits(LockedLeaf& locked, const LeafWrite& write,
                                 std::span<const LeafWrite> along, bool is_whole) const {
  const LeafGeometry& geometry = context_.geometry();
  const uint32_t all = (2u << geometry.units()) - 1;
  if (is_whole) return locked.trailer ? 0 : all;
  const LeafHint hint(locked.path.hint);
  const auto concerns_overflow = [&](const LeafWrite& one) {
    if (!locked.editor->knows(one.unit)) {
      return one.is_new ? hint.IsTight(one.unit) : hint.MayHaveOverflowed(one.hash, one.unit);
    }
    const GroupView& home = locked.unit(one.unit);
    return (!home.Covers(one.entry.key) || !locked.editor->MayHave(one.entry.key, one.unit)) &&
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
  for (const LeafWrite& other : along) want(other);
  if (locked.lock.turn()) {
    locked.lock.turn().ForEachWish(
        locked.leaf(), [&want](const LockTable::Wish& wish) { want(LeafWish::From(wish).write); });
  }
  const uint32_t unknown = wanted & ~locked.editor->known();
  return std::popcount(unknown) > static_cast<int>(RemoteLock::kMaxReads) ? all : unknown;
}

template <typename Visit>
void LeafLocker::ForEachRead(const LockedLeaf& locked, uint32_t wanted, Visit visit) const {
  const LeafGeometry& geometry = context_.geometry();
  const bool reads_all = (wanted >> geometry.units() & 1) != 0;
  if (reads_all) {
    visit([&] { return ReadVerb(locked, 0, geometry.node_bytes()); });
    return;
  }
  for (uint32_t rest = wanted; rest != 0; rest &= rest - 1) {
    const uint32_t at = geometry.unit_offset(static_cast<uint32_t>(std::countr_zero(rest)));
    visit([&, at] { return ReadVerb(locked, at, geometry.unit_bytes()); });
  }
}

bool LeafLocker::Accept(LockedLeaf& locked, uint32_t wanted) const {
  const LeafGeometry& geometry = context_.geometry();
  bool is_valid = true;
  for (uint32_t rest = wanted & ~(1u << geometry.units()); rest != 0; rest &= rest - 1) {
    is_valid = locked.editor->Accept(static_cast<uint32_t>(std::countr_zero(rest))) && is_valid;
  }
  const bool reads_all = (wanted >> geometry.units() & 1) != 0;
  return is_valid && (!reads_all || AcceptTrailer(locked));
}

// Checks the trailer in the image. Returns false if it is not valid or not of the known units'
// version.
bool LeafLocker::AcceptTrailer(LockedLeaf& locked) const {
  const LeafGeometry& geometry = context_.geometry();
  const std::byte* at = locked.image(geometry.trailer_offset()).data;
  locked.trailer = rules::ParseTrailer({at, kTrailerBytes}, locked.leaf(), geometry);
  const uint32_t known = static_cast<uint32_t>(std::countr_zero(locked.editor->known()));
  if (locked.trailer && locked.trailer->version() != locked.unit(known).version()) {
    locked.trailer.reset();
  }
  return locked.trailer.has_value();
}

Task<Status> LeafLocker::ReadOverflow(LockedLeaf& locked) const {
  const LeafGeometry& geometry = context_.geometry();
  const uint32_t overflow = geometry.overflow_unit();
  InlineBatch<1> batch(locked.leaf().server());
  batch.Add(ReadVerb(locked, geometry.unit_offset(overflow), geometry.unit_bytes()));
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Read(batch));
  if (locked.editor->Accept(overflow)) co_return Ok();
  co_return CorruptNode(locked.leaf(), "an overflow group that fails its checksum under the lock");
}

Task<Status> LeafLocker::ReadRest(LockedLeaf& locked) const {
  assert(locked.lock.is_held());
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  InlineBatch<1> batch(leaf.server());
  batch.Add(ReadVerb(locked, 0, geometry.node_bytes()));
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Read(batch));
  const uint32_t all = (2u << geometry.units()) - 1;
  if (Accept(locked, all)) co_return Ok();
  co_return CorruptNode(leaf, "a leaf that fails its checks under its lock");
}

Task<Status> LeafLocker::ReadLongKeys(Op& op, LockedLeaf& locked,
                                      std::optional<KeyView> key) const {
  if (!key && !rules::OrdersByWholeKeys()) co_return Ok();
  const std::vector<LongRef> refs = locked.editor->UnknownLongKeys(key);
  co_return co_await context_.blocks.ReadKeys(op, locked.leaf(), refs, locked.editor->long_keys());
}

void LeafLocker::AcceptRewritten(LockedLeaf& locked) const {
  const LeafGeometry& geometry = context_.geometry();
  locked.editor.emplace(std::span(locked.image().data, geometry.node_bytes()), locked.leaf(),
                        geometry, locked.within());
  Accept(locked, (2u << geometry.units()) - 1);
}

Task<Status> LeafLocker::ReleaseAfter(LockedLeaf& locked, Error error) {
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
  co_return error;
}

void LeafLocker::HandOver(LockedLeaf& locked, LockTable::Waiter& next) const {
  if (next.wish != nullptr && next.wish->node == locked.leaf()) {
    LeafWish& wish = LeafWish::From(*next.wish);
    const LeafGeometry& geometry = context_.geometry();
    wish.known_units = locked.editor->known();
    for (uint32_t rest = wish.known_units; rest != 0; rest &= rest - 1) {
      const uint32_t unit = static_cast<uint32_t>(std::countr_zero(rest));
      const std::span<const std::byte> bytes = locked.editor->bytes(unit);
      std::copy(bytes.begin(), bytes.end(), wish.image + geometry.unit_offset(unit));
    }
    wish.knows_trailer = locked.trailer.has_value();
    if (wish.knows_trailer) {
      const std::byte* trailer = locked.image(geometry.trailer_offset()).data;
      std::copy(trailer, trailer + kTrailerBytes, wish.image + geometry.trailer_offset());
    }
  }
  locked.lock.HandOver(next);
}

}  // namespace gossamer
