#include "compute/tree/write/leaf_job.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <utility>

#include "common/set_bits.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// A leaf whose group and trailer do not agree, or to which only stale paths should lead, this many
// times in a row is corrupt.
constexpr uint32_t kMaxDisagreements = 16;

// Waiters whose jobs are granted along with one commit.
constexpr size_t kMaxGranted = 64;

}  // namespace

// ---- Finding, locking and reading

Status LeafLocker::UseBuffer(LeafJob& job) const {
  const size_t bytes = LockedBuffers::Bytes(context_.geometry().node_bytes());
  BOOST_OUTCOME_TRY(buffer, context_.links.Buffer(bytes));
  job.locked.lease = std::move(buffer);
  job.locked.UseBuffer(job.locked.lease.address());
  return Ok();
}

Task<Status> LeafLocker::Lock(Op& op, LeafJob& job, bool may_be_granted, Batch* alongside) {
  assert(job.state == LeafJob::State::kOpen || job.state == LeafJob::State::kTried ||
         (job.batch->status() == VerbStatus::kSuccess &&
          (job.state == LeafJob::State::kRefused || job.state == LeafJob::State::kHeld)));
  LockedLeaf& locked = job.locked;
  const KeyView key = job.first().entry.key;
  if (!locked.lease) {
    BOOST_OUTCOME_CO_TRYV(UseBuffer(job));
  }
  Search search;
  search.has_path = !locked.path.node.is_null();

  for (;;) {  // no lock is held here, but perhaps that of a first try
    Result<RemoteLock::Attempt> attempt = RemoteLock::Attempt::kTaken;
    const LeafJob::State state = std::exchange(job.state, LeafJob::State::kOpen);
    if (state == LeafJob::State::kTried) {
      attempt = co_await locked.lock.FinishTry(job.taking, *job.batch);
    } else if (state == LeafJob::State::kRefused) {
      attempt = RemoteLock::Attempt::kRefused;
    } else if (state == LeafJob::State::kOpen) {
      if (!search.has_path) {
        search.left.reset();
        BOOST_OUTCOME_CO_TRYV(co_await FindPath(op, key, locked));
        search.has_path = true;
      }
      BOOST_OUTCOME_CO_TRYV(locked.lock.AimAt(locked.leaf()));
      job.known_units = 0;
      job.knows_trailer = false;
      if (!locked.lock.HasTurn() && !locked.lock.TryTakeTurn()) {
        using Answer = LockTable::Answer;
        BOOST_OUTCOME_CO_TRY(answer, co_await AwaitTurn(op, job, may_be_granted, alongside));
        if (answer == Answer::kDone) {
          job.state = LeafJob::State::kGranted;
          co_return Ok();
        }
        if (answer == Answer::kLookUp) search.has_path = false;
        if (answer != Answer::kTurn) continue;
      }
      BeginImage(job);
      if (locked.lock.is_held() && job.known_units != 0) {
        locked.editor->AcceptHandedOver(job.known_units);
        if (job.knows_trailer) AcceptTrailer(locked);
      }
      std::array<Verb, RemoteLock::kMaxReads> reads;
      job.wanted = WantedUnits(job);
      size_t read_count = 0;
      ForEachRead(locked, job.wanted, [&](auto make) { reads[read_count++] = make(); });
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

    const bool is_valid = Accept(locked, job.wanted);
    if (is_valid && locked.unit(job.first().unit).Admits(key)) {
      job.state = LeafJob::State::kHeld;
      co_return Ok();
    }
    BOOST_OUTCOME_CO_TRYV(co_await LeaveStaleLeaf(op, job, is_valid, search));
  }
}

Task<Status> LeafLocker::FindPath(Op& op, KeyView key, LockedLeaf& locked) const {
  const std::optional<NodeCache::Step> cached = context_.cache.FindLeaf(key);
  if (cached) {
    locked.path = *cached;
    co_return Ok();
  }
  locked.lock.GiveUpTurn();  // A descent may have to take locks.
  BOOST_OUTCOME_CO_TRY(path, co_await context_.descent.To(op, SearchGoal::Covering(key), 0));
  locked.path = path;
  co_return Ok();
}

bool LeafLocker::Aim(LeafJob& job) const {
  RemoteLock& lock = job.locked.lock;
  const RemotePtr leaf = job.locked.leaf();
  const bool is_aimed = context_.links.Reaches(leaf, context_.geometry().node_bytes()) &&
                        lock.AimAt(leaf) && context_.links.IsRegistered(lock.server());
  if (is_aimed) lock.PrefetchTurn();
  return is_aimed;
}

void LeafLocker::BeginImage(LeafJob& job) const {
  const LeafGeometry& geometry = context_.geometry();
  LockedLeaf& locked = job.locked;
  locked.trailer.reset();
  locked.editor.emplace(std::span(locked.image().data, geometry.node_bytes()), locked.leaf(),
                        geometry, locked.within(), context_.clock);
}

void LeafLocker::AddTry(LeafJob& job, Batch& batch) const {
  assert(!job.writes.empty() && job.locked.lock.HasTurn());
  BeginImage(job);
  job.locked.lock.AddTaking(batch, {}, job.taking);
  job.wanted = WantedUnits(job);
  ForEachRead(job.locked, job.wanted, [&batch](auto make) { batch.AddMade(make); });
  job.batch = &batch;
  job.state = LeafJob::State::kTried;
}

bool LeafLocker::AcceptTry(LeafJob& job) const {
  assert(job.state == LeafJob::State::kTried);
  LockedLeaf& locked = job.locked;
  if (!locked.lock.LearnTaken(job.taking, *job.batch)) return false;
  const bool is_held = rules::MayUse(locked.lock.is_held());
  job.state = is_held ? LeafJob::State::kHeld : LeafJob::State::kRefused;
  if (!is_held) return false;
  const std::span<const Verb> behind = job.batch->verbs().subspan(job.taking.verb + 1);
  const auto end = std::ranges::find_if_not(behind, &Verb::is_read);
  const bool are_read = std::all_of(
      behind.begin(), end, [](const Verb& verb) { return verb.status == VerbStatus::kSuccess; });
  // The keys ascend, and a path leads to the right leaf or too far left.
  return are_read && Accept(locked, job.wanted) &&
         locked.unit(job.first().unit).Admits(job.writes.back().entry.key);
}

void LeafLocker::LearnHint(const LockedLeaf& locked, KeyView key) const {
  const LeafEditor& editor = *locked.editor;
  context_.cache.LearnHint(
      key, {locked.leaf(), locked.path.hint}, context_.geometry(), editor.known(),
      [&editor](uint32_t number) -> const GroupView& { return editor.Unit(number); });
}

Task<Result<LockTable::Answer>> LeafLocker::AwaitTurn(Op& op, LeafJob& job, bool may_be_granted,
                                                      Batch*& alongside) const {
  LockedLeaf& locked = job.locked;
  if (alongside != nullptr) {
    // An operation that does this write along with its own needs the block to be written.
    co_await context_.links.Execute(op, *alongside);
    if (alongside->status() != VerbStatus::kSuccess) {
      op.needs_other_memory = true;
      co_return Links::Unreachable(op, *alongside);
    }
    alongside = nullptr;
  }
  job.node = locked.leaf();
  const LockTable::Answer answer = co_await locked.lock.TakeTurn(may_be_granted ? &job : nullptr);
  if (answer == LockTable::Answer::kClosed) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.AwaitSettled());
  }
  const bool is_late =
      answer == LockTable::Answer::kTurn && !locked.lock.is_held() && locked.lock.HasWaitedLong();
  if (is_late) co_return co_await locked.lock.ContendedError();
  co_return answer;
}

// Returns the bit set of unknown units that the writes and the waiters' jobs need. The bit behind
// the units stands for the trailer: the leaf is read whole, because too many units would be read,
// or because the leaf is full and has to be split.
uint32_t LeafLocker::WantedUnits(LeafJob& job) const {
  LockedLeaf& locked = job.locked;
  const LeafGeometry& geometry = context_.geometry();
  const uint32_t all = (2u << geometry.units()) - 1;
  if (job.is_whole) return locked.trailer ? 0 : all;
  const LeafHint hint(locked.path.hint);
  const auto concerns_overflow = [&](const LeafWrite& one) {
    if (!locked.editor->knows(one.unit)) {
      return one.is_new ? hint.IsTight(one.unit) : hint.MayHaveOverflowed(one.hash, one.unit);
    }
    const GroupView& home = locked.unit(one.unit);
    return (!home.Covers(one.entry.key) || !locked.editor->MayHave(one.entry.key, one.unit)) &&
           (home.overflowed() || (one.is_new && !home.HasRoomForAnother(geometry.unit_bytes())));
  };
  const LeafWrite& first = job.first();
  if (first.is_new && hint.IsFull(first.unit) && concerns_overflow(first)) {
    return locked.trailer ? 0 : all;
  }
  uint32_t wanted = 0;
  const auto want = [&](const LeafWrite& one) {
    wanted |= 1u << one.unit;
    if (concerns_overflow(one)) wanted |= 1u << geometry.overflow_unit();
  };
  for (const LeafWrite& one : job.writes) want(one);
  if (locked.lock.turn()) {
    locked.lock.turn().ForEachWish(locked.leaf(), [&want](const LockTable::Wish& wish) {
      for (const LeafWrite& one : LeafJob::From(wish).writes) want(one);
    });
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
  for (const uint32_t unit : SetBits(wanted)) {
    const uint32_t at = geometry.unit_offset(unit);
    visit([&, at] { return ReadVerb(locked, at, geometry.unit_bytes()); });
  }
}

bool LeafLocker::Accept(LockedLeaf& locked, uint32_t wanted) const {
  const LeafGeometry& geometry = context_.geometry();
  bool is_valid = true;
  for (const uint32_t unit : SetBits(wanted & ~(1u << geometry.units()))) {
    is_valid = locked.editor->Accept(unit) && is_valid;
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
                        geometry, locked.within(), context_.clock);
  Accept(locked, (2u << geometry.units()) - 1);
}

void LeafLocker::HandOver(LockedLeaf& locked, LockTable::Waiter& next) const {
  if (next.wish != nullptr && next.wish->node == locked.leaf()) {
    LeafJob& job = LeafJob::From(*next.wish);
    const LeafGeometry& geometry = context_.geometry();
    std::byte* const into = job.locked.image().data;
    job.known_units = locked.editor->known();
    for (const uint32_t unit : SetBits(job.known_units)) {
      const std::span<const std::byte> bytes = locked.editor->bytes(unit);
      std::copy(bytes.begin(), bytes.end(), into + geometry.unit_offset(unit));
    }
    job.knows_trailer = locked.trailer.has_value();
    if (job.knows_trailer) {
      const std::byte* trailer = locked.image(geometry.trailer_offset()).data;
      std::copy(trailer, trailer + kTrailerBytes, into + geometry.trailer_offset());
    }
  }
  locked.lock.HandOver(next);
}

// -- where the locked leaf is not, or not any more, that of the key

Task<Status> LeafLocker::LeaveStaleLeaf(Op& op, LeafJob& job, bool is_valid, Search& search) const {
  LockedLeaf& locked = job.locked;
  const LeafWrite& write = job.first();
  const KeyView key = write.entry.key;
  const RemotePtr leaf = locked.leaf();
  if (is_valid && !locked.unit(write.unit).frozen()) {
    // Each hop goes right, or a chain of damaged leaves could lead back (rule W7).
    is_valid = locked.unit(write.unit).high().key.view() > locked.path.low.view();
  }
  if (!is_valid) {
    // Memory that is another's by now is met once: the path is looked up again after each failure.
    search.failures = leaf == search.failed ? search.failures + 1 : 1;
    search.failed = leaf;
  }
  if (rules::IsDamaged(search.failures, kMaxFailures)) {
    co_return co_await locked.lock.ReleaseAfter(
        CorruptNode(leaf, "a leaf that fails its checksums under its lock"));
  }
  const NodeCache::Step stale = locked.path;
  if (is_valid) ++context_.counters.cache.stale;
  if (is_valid && locked.unit(write.unit).frozen()) {
    co_return co_await LeaveFrozenLeaf(op, locked, search);
  }
  search.left.reset();
  RemotePtr sibling;
  const bool must_descend = is_valid && !stale.has_parent() && !search.is_afresh;
  if (is_valid && !must_descend) {
    // The leaf has split: keys at or above its high fence are right of it.
    const Key low = locked.unit(write.unit).high().key;
    BOOST_OUTCOME_CO_TRY(read, co_await ReleaseForSibling(locked, write.unit));
    sibling = read;
    locked.path = NodeCache::Step{sibling, 0, RemotePtr(), 0, low};
  } else {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    locked.path = {};
  }
  locked.lock.GiveUpTurn();
  context_.cache.ForgetPath(stale);
  if (must_descend) {
    search.is_afresh = true;
    BOOST_OUTCOME_CO_TRY(path, co_await context_.descent.To(op, SearchGoal::Covering(key), 0,
                                                            Descent::Trust::kNothing));
    locked.path = path;
  } else if (!sibling.is_null()) {
    search.left = stale.low;
    context_.events.OnHop(leaf, 0, stale.low);
  } else {
    // The node is another one now, or corrupt: the parent, read again, decides (rule R5).
    BOOST_OUTCOME_CO_TRYV(co_await context_.nodes.ReadRoot(op));
  }
  search.has_path = !locked.path.node.is_null();
  // Another split or a loss may come between the READs of group and trailer, but not every time.
  search.disagreements = is_valid && !search.has_path ? search.disagreements + 1 : 0;
  if (search.disagreements == kMaxDisagreements) {
    co_return CorruptNode(leaf, "a leaf whose group and trailer do not agree");
  }
  co_return Ok();
}

Task<Status> LeafLocker::LeaveFrozenLeaf(Op& op, LockedLeaf& locked, Search& search) const {
  const NodeCache::Step stale = std::exchange(locked.path, {});
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
  locked.lock.GiveUpTurn();
  context_.cache.ForgetPath(stale);
  const std::optional<Key> left = std::exchange(search.left, std::nullopt);
  search.has_path = false;
  if (left) {
    Status absorbed = co_await context_.events.FinishMerge(op, *left);
    // That the merge may have been finished is no news about this operation.
    const bool is_over = absorbed || absorbed.error().code == Code::kMaybeApplied;
    if (is_over) co_return Ok();
    co_return absorbed;
  }
  // Its left neighbour has taken its entries over: the parent, read again, leads there.
  search.disagreements = stale.node == search.failed ? search.disagreements + 1 : 1;
  search.failed = stale.node;
  if (search.disagreements == kMaxDisagreements) {
    co_return CorruptNode(stale.node, "a leaf that is frozen though a parent leads to it");
  }
  BOOST_OUTCOME_CO_TRYV(co_await context_.nodes.ReadRoot(op));
  co_return Ok();
}

// The READ may take effect behind the release (N2): the equal version proves that the sibling is
// still that of the group (rule R3). Returns null if trailer and group do not agree.
// Cost: 1 RT.
Task<Result<RemotePtr>> LeafLocker::ReleaseForSibling(LockedLeaf& locked, uint32_t unit) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  const NodeVersion version = locked.unit(unit).version();
  const LocalAddress into = locked.image(geometry.trailer_offset());
  BOOST_OUTCOME_CO_TRY(read, co_await locked.lock.ReleaseAndRead(Verb::Read(
                                 leaf.offset() + geometry.trailer_offset(), kTrailerBytes, into)));
  if (read == RemoteLock::ReadState::kUnknown) co_return RemotePtr();
  const std::optional<TrailerView> trailer =
      rules::ParseTrailer({into.data, kTrailerBytes}, leaf, geometry);
  if (!trailer || trailer->version() != version) co_return RemotePtr();
  co_return trailer->sibling();
}

// ---- Writing and releasing

Task<Status> LeafCommitter::Commit(LeafJob& job) const {
  Prepare(job);
  co_return co_await CommitPrepared(job);
}

void LeafCommitter::Prepare(LeafJob& job) const {
  LockedLeaf& locked = job.locked;
  const LeafEditor& editor = *locked.editor;
  job.granted = GrantWaiters(locked);
  if (locked.path.has_parent() && editor.MayCorrectHint())
    leaves_.LearnHint(locked, locked.path.low);
  job.has_changes = editor.changed() != 0;
  job.is_sparse = editor.has_removed() && editor.IsSparse();
  job.next_turn = job.has_changes ? locked.lock.NextWaiter() : nullptr;
}

Task<Status> LeafCommitter::CommitPrepared(LeafJob& job) const {
  Status result = Ok();
  RemoteLock& lock = job.locked.lock;
  if (job.has_changes) {
    InlineBatch<kMaxVerbs> batch(job.locked.leaf().server());
    AddWrites(job.locked, batch);
    result = co_await lock.Commit(batch, job.after_commit());
  } else {
    result = co_await lock.Release();
  }
  co_return Conclude(job, result);
}

Status LeafCommitter::Conclude(LeafJob& job, const Status& result) const {
  Status status = job.has_changes ? result : rules::AnswerAfter(result);
  if (status) {
    ConcludeWritten(job);
  } else {
    AnswerWaiters(job, status);
  }
  return status;
}

void LeafCommitter::ConcludeWritten(LeafJob& job) const {
  if (!job.granted.empty()) AnswerWaiters(job, Ok());
  if (job.is_sparse) context_.events.OnSparseLeaf(Key(job.locked.within()));
  if (job.next_turn != nullptr) leaves_.HandOver(job.locked, *job.next_turn);
}

// Applies to the leaf what the jobs of waiters want of it, and takes them out of the queue: first
// come, first served, up to the first that cannot be done now. (To do those behind it first would
// spoil the order of an ascending load, and with it how full its leaves get.)
LockTable::WaiterList LeafCommitter::GrantWaiters(LockedLeaf& locked) const {
  LockTable::WaiterList granted;
  LockTable::Turn& turn = locked.lock.turn();
  if (!turn) return granted;
  LeafEditor& editor = *locked.editor;
  LockTable::WaiterList wishes = turn.TakeWishes(locked.leaf(), kMaxGranted);
  while (LockTable::Waiter* waiter = wishes.first()) {
    const LeafJob& job = LeafJob::From(*waiter->wish);
    LeafWrite& write = job.first();
    LinkedMemory links = locked.lock.linked();
    if (job.block) links.Add(*job.block);
    // It changes two units at most.
    const bool can =
        editor.knows(write.unit) && editor.Admits(write) &&
        std::popcount(editor.changed()) + 2 <= static_cast<int>(RemoteLock::kMaxWrites) &&
        context_.memory.MayLink(links, locked.leaf().server());
    const auto applied = can ? editor.Apply(write) : LeafEditor::Applied::kLater;
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    locked.lock.linked() = links;
    granted.Push(wishes.Pop());
  }
  turn.PutBack(wishes);
  return granted;
}

void LeafCommitter::AnswerWaiters(LeafJob& job, const Status& status) const {
  while (!job.granted.empty()) {
    LockTable::Waiter& waiter = job.granted.Pop();
    LeafWrite& write = LeafJob::From(*waiter.wish).first();
    ++context_.counters.locks.combined;
    // Nothing was written; or not by this one, whose answer does not count then (rule L5).
    const bool is_open =
        !status && (write.HasChangedNothing() || status.error().code != Code::kMaybeApplied);
    if (is_open) {
      write.replaced.reset();
      job.locked.lock.turn().Resume(waiter, LockTable::Answer::kLookUp);
      continue;
    }
    if (!status) write.status = status.error();
    job.locked.lock.turn().Resume(waiter, LockTable::Answer::kDone);
  }
}

// The home groups come before the overflow group, so that a reader that sees an entry there finds
// the flag that leads to it (rule W1). What was combined is written together: each unit once.
void LeafCommitter::AddWrites(LockedLeaf& locked, Batch& batch) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  for (const uint32_t unit : SetBits(locked.editor->changed())) {
    const uint32_t at = geometry.unit_offset(unit);
    batch.AddMade(
        [&] { return Verb::Write(leaf.offset() + at, geometry.unit_bytes(), locked.image(at)); });
  }
  locked.editor->ForgetChanges();
}

void LeafCommitter::AddCommit(LeafJob& job, Batch& batch) const {
  RemoteLock& lock = job.locked.lock;
  assert(lock.is_held() && lock.IsInEpoch());
  const size_t first = batch.verbs().size();
  AddWrites(job.locked, batch);
  lock.AddEnd(batch, first, job.after_commit());
  job.batch = &batch;
}

}  // namespace gossamer
