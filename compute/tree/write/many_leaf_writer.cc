// Per key and leaf: no allocation, no coroutine, no virtual call but the watcher's: one for a leaf.
#include "compute/tree/write/many_leaf_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <memory>
#include <optional>
#include <utility>

#include "common/fabric/workers.h"
#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"
#include "compute/tree/write/critical_path.h"

namespace gossamer {

// The writes of a chunk that lie in one leaf.
struct ManyLeafWriter::Leaf {
  enum class State : uint8_t {
    kTried,    // its lock's CAS is posted
    kRefused,  // the turn or the lock is another's
    kUnknown,  // whether the lock is held is not known
    kEdited,   // held, with the writes in the image
    kLeft,     // held; the writes are not plain
    kLate,     // held under a lease that is perhaps not the present queue pair's
  };

  State state = State::kTried;
  WriteBatch::Range writes;
  std::optional<LockedLeaf> locked;
  LeafLocker::Trial trial;
  Batch* batch = nullptr;  // with the trial; then with the commit
  GroupWriter::Effect effect;
  LeafCommitter::Ending ending;

  bool is_held() const {
    return state == State::kEdited || state == State::kLeft || state == State::kLate;
  }
};

// The leaves of a chunk that are on one memory server.
struct ManyLeafWriter::Lane {
  ServerId server{0};
  Op op;
  std::array<Leaf*, kChunk> leaves{};
  size_t count = 0;  // of the leaves
  ServerBatches trials;
  ServerBatches commits;
  GroupWriter::Tally total;

  std::span<Leaf* const> taken() const { return std::span(leaves).first(count); }
  void Begin(ServerId of, const Op& new_op) {
    server = of;
    op = new_op;
    count = 0;
    trials.Clear();
    commits.Clear();
    total = {};
  }
};

struct ManyLeafWriter::Chunk {
  std::array<KeyView, kChunk> keys;
  std::array<NodeCache::LeafSpot, kChunk> spots;
  std::array<Leaf, kChunk> leaves;
  size_t count = 0;                      // of the leaves
  size_t first = 0;                      // the position of the first write
  std::array<LeafWrite, kChunk> writes;  // of the leaves
  BufferLease buffer;
  std::vector<std::unique_ptr<Lane>> lanes;  // made once and used again
  size_t lane_count = 0;                     // in use
  Op op;                                     // as each lane begins
  CriticalPath critical_path;                // of the lanes

  std::span<const std::unique_ptr<Lane>> used_lanes() const {
    return std::span(lanes).first(lane_count);
  }
  Lane& LaneOf(ServerId server) {
    const auto is_its_own = [server](const auto& lane) { return lane->server == server; };
    const auto found = std::ranges::find_if(used_lanes(), is_its_own);
    if (found != used_lanes().end()) return **found;
    if (lane_count == lanes.size()) lanes.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes[lane_count++];
    lane.Begin(server, op);
    return lane;
  }
  std::span<LeafWrite> WritesOf(const Leaf& leaf) {
    return std::span(writes).subspan(leaf.writes.first - first,
                                     leaf.writes.end - leaf.writes.first);
  }
};

ManyLeafWriter::ManyLeafWriter(TreeContext& context, const LeafLocker& leaves,
                               const LeafCommitter& committer, GroupWriter& groups)
    : context_(context), leaves_(leaves), committer_(committer), groups_(groups) {}

ManyLeafWriter::~ManyLeafWriter() = default;

namespace {

class Collector final : public ManyLeafWriter::Watcher {
 public:
  explicit Collector(std::vector<WriteBatch::Range>& rest) : rest_(rest) {}

  void Done(WriteBatch::Range) override {}
  // Ranges that touch become one, which may be written as one group.
  void NotPlain(WriteBatch::Range writes) override {
    if (!rest_.empty() && rest_.back().end == writes.first) {
      rest_.back().end = writes.end;
    } else {
      rest_.push_back(writes);
    }
  }

 private:
  std::vector<WriteBatch::Range>& rest_;
};

}  // namespace

Task<void> ManyLeafWriter::Write(WriteBatch& batch, std::vector<WriteBatch::Range>& rest) {
  rest.clear();
  rest.reserve(batch.size());
  Collector collector(rest);
  co_await Write(batch, collector);
}

Task<void> ManyLeafWriter::Write(WriteBatch& batch, Watcher& watcher) {
  const bool may_be_plain = batch.size() > 1 && batch.keeps_results();
  if (!may_be_plain) {
    if (batch.size() != 0) watcher.NotPlain({0, batch.size()});
    co_return;
  }
  Run run{batch, watcher};
  if (batch.size() <= kChunk) co_return co_await Work(run);
  Workers workers(context_.links.scheduler());
  while (run.next < batch.size() && workers.running() < kWindow) workers.Start(Work(run));
  co_await workers.Wait();
}

Task<void> ManyLeafWriter::Work(Run& run) {
  const auto chunk = idle_.Take();
  Workers others(context_.links.scheduler());
  while (run.next < run.batch.size()) {
    Take(run, *chunk);
    for (size_t i = 1; i < chunk->lane_count; ++i) {
      others.Start(WriteLane(run, *chunk, *chunk->lanes[i]));
    }
    if (chunk->lane_count != 0) co_await WriteLane(run, *chunk, *chunk->lanes.front());
    if (others.running() != 0) co_await others.Wait();
    chunk->buffer = {};
  }
}

// 2 RT.
Task<void> ManyLeafWriter::WriteLane(Run& run, Chunk& chunk, Lane& lane) {
  Op& op = lane.op;
  // In two rounds: a turn's atomic exchange would wait for what the trial before it stored.
  for (Leaf* leaf : lane.taken()) TakeTurn(run, *leaf);
  for (Leaf* leaf : lane.taken()) {
    if (leaf->state == Leaf::State::kTried) AddTrial(chunk, lane, *leaf);
  }
  if (!lane.trials.used().empty()) {
    co_await context_.links.ExecuteAll(op, lane.trials.used());
  }
  const uint64_t tried_at = op.posted_at;
  for (Leaf* leaf : lane.taken()) {
    if (leaf->state == Leaf::State::kTried) Edit(run, chunk, *leaf);
  }
  // From here to the post nothing is awaited (rule L4).
  for (Leaf* leaf : lane.taken()) {
    if (leaf->is_held()) AddCommit(run, lane, *leaf);
  }
  if (!lane.commits.used().empty()) {
    co_await context_.links.ExecuteAll(op, lane.commits.used());
  }
  const uint64_t committed_at = op.posted_at;
  for (Leaf* leaf : lane.taken()) {
    if (leaf->state == Leaf::State::kEdited || leaf->state == Leaf::State::kLeft) {
      const RemoteLock& lock = leaf->locked->lock;
      if (lock.HasWritten(*leaf->batch)) {
        Conclude(run, lane, *leaf, Ok());
      } else if (const std::optional<Status> result = lock.ResultOf(*leaf->batch)) {
        Conclude(run, lane, *leaf, *result);
      }
    }
  }
  // Only now, because the others' locks are released or handed over.
  for (Leaf* leaf : lane.taken()) {
    if (!leaf->locked) continue;
    // Each was posted on the queue pair of that time: not on one by which another leaf has replaced it.
    op.posted_at = leaf->state == Leaf::State::kUnknown ? tried_at : committed_at;
    co_await Settle(run, lane, *leaf);
  }
  Count(run, chunk, lane);
}

void ManyLeafWriter::Count(const Run& run, Chunk& chunk, const Lane& lane) {
  Op op = lane.op;
  op.wire.round_trips = CriticalPath::Sequence(chunk.critical_path).Extend(op.wire.round_trips);
  groups_.Count(op, run.batch.mode(), lane.total, true);
}

bool ManyLeafWriter::HasManyLeaves(const Chunk& chunk, size_t count) const {
  assert(count != 0 && chunk.keys[0] <= chunk.keys[count - 1]);
  // Whether the keys from `first` to `last` are cached as those of one leaf.
  const auto are_together = [&](size_t first, size_t last) {
    HighFence end;
    const std::optional<NodeCache::Step> step =
        context_.cache.Find(SearchGoal::Covering(chunk.keys[first]), 0, &end);
    return step && step->level == 0 && end.Admits(chunk.keys[last]);
  };
  const size_t middle = count / 2;
  return !are_together(0, middle) && !are_together(middle, count - 1);
}

void ManyLeafWriter::Take(Run& run, Chunk& chunk) {
  WriteBatch& batch = run.batch;
  const size_t first = run.next;
  const size_t limit = std::min(first + kChunk, batch.size());
  const size_t count = limit - first;
  chunk.count = 0;
  chunk.first = first;
  chunk.lane_count = 0;
  chunk.critical_path = {};
  for (size_t i = first; i < limit; ++i) chunk.keys[i - first] = batch.key(i);
  Result<BufferLease> buffer =
      context_.links.Buffer(count * LockedBuffers::Bytes(context_.geometry().node_bytes()));
  if (!buffer || (count > kAtOnce && !HasManyLeaves(chunk, count))) {
    run.next = batch.EndOfKey(limit - 1);
    return run.watcher.NotPlain({first, run.next});
  }
  chunk.buffer = std::move(buffer.value());
  chunk.op = context_.links.Begin();
  context_.cache.FindLeaves(std::span(chunk.keys).first(count),
                            std::span(chunk.spots).first(count));
  size_t position = first;
  while (position < limit) {
    size_t end = position + 1;
    const NodeCache::LeafSpot& spot = chunk.spots[position - first];
    // Another thread may have changed the cache between two lookups of one key.
    while (end < limit && (chunk.spots[end - first].leaf == spot.leaf ||
                           AreEqual(chunk.keys[end - 1 - first], chunk.keys[end - first]))) {
      ++end;
    }
    if (end == limit && limit < batch.size()) {
      // The next chunk begins with this leaf, of which it may find more writes.
      if (position != first) break;
      end = batch.EndOfKey(limit - 1);
    }
    if (!TakeLeaf(run, chunk, {position, end}, spot)) run.watcher.NotPlain({position, end});
    position = end;
  }
  run.next = position;
}

bool ManyLeafWriter::IsPlain(const WriteBatch& batch, WriteBatch::Range writes) const {
  for (size_t position = writes.first; position < writes.end; ++position) {
    if (!batch.IsInline(position, context_.store.inline_limits)) return false;
  }
  return writes.end - writes.first <= GroupWriter::kFew;
}

bool ManyLeafWriter::TakeLeaf(Run& run, Chunk& chunk, WriteBatch::Range writes,
                              const NodeCache::LeafSpot& spot) {
  if (spot.leaf.is_null() || !IsPlain(run.batch, writes)) return false;
  for (size_t position = writes.first; position < writes.end; ++position) {
    LeafWrite& write = chunk.writes[position - chunk.first];
    groups_.MakeWrite(run.batch, position, write);
    // An insert into a full leaf splits it.
    if (write.is_new && LeafHint(spot.hint).IsFull(write.unit)) return false;
  }
  Leaf& leaf = chunk.leaves[chunk.count];
  Lane& lane = chunk.LaneOf(spot.leaf.server());
  leaf.locked.emplace(context_.locks, lane.op);
  leaf.locked->path.node = spot.leaf;
  leaf.locked->path.hint = spot.hint;
  leaf.locked->key_inside = run.batch.key(writes.first);
  if (!leaves_.PrepareTrial(*leaf.locked)) {
    leaf.locked.reset();
    return false;
  }
  const size_t bytes = LockedBuffers::Bytes(context_.geometry().node_bytes());
  leaf.locked->UseBuffer(chunk.buffer.address(chunk.count * bytes));
  leaf.locked->lock.PrefetchTurn();
  leaf.writes = writes;
  leaf.effect.tally = {};
  leaf.effect.replaced.clear();
  lane.leaves[lane.count++] = &leaf;
  ++chunk.count;
  context_.cache.CountHits(writes.end - writes.first);
  return true;
}

void ManyLeafWriter::GiveUp(Run& run, Leaf& leaf) {
  leaf.locked.reset();
  run.watcher.NotPlain(leaf.writes);
}

void ManyLeafWriter::TakeTurn(Run& run, Leaf& leaf) {
  leaf.state = leaf.locked->lock.TryTakeTurn() ? Leaf::State::kTried : Leaf::State::kRefused;
  if (leaf.state == Leaf::State::kRefused) GiveUp(run, leaf);
}

void ManyLeafWriter::AddTrial(Chunk& chunk, Lane& lane, Leaf& leaf) const {
  leaf.batch = &lane.trials.For(lane.server, LeafLocker::kMaxTrialVerbs);
  leaves_.AddTrial(*leaf.locked, chunk.WritesOf(leaf), *leaf.batch, leaf.trial);
}

void ManyLeafWriter::Edit(Run& run, Chunk& chunk, Leaf& leaf) {
  LockedLeaf& locked = *leaf.locked;
  if (!locked.lock.LearnTaken(leaf.trial.taking, *leaf.batch)) {
    leaf.state = Leaf::State::kUnknown;
    return;
  }
  leaf.state = rules::MayUse(locked.lock.is_held()) ? Leaf::State::kLeft : Leaf::State::kRefused;
  if (leaf.state == Leaf::State::kRefused) return GiveUp(run, leaf);
  if (!leaves_.AcceptTrial(locked, leaf.trial, *leaf.batch)) return;
  const std::span<LeafWrite> writes = chunk.WritesOf(leaf);
  // The keys ascend, and a path leads to the right leaf or too far left.
  if (!locked.unit(writes.front().unit).Admits(writes.back().entry.key)) return;
  size_t position = leaf.writes.first;
  while (position < leaf.writes.end &&
         GroupWriter::Apply(locked, run.batch, position, writes[position - leaf.writes.first],
                            leaf.effect)) {
    ++position;
  }
  if (position == leaf.writes.end) leaf.state = Leaf::State::kEdited;
  if (locked.editor->MayCorrectHint()) leaves_.LearnHint(locked, writes.front().entry.key);
}

// Together with the post that follows, one step: rules L4 and U4 hold for it.
void ManyLeafWriter::AddCommit(const Run& run, Lane& lane, Leaf& leaf) const {
  LockedLeaf& locked = *leaf.locked;
  if (!locked.lock.IsInEpoch()) {
    leaf.state = Leaf::State::kLate;
  } else if (leaf.state == Leaf::State::kLeft) {
    leaf.batch = &lane.commits.For(lane.server, 1);
    locked.lock.AddEnd(*leaf.batch, leaf.batch->verbs().size(), RemoteLock::After::kRelease);
  } else {
    committer_.Prepare(locked, leaf.ending);
    if (leaf.ending.is_sparse) leaf.ending.key = Key(run.batch.key(leaf.writes.first));
    const auto writes = static_cast<size_t>(std::popcount(locked.editor->changed()));
    leaf.batch = &lane.commits.For(lane.server, writes + 1);
    committer_.AddCommit(locked, leaf.ending, *leaf.batch);
  }
}

void ManyLeafWriter::Conclude(Run& run, Lane& lane, Leaf& leaf, const Status& result) {
  WriteBatch& batch = run.batch;
  const WriteBatch::Range writes = leaf.writes;
  if (leaf.state != Leaf::State::kEdited) return GiveUp(run, leaf);
  const Status status = committer_.Conclude(*leaf.locked, leaf.ending, result);
  if (status) {
    groups_.Conclude(lane.op, batch.mode(), leaf.effect);
    lane.total += leaf.effect.tally;
    run.watcher.Done(writes);
  } else if (leaf.ending.has_changes && status.error().code == Code::kMaybeApplied) {
    for (size_t position = writes.first; position < writes.end; ++position) {
      // A delete of an absent key, say.
      if (batch.HasChangedNothing(position)) {
        run.watcher.NotPlain({position, position + 1});
      } else {
        batch.SetResult(position, status);
        run.watcher.Done({position, position + 1});
      }
    }
  } else {
    run.watcher.NotPlain(writes);
  }
  leaf.locked.reset();
}

Task<void> ManyLeafWriter::Settle(Run& run, Lane& lane, Leaf& leaf) {
  RemoteLock& lock = leaf.locked->lock;
  if (leaf.state == Leaf::State::kEdited || leaf.state == Leaf::State::kLeft) {
    const Status result = co_await lock.FinishCommit(*leaf.batch, {});
    co_return Conclude(run, lane, leaf, result);
  }
  if (leaf.state == Leaf::State::kUnknown) {
    const Status found = co_await lock.FinishTaking(leaf.trial.taking, *leaf.batch);
    static_cast<void>(found);  // The writes begin anew, and find out whether the server is lost.
  }
  if (lock.is_held()) {
    const Status released = co_await lock.Release();
    static_cast<void>(released);  // Nothing was written.
  }
  GiveUp(run, leaf);
}

}  // namespace gossamer
