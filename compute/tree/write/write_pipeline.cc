// Per key and leaf: no allocation, no coroutine, one call of `tell` for a leaf.
#include "compute/tree/write/write_pipeline.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include "common/fabric/workers.h"
#include "compute/session/server_batches.h"
#include "compute/tree/write/operation_sequence.h"

namespace gossamer {

// The jobs of a chunk that are on one memory server.
struct WritePipeline::Lane {
  ServerId server{0};
  Op op;
  std::array<Job*, kChunk> jobs{};
  size_t count = 0;      // of the jobs
  ServerBatches blocks;  // on other servers
  ServerBatches tries;   // and blocks on this one
  ServerBatches commits;
  BlockSpace block_bytes;
  std::vector<BlockRef> replaced;
  WriteTally total;

  std::span<Job* const> taken() const { return std::span(jobs).first(count); }
  void Begin(ServerId of, const Op& new_op) {
    server = of;
    op = new_op;
    count = 0;
    blocks.Clear();
    tries.Clear();
    commits.Clear();
    replaced.clear();
    total = {};
  }
};

struct WritePipeline::Chunk {
  std::array<KeyView, kChunk> keys;
  std::array<NodeCache::LeafSpot, kChunk> spots;
  std::array<Job, kChunk> jobs;
  size_t count = 0;                                    // of the jobs
  size_t first = 0;                                    // the position of the first write
  std::array<LeafWrite, kChunk> writes;                // of the jobs
  std::array<std::optional<NewBlock>, kChunk> blocks;  // of those writes
  std::vector<RemoteAllocator::BlockWish> wishes;
  BufferLease buffer;
  std::vector<std::unique_ptr<Lane>> lanes;  // made once and used again
  size_t lane_count = 0;                     // in use
  Op op;                                     // as each lane begins
  uint64_t critical_path = 0;                // of the lanes: see OperationSequence

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
  std::span<std::optional<NewBlock>> BlocksOf(const LeafJob& job) {
    return std::span(blocks).subspan(static_cast<size_t>(job.writes.data() - writes.data()),
                                     job.writes.size());
  }
  // The positions of a job's writes.
  WriteBatch::Range RangeOf(const LeafJob& job) const {
    const size_t from = first + static_cast<size_t>(job.writes.data() - writes.data());
    return {from, from + job.writes.size()};
  }
};

WritePipeline::WritePipeline(TreeContext& context, const LeafLocker& leaves,
                             const LeafCommitter& committer, LeafWriter& writer)
    : context_(context), leaves_(leaves), committer_(committer), writer_(writer) {}

WritePipeline::~WritePipeline() = default;

Task<void> WritePipeline::Write(WriteBatch& batch, Tell tell, std::optional<Moment> began) {
  Call call{batch, tell, began};
  const bool may_be_plain = batch.size() > 1 && batch.keeps_results();
  if (!may_be_plain) {
    if (batch.size() != 0) call.Leave({0, batch.size()});
    co_return;
  }
  if (batch.size() <= kChunk) co_return co_await Work(call);
  Workers workers(context_.links.scheduler());
  while (call.next < batch.size() && workers.running() < kWindow) workers.Start(Work(call));
  co_await workers.Wait();
}

Task<void> WritePipeline::Work(Call& call) {
  const auto chunk = idle_.Take();
  Workers others(context_.links.scheduler());
  while (call.next < call.batch.size()) {
    Take(call, *chunk);
    for (size_t i = 1; i < chunk->lane_count; ++i) {
      others.Start(WriteLane(call, *chunk, *chunk->lanes[i]));
    }
    if (chunk->lane_count != 0) co_await WriteLane(call, *chunk, *chunk->lanes.front());
    if (others.running() != 0) co_await others.Wait();
    chunk->buffer = {};
  }
}

// 2 RT.
Task<void> WritePipeline::WriteLane(Call& call, Chunk& chunk, Lane& lane) {
  Op& op = lane.op;
  GiveBlocks(call, chunk, lane);
  if (!lane.blocks.used().empty()) {
    // Before any lock is held: one of those servers may be silent.
    co_await context_.links.ExecuteAll(op, lane.blocks.used());
  }
  // In two rounds: a turn's atomic exchange would wait for what the try before it stored.
  for (Job* job : lane.taken()) {
    if (*job && !(*job)->locked.lock.TryTakeTurn()) GiveUp(call, chunk, *job);
  }
  // All blocks come before the first lock: none is held while they are transferred.
  const NewBlock* before = nullptr;
  for (Job* job : lane.taken()) {
    if (!*job) continue;
    for (std::optional<NewBlock>& block : chunk.BlocksOf(**job)) {
      const bool is_here = block && block->server() == lane.server;
      if (is_here) block->AddWrite(lane.tries.For(lane.server, 1), std::exchange(before, &*block));
    }
  }
  for (Job* job : lane.taken()) {
    if (*job) leaves_.AddTry(**job, lane.tries.For(lane.server, LeafLocker::kMaxTryVerbs));
  }
  if (!lane.tries.used().empty()) {
    co_await context_.links.ExecuteAll(op, lane.tries.used());
  }
  for (Job* job : lane.taken()) {
    if (*job) Edit(call, chunk, *job);
  }
  // From here to the post nothing is awaited (L4: posted in its epoch).
  for (Job* job : lane.taken()) {
    if (*job && (*job)->ends_with_commit()) AddCommit(lane, **job);
  }
  if (!lane.commits.used().empty()) {
    co_await context_.links.ExecuteAll(op, lane.commits.used());
  }
  for (Job* job : lane.taken()) {
    if (!*job || !(*job)->ends_with_commit()) continue;
    const RemoteLock& lock = (*job)->locked.lock;
    const Batch& batch = *(*job)->batch;
    if (lock.HasWritten(batch)) {
      Conclude(call, chunk, lane, *job, Ok());
    } else if (const std::optional<Status> result = lock.ResultOf(batch)) {
      Conclude(call, chunk, lane, *job, *result);
    }
  }
  // Only now, because the others' locks are released or handed over.
  for (Job* job : lane.taken()) {
    if (*job) co_await Settle(call, chunk, lane, *job);
  }
  End(call, chunk, lane);
}

void WritePipeline::End(const Call& call, Chunk& chunk, Lane& lane) {
  lane.block_bytes.GiveBack();
  context_.memory.FreeBlocks(lane.op, lane.replaced);
  Op op = lane.op;
  op.wire.round_trips = OperationSequence(chunk.critical_path).Extend(op.wire.round_trips);
  writer_.Count(op, call.batch.mode(), lane.total, true);
}

bool WritePipeline::HasManyLeaves(const Chunk& chunk, size_t count) const {
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

void WritePipeline::Take(Call& call, Chunk& chunk) {
  WriteBatch& batch = call.batch;
  const size_t first = call.next;
  const size_t limit = std::min(first + kChunk, batch.size());
  const size_t count = limit - first;
  chunk.count = 0;
  chunk.first = first;
  chunk.lane_count = 0;
  chunk.critical_path = 0;
  for (size_t i = first; i < limit; ++i) chunk.keys[i - first] = batch.key(i);
  Result<BufferLease> buffer =
      context_.links.Buffer(count * LockedBuffers::Bytes(context_.geometry().node_bytes()));
  if (!buffer || (count > kAtOnce && !MayBeMany(batch.mode()) && !HasManyLeaves(chunk, count))) {
    call.next = batch.EndOfKey(limit - 1);
    return call.Leave({first, call.next});
  }
  chunk.buffer = std::move(buffer.value());
  chunk.op = context_.links.Begin();
  chunk.op.began = call.began.value_or(chunk.op.began);
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
    const auto is_kept = [&batch](size_t one) {
      const Modification* const modification = batch.modification(one);
      return modification != nullptr && modification->is_kept_by_plan();
    };
    if (std::ranges::all_of(std::views::iota(position, end), is_kept)) {
      call.Done({position, end});
    } else if (!TakeJob(call, chunk, {position, end}, spot)) {
      call.Leave({position, end});
    }
    position = end;
  }
  call.next = position;
}

bool WritePipeline::MayBeMany(WriteMode mode) const {
  return mode == WriteMode::kModify && context_.geometry().units() <= RemoteLock::kMaxWrites;
}

bool WritePipeline::IsPlain(const WriteBatch& batch, WriteBatch::Range writes, size_t limit) const {
  for (size_t position = writes.first; position < writes.end; ++position) {
    if (!batch.IsShort(position, context_.store.inline_limits)) return false;
  }
  return MayBeMany(batch.mode()) ? writes.end <= limit : writes.end - writes.first <= LeafJob::kFew;
}

bool WritePipeline::TakeJob(const Call& call, Chunk& chunk, WriteBatch::Range writes,
                            const NodeCache::LeafSpot& spot) {
  if (spot.leaf.is_null() || !IsPlain(call.batch, writes, chunk.first + kChunk)) return false;
  const std::span<LeafWrite> own =
      std::span(chunk.writes).subspan(writes.first - chunk.first, writes.end - writes.first);
  for (size_t i = 0; i < own.size(); ++i) {
    writer_.MakeWrite(call.batch, writes.first + i, own[i]);
    if (NeedsBlock(own[i].entry)) context_.guesses.Prefetch(own[i].hash);
    // An insert into a full leaf splits it. Of many modifications, one may be an insert.
    const bool may_insert = own[i].is_new || own.size() > LeafJob::kFew;
    if (may_insert && LeafHint(spot.hint).IsFull(own[i].unit)) return false;
  }
  Lane& lane = chunk.LaneOf(spot.leaf.server());
  Job& job = chunk.jobs[chunk.count];
  job.emplace(context_.locks, lane.op, own);
  LockedLeaf& locked = job->locked;
  locked.path.node = spot.leaf;
  locked.path.hint = spot.hint;
  locked.key_inside = own.front().entry.key;
  if (!leaves_.Aim(*job)) {
    job.reset();
    return false;
  }
  const size_t bytes = LockedBuffers::Bytes(context_.geometry().node_bytes());
  locked.UseBuffer(chunk.buffer.address(chunk.count * bytes));
  lane.jobs[lane.count++] = &job;
  ++chunk.count;
  context_.cache.CountHits(own.size());
  return true;
}

void WritePipeline::GiveBlocks(const Call& call, Chunk& chunk, Lane& lane) {
  std::vector<RemoteAllocator::BlockWish>& wishes = chunk.wishes;
  wishes.clear();
  for (const Job* job : lane.taken()) {
    for (const LeafWrite& write : (*job)->writes) {
      if (NeedsBlock(write.entry))
        wishes.push_back({NewBlock::ContentBytes(write.entry, Entry::Kind::kBlock)});
    }
  }
  if (wishes.empty()) return;
  context_.memory.TakeBlocks(lane.server, wishes);
  lane.block_bytes.Begin(wishes);
  auto wish = wishes.begin();
  const NewBlock* before = nullptr;  // of those elsewhere
  for (Job* job : lane.taken()) {
    bool has_all = true;
    const std::span<std::optional<NewBlock>> blocks = chunk.BlocksOf(**job);
    for (size_t i = 0; i < blocks.size(); ++i) {
      LeafWrite& write = (*job)->writes[i];
      if (!NeedsBlock(write.entry)) continue;
      const uint32_t bytes = BlockBytes(wish->length);
      Allocated<BlockPtr> memory = std::move((wish++)->memory);
      if (!memory) has_all = false;
      if (!has_all) continue;
      const Result<LocalAddress> place = lane.block_bytes.Next(context_.links, bytes);
      has_all = bool{place};
      if (!place) continue;
      blocks[i].emplace().Take(std::move(memory), place.value(), Entry::Kind::kBlock, write.entry);
    }
    if (!has_all) {
      GiveUp(call, chunk, *job);
      continue;
    }
    for (std::optional<NewBlock>& block : blocks) {
      const bool is_elsewhere = block && block->server() != lane.server;
      if (is_elsewhere) {
        block->AddWrite(lane.blocks.For(block->server(), 1), std::exchange(before, &*block));
      }
    }
  }
}

void WritePipeline::GiveUp(const Call& call, Chunk& chunk, Job& job) {
  const WriteBatch::Range writes = chunk.RangeOf(*job);
  for (std::optional<NewBlock>& block : chunk.BlocksOf(*job)) {
    if (block) block->GiveBack();
    block.reset();
  }
  job.reset();
  call.Leave(writes);
}

void WritePipeline::Edit(Call& call, Chunk& chunk, Job& job) const {
  const bool is_read = leaves_.AcceptTry(*job);
  if (job->state == LeafJob::State::kRefused) return GiveUp(call, chunk, job);
  if (!is_read) return;
  for (const std::optional<NewBlock>& block : chunk.BlocksOf(*job)) {
    if (!block) continue;
    if (!block->MayRefer()) return;
    job->locked.lock.linked().Add(block->stamp());
  }
  const size_t applied = LeafWriter::Apply(*job);
  const std::span<const LeafWrite> writes = job->writes;
  const size_t first = chunk.RangeOf(*job).first;
  for (size_t i = 0; i < applied; ++i) call.batch.NoteApplied(first + i, writes[i].status);
  const bool is_plain = applied == writes.size() && !writes.back().is_undecided();
  if (is_plain) job->state = LeafJob::State::kEdited;
  if (job->locked.editor->MayCorrectHint()) leaves_.LearnHint(job->locked, job->locked.within());
}

// Together with the post that follows, one step: what is posted is of the lock's epoch (L4), and
// links no memory of an ended lease (U4).
void WritePipeline::AddCommit(Lane& lane, LeafJob& job) const {
  RemoteLock& lock = job.locked.lock;
  if (!lock.IsInEpoch() || !lock.MayLink()) {
    job.state = LeafJob::State::kLate;
  } else if (job.state == LeafJob::State::kHeld) {
    job.batch = &lane.commits.For(lane.server, 1);
    lock.AddEnd(*job.batch, job.batch->verbs().size(), RemoteLock::After::kRelease);
  } else {
    committer_.Prepare(job);
    const auto writes = static_cast<size_t>(std::popcount(job.locked.editor->changed()));
    committer_.AddCommit(job, lane.commits.For(lane.server, writes + 1));
  }
}

void WritePipeline::Conclude(Call& call, Chunk& chunk, Lane& lane, Job& job, const Status& result) {
  if (job->state != LeafJob::State::kEdited) return GiveUp(call, chunk, job);
  WriteBatch& batch = call.batch;
  const WriteBatch::Range range = chunk.RangeOf(*job);
  const std::span<const LeafWrite> writes = job->writes;
  const Status status = committer_.Conclude(*job, result);
  const std::span<std::optional<NewBlock>> blocks = chunk.BlocksOf(*job);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i]) continue;
    writer_.EndBlock(writes[i].hash, status, !writes[i].HasChangedNothing(), *blocks[i]);
    blocks[i].reset();
  }
  if (status) {
    WriteTally tally;
    for (const LeafWrite& write : writes) {
      tally.Add(write);
      if (write.replaced) lane.replaced.push_back(*write.replaced);
    }
    writer_.NoteDone(batch.mode(), tally);
    lane.total += tally;
    call.Done(range);
  } else if (job->has_changes && status.error().code == Code::kMaybeApplied) {
    // What has changed nothing may be done again, a delete of an absent key, say; but not behind a
    // later write of its key, which was perhaps done.
    const auto is_unknown = [&writes](size_t i) {
      const auto has_changed = [&](const LeafWrite& one) {
        return !one.HasChangedNothing() && AreEqual(one.entry.key, writes[i].entry.key);
      };
      return std::ranges::any_of(writes.subspan(i), has_changed);
    };
    for (size_t position = range.first; position < range.end;) {
      size_t end = position;
      while (end < range.end && !is_unknown(end - range.first)) ++end;
      if (end != position) {
        call.Leave({position, end});
        position = end;
      } else {
        batch.SetResult(position, status);
        call.Done({position, position + 1});
        ++position;
      }
    }
  } else {
    call.Leave(range);
  }
  job.reset();
}

Task<void> WritePipeline::Settle(Call& call, Chunk& chunk, Lane& lane, Job& job) {
  RemoteLock& lock = job->locked.lock;
  if (job->ends_with_commit()) {
    const Status result = co_await lock.FinishCommit(*job->batch, {});
    co_return Conclude(call, chunk, lane, job, result);
  }
  if (job->state == LeafJob::State::kTried) {
    // The writes begin anew, and find out whether the server is lost.
    static_cast<void>(co_await lock.FinishTaking(job->taking, *job->batch));
  }
  if (lock.is_held()) {
    static_cast<void>(co_await lock.Release());  // Nothing was written.
  }
  GiveUp(call, chunk, job);
}

}  // namespace gossamer
