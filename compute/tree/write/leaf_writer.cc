#include "compute/tree/write/leaf_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/human.h"
#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"

namespace gossamer {
namespace {

// Rounds of a read-modify-write that find the block of its value not to be whole.
constexpr uint32_t kMostUnreadable = 8;

// Where the blocks of a leaf's entries should be, if the leaf is known.
std::optional<ServerId> ServerOf(RemotePtr leaf) {
  if (leaf.is_null()) return std::nullopt;
  return leaf.server();
}

}  // namespace

Task<Status> LeafWriter::PrepareBlock(Op& op, Entry::Kind kind, std::string_view value,
                                      LoneBlock& lone, LeafJob& job) const {
  Entry& entry = job.first().entry;
  entry.stored = value;
  const uint32_t length = NewBlock::ContentBytes(entry, kind);
  NodeCache::Step& path = job.locked.path;
  if (path.node.is_null()) path = context_.cache.FindLeaf(entry.key).value_or(path);
  const std::optional<ServerId> near = ServerOf(path.node);
  BOOST_OUTCOME_CO_TRY(memory, co_await context_.memory.AllocateBlock(op, near, length));
  BOOST_OUTCOME_CO_TRY(bytes, context_.links.Buffer(BlockBytes(length)));
  lone.bytes = std::move(bytes);
  NewBlock& block = lone.block.emplace();
  block.Take(std::move(memory), lone.bytes.address(), kind, entry);
  lone.write.Reset(block.server());
  block.AddWrite(lone.write);
  job.block = block.stamp();
  co_return Ok();
}

// Where the cache does not know the leaf as it is, this may be the wrong form. A leaf takes any key
// of this length as a long one.
Entry::Kind LeafWriter::KindFor(KeyView key, std::string_view value, bool may_expire) const {
  const InlineLimits& limits = context_.store.inline_limits;
  const size_t key_bytes = limits.KeyBytes(may_expire);
  if (key.size() > key_bytes) {
    std::vector<NodeCache::LeafRef> leaf;
    HighFence high;
    const bool is_cached = context_.cache.CollectRight(key, 1, leaf, high) != 0;
    // The leaf may get a prefix of its own for the key.
    const size_t prefix_bytes = is_cached ? CommonBytes(leaf[0].low, key) : 0;
    if (key.size() > prefix_bytes + key_bytes) return Entry::Kind::kLong;
  }
  return value.size() > limits.value_bytes ? Entry::Kind::kBlock : Entry::Kind::kInline;
}

void LeafWriter::MakeWrite(WriteMode mode, KeyView key, std::string_view value, Expiry expiry,
                           LeafWrite& write) const {
  write.mode = mode;
  write.expiry = expiry;
  write.SetKey(key, context_.geometry());
  write.entry.stored = value;
  write.entry.kind = Entry::Kind::kInline;
  write.kind = ClassOf(mode);
  write.is_new = mode == WriteMode::kInsert || (mode == WriteMode::kPut && ExpectsInsert());
}

void LeafWriter::MakeWrite(const WriteBatch& batch, size_t position, LeafWrite& write) const {
  MakeWrite(batch.mode(), batch.key(position), batch.value(position), batch.expiry(position),
            write);
  if (batch.has_block(position)) write.entry = batch.entry(position);
  write.modification = batch.modification(position);
  if (!write.status) write.status = Ok();
  write.replaced.reset();
}

size_t LeafWriter::Apply(LeafJob& job) {
  LeafEditor& editor = *job.locked.editor;
  size_t count = 0;
  for (LeafWrite& write : job.writes) {
    if (!editor.knows(write.unit)) break;
    const LeafEditor::Applied applied = editor.Apply(write);
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    ++count;
    if (write.is_undecided()) break;
  }
  return count;
}

// The plain case takes one coroutine.
Task<Status> LeafWriter::WriteUntilDone(KeyView key, std::string_view value, WriteMode mode,
                                        const Part* part, Expiry expiry) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Modification* const modification = part != nullptr ? part->modification : nullptr;
  if (part != nullptr && part->began) op.began = *part->began;
  SharedPatience* const patience = part != nullptr ? part->patience : nullptr;
  if (patience != nullptr) patience->Begin(op);
  op.kind = ClassOf(mode);
  Status status = Ok();
  for (bool is_first = true;; is_first = false) {
    {
      LeafWrite write;
      MakeWrite(mode, key, Removes(mode) ? std::string_view() : value, expiry, write);
      write.modification = modification;
      InlineBatch<LeafLocker::kMaxTryVerbs> first_try;
      LeafJob job(context_.locks, op, {&write, 1});
      if (is_first && part != nullptr) job.locked.path = part->path;
      if (is_first && Begin(job, first_try)) {
        // RT 1.
        co_await context_.links.Execute(op, first_try);
        const bool is_edited =
            first_try.status() == VerbStatus::kSuccess && leaves_.AcceptTry(job) && Apply(job) == 1;
        if (is_edited) job.state = LeafJob::State::kEdited;
      }
      if (job.state == LeafJob::State::kEdited) {
        committer_.Prepare(job);
        if (job.has_changes && job.locked.lock.IsInEpoch()) {
          InlineBatch<LeafCommitter::kMaxVerbs> commit(job.locked.leaf().server());
          committer_.AddCommit(job, commit);
          // RT 2.
          co_await context_.links.Execute(op, commit);
          if (job.locked.lock.HasWritten(commit)) {
            committer_.ConcludeWritten(job);
          } else {
            status = committer_.Conclude(job, co_await job.locked.lock.FinishCommit(commit, {}));
          }
        } else {
          status = co_await committer_.CommitPrepared(job);
        }
        NoteOneDone(op, write, status);
        if (status && !write.status) status = write.status;
      } else {
        status = co_await Finish(op, job);
      }
    }  // The turn ends here, before anything is waited for.
    if (status) break;
    bool again = co_await context_.links.RecoverFrom(op, status.error());
    if (!again) again = co_await context_.memory.AwaitMemory(status.error());
    if (!again) break;
    if (modification != nullptr && modification->is_planned()) {
      modification->Lose();
      break;
    }
    status = Ok();
  }
  if (patience != nullptr) patience->End(op, status);
  if (op.passed_over) context_.memory.TendPassedOver(op);
  if (part != nullptr && part->sequence != nullptr) {
    op.wire.round_trips = part->sequence->Extend(op.wire.round_trips);
  }
  context_.counters.AddOperation(op.wire, op.kind, status ? nullptr : &status.error());
  co_return status;
}

Task<Status> LeafWriter::ModifyUntilDone(KeyView key, ValueModifier& modifier,
                                         SharedPatience* patience) {
  using State = Modification::State;
  // The memory of what was noted is nobody else's as long as this runs.
  const RunningOperations::Scope scope(context_.running);
  const auto inline_bytes = static_cast<size_t>(context_.store.inline_limits.value_bytes);
  Modification modification(modifier, inline_bytes);
  Op reading = context_.links.Begin();  // with the losses that began a round anew
  if (patience != nullptr) patience->Begin(reading);
  uint32_t unreadable = 0;
  for (uint32_t round = 0;; ++round) {
    const Moment began = context_.links.Now();
    const Part part{.began = began, .modification = &modification, .patience = patience};
    modification.Restart();
    const Status looked = co_await WriteUntilDone(key, {}, WriteMode::kModify, &part);
    if (!looked || modification.state() != State::kNoted) co_return looked;
    std::optional<std::string> value;
    const uint32_t losses_before = reading.retries;
    if (modification.noted()) {
      reading.began = began;
      Result<std::optional<std::string>> read = co_await ReadNoted(reading, key, modification);
      if (!read) {
        if (patience != nullptr) patience->End(reading, read.error());
        co_return read.error();
      }
      value = std::move(read.value());
    }
    if (value || !modification.noted()) {
      modification.Plan(value);
      if (modification.state() == State::kKept) co_return Ok();
      const ValueModifier::Change& change = modification.change();
      const bool is_put = change.kind == ValueModifier::Kind::kPut;
      Status written = co_await WriteUntilDone(key, is_put ? change.value : std::string_view(),
                                               WriteMode::kModify, &part);
      const bool again =
          modification.state() == State::kOutdated ||
          (modification.state() == State::kLost && !context_.links.HasGivenUp(reading));
      if (!again) co_return written;
    } else if (reading.retries == losses_before && ++unreadable == kMostUnreadable) {
      co_return MakeError(Code::kCorruption, "the block of a value is damaged");
    }
    co_await context_.pauses.After(round);
  }
}

Task<Result<std::optional<std::string>>> LeafWriter::ReadNoted(Op& op, KeyView key,
                                                               const Modification& modification) {
  const Modification::Stored& noted = *modification.noted();
  const Entry entry{key, noted.bytes, noted.kind};
  if (!entry.has_block()) co_return std::optional(noted.bytes);
  Result<std::optional<std::string>> content = co_await context_.blocks.Read(op, entry.block());
  if (!content && co_await context_.links.RecoverFrom(op, content.error())) {
    content = std::optional<std::string>();  // The leaf is looked at again.
  }
  context_.counters.AddOperation(op.wire, OperationClass::kRead,
                                 content ? nullptr : &content.error());
  op.wire = {};
  if (!content || !content.value() || !entry.is_long()) co_return std::move(content);
  const std::optional<std::string_view> value = BlockReader::ValueOf(key, *content.value());
  if (!value) co_return std::optional<std::string>();
  co_return std::optional(std::string(*value));
}

bool LeafWriter::Begin(LeafJob& job, Batch& batch) const {
  const LeafWrite& write = job.first();
  const bool is_inline =
      context_.store.inline_limits.Admit(write.entry.key, write.entry.stored, write.MayExpire());
  if (!is_inline) return false;
  NodeCache::Step& path = job.locked.path;
  if (path.node.is_null()) {
    const std::optional<NodeCache::Step> cached = context_.cache.TryFindLeaf(write.entry.key);
    if (!cached) return false;
    path = *cached;
  }
  // Before all else that is done until the READ is posted.
  const LeafGeometry& geometry = context_.geometry();
  context_.links.Prefetch(path.node, geometry.unit_offset(write.unit), geometry.unit_bytes());
  if (!leaves_.Aim(job) || !leaves_.UseBuffer(job) || !job.locked.lock.TryTakeTurn()) return false;
  batch.Reset(job.locked.leaf().server());
  leaves_.AddTry(job, batch);
  return true;
}

Task<Status> LeafWriter::Finish(Op& op, LeafJob& job) {
  LeafWrite& write = job.first();
  const std::string_view value = write.entry.stored;
  BOOST_OUTCOME_CO_TRYV(context_.CheckKey(write.entry.key));
  if (value.size() > kMaxValueBytes) {
    co_return MakeError(Code::kInvalidArgument,
                        fmt::format("a value of {} bytes: at most {} ({})", value.size(),
                                    kMaxValueBytes, ExactBytes(kMaxValueBytes)));
  }
  LoneBlock lone;
  Batch* alongside = nullptr;
  // A modification that is not planned yet is only made where it needs no block.
  const Modification* const modification = write.modification;
  const bool stores =
      modification == nullptr
          ? !Removes(write.mode)
          : modification->is_planned() && modification->change().kind == ValueModifier::Kind::kPut;
  Entry::Kind kind =
      stores ? KindFor(write.entry.key, value, write.MayExpire()) : Entry::Kind::kInline;
  for (;;) {
    if (kind != write.entry.kind) {
      BOOST_OUTCOME_CO_TRYV(co_await PrepareBlock(op, kind, value, lone, job));
      alongside = &lone.write;
    }
    // RT 1.
    Status status = co_await leaves_.Lock(op, job, true, std::exchange(alongside, nullptr));
    if (status && job.state == LeafJob::State::kGranted) {
      status = write.status;
    } else if (status) {
      // RT 2.
      const Result<Edited> edited = co_await Edit(op, job);
      if (edited && edited.value() == Edited::kTooLong) {
        write.is_too_long = true;
        // A modification whose value is not known yet has no block: it is noted next.
        if (stores) kind = Entry::Kind::kLong;
        if (lone.block) lone.block->GiveBack();
      }
      if (edited && edited.value() != Edited::kDone) {
        if (!stores) {
          // A touch has taken what the leaf stores.
          write.entry.stored = value;
          write.entry.kind = kind;
        }
        job.locked = LockedLeaf(context_.locks, op);
        job.state = LeafJob::State::kOpen;
        continue;
      }
      if (!edited) status = edited.error();
    }
    NoteOneDone(op, write, status);
    const bool is_stored = modification == nullptr || modification->is_applied();
    if (lone.block) EndBlock(write.hash, status, is_stored, *lone.block);
    co_return status;
  }
}

void LeafWriter::NoteOneDone(Op& op, const LeafWrite& write, const Status& status) {
  if (op.kind != OperationClass::kInsertSplit) op.kind = write.kind;
  // A write that is refused has been written, too, where it removed what had expired.
  const bool is_refused = !status && LeafWrite::IsRefusal(status.error().code);
  if (!status && !is_refused) return;
  WriteTally tally;
  tally.Add(write);
  FreeReplaced(op, {&write, 1});
  NoteDone(write.mode, tally);
}

void LeafWriter::FreeReplaced(const Op& op, std::span<const LeafWrite> writes) {
  for (const LeafWrite& write : writes) {
    if (write.replaced) context_.memory.FreeBlocks(op, {&*write.replaced, 1});
  }
}

void LeafWriter::NoteDone(WriteMode mode, const WriteTally& tally) {
  if (mode == WriteMode::kPut) {
    puts_since_insert_ =
        tally.inserted != 0 ? 0 : std::min(puts_since_insert_ + tally.updated, kRememberedPuts);
  }
}

// 1 RT, and 1 RT more where the overflow group, or all of the leaf, had to be read first; likewise
// for long keys.
Task<Result<Edited>> LeafWriter::Edit(Op& op, LeafJob& job) {
  LockedLeaf& locked = job.locked;
  LeafEditor& editor = *locked.editor;
  LeafWrite& write = job.first();
  if (job.block) locked.lock.linked().Add(*job.block);
  LeafEditor::Applied applied = editor.Apply(write);
  for (;;) {
    const bool is_unread = applied == LeafEditor::Applied::kUnread;
    if (!is_unread && applied != LeafEditor::Applied::kUnknown) break;
    // An insert may have to split the leaf, and then needs all of it. That no hint told means that
    // nothing is known of the other groups either: they come along.
    const bool may_split = write.mode == WriteMode::kPut || write.mode == WriteMode::kInsert ||
                           write.mode == WriteMode::kModify;
    Status read = Ok();
    if (!is_unread) {
      read = co_await leaves_.ReadLongKeys(op, locked, write.entry.key);
    } else if (may_split) {
      read = co_await leaves_.ReadRest(locked);
    } else {
      read = co_await leaves_.ReadOverflow(locked);
    }
    if (!read) {
      co_return co_await locked.lock.ReleaseAfter(read.error());
    }
    applied = editor.Apply(write);
  }
  const KeyView key = write.entry.key;
  const bool may_fit =
      key.size() <= CommonBytes(locked.path.low, key) +
                        context_.store.inline_limits.KeyBytes(write.entry.expires());
  if (applied == LeafEditor::Applied::kTooLong && !may_fit) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    co_return Edited::kTooLong;
  }
  if (applied == LeafEditor::Applied::kTooLong || applied == LeafEditor::Applied::kNoRoom) {
    co_return co_await splitter_.Rewrite(op, locked, write);
  }

  BOOST_OUTCOME_CO_TRYV(co_await committer_.Commit(job));
  if (applied == LeafEditor::Applied::kRefused && !write.status) co_return write.status.error();
  co_return Edited::kDone;
}

Task<Status> LeafWriter::WriteGroup(Op& op, WriteBatch& batch, size_t first, size_t& end,
                                    const NodeCache::Step& path, WriteTally& tally) {
  assert(first < end && end <= batch.size() && batch.mode() != WriteMode::kModify);
  const std::optional<ServerId> near = ServerOf(path.node);
  NewBlocks blocks;
  Status status = co_await WriteBlocks(op, batch, {first, end}, near, blocks);
  if (status) status = co_await WriteInLeaf(op, batch, first, end, path, tally, blocks);
  EndBlocks(batch, first, end, status, blocks);
  co_return status;
}

Task<Status> LeafWriter::WriteBlocks(Op& op, WriteBatch& batch, WriteBatch::Range writes,
                                     std::optional<ServerId> near, NewBlocks& blocks) {
  const size_t inline_bytes = context_.store.inline_limits.value_bytes;
  std::vector<RemoteAllocator::BlockWish> wishes;
  for (size_t position = writes.first; position < writes.end; ++position) {
    const size_t bytes = batch.value(position).size();
    if (bytes <= inline_bytes) continue;
    if (wishes.empty()) wishes.reserve(writes.end - position);
    wishes.push_back({static_cast<uint32_t>(bytes)});
  }
  if (wishes.empty()) co_return Ok();
  for (auto wish = wishes.begin(); wish != wishes.end();) {
    context_.memory.TakeBlocks(near, {wish, wishes.end()});
    wish = std::ranges::find_if_not(wish, wishes.end(),
                                    [](const auto& one) { return bool{one.memory}; });
    if (wish == wishes.end()) break;
    BOOST_OUTCOME_CO_TRY(memory, co_await context_.memory.AllocateBlock(op, near, wish->length));
    (wish++)->memory = std::move(memory);
  }
  blocks.all = std::vector<std::optional<NewBlock>>(writes.end - writes.first);
  blocks.space.Begin(wishes);
  auto wish = wishes.begin();
  const NewBlock* before = nullptr;
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    Entry entry = batch.entry(writes.first + i);
    if (entry.stored.size() <= inline_bytes) continue;
    BOOST_OUTCOME_CO_TRY(bytes, blocks.space.Next(context_.links, BlockBytes(wish->length)));
    NewBlock& block = blocks.all[i].emplace();
    block.Take(std::move((wish++)->memory), bytes, Entry::Kind::kBlock, entry);
    block.AddWrite(blocks.writes.For(block.server(), 1), std::exchange(before, &block));
    batch.SetBlock(writes.first + i, &block.ref());
  }
  co_await context_.links.ExecuteAll(op, blocks.writes.used());
  const auto may_refer = [](const std::optional<NewBlock>& block) {
    return !block || block->MayRefer();
  };
  if (std::ranges::all_of(blocks.all, may_refer)) co_return Ok();
  op.needs_other_memory = true;
  const auto has_failed = [](const Batch* one) { return one->status() != VerbStatus::kSuccess; };
  co_return Links::Unreachable(op, **std::ranges::find_if(blocks.writes.used(), has_failed));
}

void LeafWriter::EndBlock(uint64_t hash, const Status& status, bool is_stored,
                          NewBlock& block) const {
  if (status && is_stored) context_.guesses.Update(hash, block.ref());
  block.End(status, is_stored);
}

void LeafWriter::EndBlocks(WriteBatch& batch, size_t first, size_t end, const Status& status,
                           NewBlocks& blocks) const {
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    std::optional<NewBlock>& block = blocks.all[i];
    if (!block) continue;
    const size_t position = first + i;
    if (position < end) {
      EndBlock(KeyHash(batch.key(position)), status, batch.has_block(position), *block);
    } else {
      block->GiveBack();
    }
    batch.SetBlock(position, nullptr);
  }
}

Task<Status> LeafWriter::WriteInLeaf(Op& op, WriteBatch& batch, size_t first, size_t& end,
                                     const NodeCache::Step& path, WriteTally& tally,
                                     const NewBlocks& blocks) {
  std::array<LeafWrite, LeafJob::kFew> writes;
  const bool is_whole = end - first > LeafJob::kFew;
  const size_t count = is_whole ? 1 : end - first;
  for (size_t i = 0; i < count; ++i) MakeWrite(batch, first + i, writes[i]);
  LeafJob job(context_.locks, op, std::span(writes).first(count));
  job.is_whole = is_whole;
  job.locked.path = path;
  // RT 1.
  BOOST_OUTCOME_CO_TRYV(co_await leaves_.Lock(op, job, false, nullptr));
  // The leaf's fence, and not the path, tells what lies in it.
  const GroupView& unit = job.locked.unit(job.first().unit);
  if (!unit.Admits(batch.key(end - 1))) {
    size_t inside = first;
    while (end - inside > 1) {
      const size_t middle = inside + (end - inside) / 2;
      (unit.Admits(batch.key(middle)) ? inside : end) = middle;
    }
  }
  for (size_t i = 0; i < std::min(blocks.all.size(), end - first); ++i) {
    const std::optional<NewBlock>& block = blocks.all[i];
    if (block) job.locked.lock.linked().Add(block->stamp());
  }
  if (end - first <= LeafJob::kFew) {
    for (size_t i = count; i < end - first; ++i) MakeWrite(batch, first + i, writes[i]);
    job.writes = std::span(writes).first(end - first);
  }
  // RT 2.
  co_return co_await EditGroup(op, job, batch, first, end, tally);
}

// 1 RT, and 1 RT more if the leaf has to be read whole first.
Task<Status> LeafWriter::EditGroup(Op& op, LeafJob& job, WriteBatch& batch, size_t first,
                                   size_t end, WriteTally& tally) {
  LockedLeaf& locked = job.locked;
  const bool are_few = end - first <= LeafJob::kFew;
  size_t applied = are_few ? Apply(job) : 0;
  for (size_t i = 0; i < applied; ++i) {
    tally.Add(job.writes[i]);
    batch.NoteApplied(first + i, job.writes[i].status);
  }
  Status status = Ok();
  if (first + applied == end) {
    status = co_await committer_.Commit(job);
  } else {
    size_t next = first + applied;
    if (!locked.trailer) {
      // What was applied to the image is lost, and applied again.
      next = first;
      if (rules::ForgetsUndone()) applied = 0;
      tally = {};
      locked.editor->ForgetChanges();
      const Status read = co_await leaves_.ReadRest(locked);
      if (!read) co_return co_await locked.lock.ReleaseAfter(read.error());
    }
    status = co_await rewriter_.Rewrite(op, job, batch, next, end, tally);
  }
  if (status) {
    FreeReplaced(op, job.writes.first(applied));
    NoteDone(batch.mode(), tally);
  }
  co_return status;
}

void LeafWriter::Count(const Op& op, WriteMode mode, const WriteTally& tally, bool has_succeeded) {
  LiveCounters& counters = context_.counters;
  OperationClass kind = ClassOf(mode);
  if (!Removes(mode) && op.kind == OperationClass::kInsertSplit) {
    kind = OperationClass::kInsertSplit;
  } else if (tally.inserted != 0) {
    kind = OperationClass::kInsert;
  }
  counters.of(kind) += op.wire;
  if (!has_succeeded) return;
  const bool is_split = kind == OperationClass::kInsertSplit;
  counters.of(OperationClass::kUpdate).operations += tally.updated;
  counters.of(OperationClass::kDelete).operations += tally.deleted;
  counters.of(ClassOf(mode)).operations += tally.refused;
  counters.of(is_split ? kind : OperationClass::kInsert).operations += tally.inserted;
}

}  // namespace gossamer
