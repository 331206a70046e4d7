#include "compute/tree/write/leaf_writer.h"

#include <fmt/core.h>

#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/text/human.h"
#include "compute/rules/rules.h"
#include "compute/tree/read/get.h"

namespace gossamer {
namespace {

// Rounds of a read-modify-write that find the block of its value not to be whole, or lose the server.
constexpr uint32_t kMostUnreadable = 8;
constexpr uint32_t kMostLosses = 16;

bool WroteNothing(const Status& status) {
  return !status && status.error().code != Code::kMaybeApplied &&
         status.error().code != Code::kFenced;
}

}  // namespace

// A value block that is written along with the CAS of its leaf's lock.
struct LeafWriter::Block {
  // Called when the write has not happened, and not after MaybeApplied and Fenced: an entry may refer to the block then.
  // The block must not be used again while its own WRITE is perhaps on its way (E3): that would land in the next value.
  void GiveBack() {
    if (rules::MayReuse(batch.status())) memory.GiveBack();
  }

  LongRef ref{};  // of which a short key needs the first part
  Allocated<BlockPtr> memory;
  BufferLease bytes;
  InlineBatch<1> batch;
};

Task<Status> LeafWriter::PrepareBlock(Op& op, Entry::Kind kind, std::string_view value,
                                      Block& block, LeafWish& wish) const {
  Entry& entry = wish.write.entry;
  const bool is_long = kind == Entry::Kind::kLong;
  const auto length =
      is_long ? LongContentBytes(entry.key, value) : static_cast<uint32_t>(value.size());
  Result<BufferLease> buffer = context_.links.Buffer(BlockReadBytes(length));
  if (!buffer) co_return buffer.error();
  block.bytes = std::move(buffer.value());
  Result<Allocated<BlockPtr>> allocated = co_await context_.memory.AllocateBlock(op, length);
  if (!allocated) co_return allocated.error();
  block.memory = std::move(allocated.value());
  const BlockPtr pointer = block.memory.pointer();
  if (is_long) {
    block.ref = EncodeLongBlock(pointer, entry.key, value, block.bytes.data());
  } else {
    block.ref.block = EncodeBlock(pointer, value, block.bytes.data());
  }
  block.batch.Reset(pointer.server());
  block.batch.Add(Verb::Write(pointer.offset(), BlockReadBytes(length), block.bytes.address()));
  block.memory.Posted();
  wish.block = block.memory.stamp();
  entry.stored = {reinterpret_cast<const char*>(&block.ref),
                  is_long ? sizeof block.ref : sizeof block.ref.block};
  entry.kind = kind;
  co_return Ok();
}

// Where the cache does not know the leaf as it is, this may be the wrong form. A leaf takes any key of this length as a long
// one.
Entry::Kind LeafWriter::KindFor(KeyView key, std::string_view value) const {
  const InlineLimits& limits = context_.store.inline_limits;
  if (key.size() > limits.key_bytes) {
    std::vector<NodeCache::LeafRef> leaf;
    HighFence high;
    const bool is_cached = context_.cache.CollectRight(key, 1, leaf, high) != 0;
    // The leaf may get a prefix of its own for the key.
    const size_t prefix_bytes = is_cached ? CommonBytes(leaf[0].low, key) : 0;
    if (key.size() > prefix_bytes + limits.key_bytes) return Entry::Kind::kLong;
  }
  return value.size() > limits.value_bytes ? Entry::Kind::kBlock : Entry::Kind::kInline;
}

LeafWrite LeafWriter::MakeWrite(const Op& op, WriteMode mode, KeyView key,
                                std::string_view value) const {
  LeafWrite write;
  write.mode = mode;
  write.hash = KeyHash(key);
  write.unit = context_.geometry().GroupOf(write.hash);
  if (mode == WriteMode::kDelete) value = {};
  write.entry = {key, value};
  write.kind = op.kind;
  write.is_new = mode == WriteMode::kInsert ||
                 (mode == WriteMode::kPut && context_.recent_puts.expect_insert());
  return write;
}

// The plain case takes one coroutine.
Task<Status> LeafWriter::WriteUntilDone(KeyView key, std::string_view value, WriteMode mode,
                                        const Part* part) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Modification* const modification = part != nullptr ? part->modification : nullptr;
  if (part != nullptr && part->began) op.began = *part->began;
  op.kind = ClassOf(mode);
  Status status = Ok();
  for (bool is_first = true;; is_first = false) {
    {
      Begun begun(context_.locks, op);
      begun.wish.write = MakeWrite(op, mode, key, value);
      begun.wish.write.modification = modification;
      LockedLeaf& locked = begun.locked;
      if (is_first && part != nullptr) locked.path = part->path;
      if (is_first && Prepare(begun)) {
        // RT 1.
        co_await context_.links.Execute(op, begun.tried.batch);
        begun.is_tried = true;
      }
      if (begun.is_tried && AcceptFirst(begun)) {
        LeafCommitter::Ending ending;
        committer_.Prepare(locked, ending);
        if (ending.has_changes && locked.lock.IsInEpoch()) {
          InlineBatch<LeafCommitter::kMaxVerbs> batch(locked.leaf().server());
          committer_.AddCommit(locked, ending, batch);
          // RT 2.
          co_await context_.links.Execute(op, batch);
          if (locked.lock.HasWritten(batch)) {
            committer_.ConcludeWritten(locked, ending);
          } else {
            status =
                committer_.Conclude(locked, ending, co_await locked.lock.FinishCommit(batch, {}));
          }
        } else {
          status = co_await committer_.Commit(locked, ending);
        }
        if (status && !begun.wish.write.status) status = begun.wish.write.status;
        Conclude(op, begun.wish.write, status);
      } else {
        status = co_await Write(op, begun);
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
  context_.memory.TendPassedOver(op);
  if (part != nullptr && part->sequence != nullptr) {
    op.wire.round_trips = part->sequence->Extend(op.wire.round_trips);
  }
  context_.Finish(op, op.kind, status ? nullptr : &status.error());
  co_return status;
}

Task<Status> LeafWriter::ModifyUntilDone(KeyView key, ValueModifier& modifier) {
  using State = Modification::State;
  // The memory of what was noted is nobody else's as long as this runs.
  const RunningOperations::Scope scope(context_.running);
  const auto inline_bytes = static_cast<size_t>(context_.store.inline_limits.value_bytes);
  Modification modification(modifier, inline_bytes);
  Op reading = context_.links.Begin();  // with the losses of all rounds
  uint32_t unreadable = 0;
  uint32_t lost = 0;
  for (uint32_t round = 0;; ++round) {
    const Moment began = context_.links.Now();
    const Part part{.began = began, .modification = &modification};
    modification.Restart();
    const Status looked = co_await WriteUntilDone(key, {}, WriteMode::kModify, &part);
    if (!looked || modification.state() != State::kNoted) co_return looked;
    std::optional<std::string> value;
    const uint32_t losses_before = reading.retries;
    if (modification.noted()) {
      reading.began = began;
      Result<std::optional<std::string>> read = co_await ReadNoted(reading, key, modification);
      if (!read) co_return read.error();
      value = std::move(read.value());
    }
    if (value || !modification.noted()) {
      modification.Plan(value);
      if (modification.state() == State::kKept) co_return Ok();
      const ValueModifier::Change& change = modification.change();
      const bool is_put = change.kind == ValueModifier::Kind::kPut;
      Status written = co_await WriteUntilDone(key, is_put ? change.value : std::string_view(),
                                               WriteMode::kModify, &part);
      const bool again = modification.state() == State::kOutdated ||
                         (modification.state() == State::kLost && ++lost <= kMostLosses);
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
  context_.Finish(op, OperationClass::kRead, content ? nullptr : &content.error());
  op.wire = {};
  if (!content || !content.value() || !entry.is_long()) co_return std::move(content);
  co_return ValueOfLongKey(*content.value(), key);
}

bool LeafWriter::Prepare(Begun& begun) {
  const LeafWrite& write = begun.wish.write;
  const bool may_be_plain = context_.store.inline_limits.Admit(write.entry.key, write.entry.stored);
  if (!may_be_plain) return false;
  NodeCache::Step& path = begun.locked.path;
  if (path.node.is_null()) {
    const std::optional<NodeCache::Step> cached =
        context_.cache.Find(SearchGoal::Covering(write.entry.key), 0);
    if (!cached || cached->level != 0) return false;
    context_.cache.CountHits(1);
    path = *cached;
  }
  // Before all else that is done until the READ is posted.
  const LeafGeometry& geometry = context_.geometry();
  context_.links.Prefetch(path.node, geometry.unit_offset(write.unit), geometry.unit_bytes());
  return leaves_.PrepareTry(begun.wish, begun.locked, begun.tried);
}

bool LeafWriter::AcceptFirst(Begun& begun) const {
  if (!leaves_.AcceptTry(begun.wish, begun.locked, begun.tried)) return false;
  const LeafEditor::Applied applied = begun.locked.editor->Apply(begun.wish.write);
  return applied == LeafEditor::Applied::kChanged || applied == LeafEditor::Applied::kRefused;
}

Task<Status> LeafWriter::Write(Op& op, Begun& begun) {
  LeafWish& wish = begun.wish;
  const std::string_view value = wish.write.entry.stored;
  BOOST_OUTCOME_CO_TRYV(context_.CheckKey(wish.write.entry.key));
  if (value.size() > kMaxValueBytes) {
    co_return MakeError(Code::kInvalidArgument,
                        fmt::format("a value of {} bytes: at most {} ({})", value.size(),
                                    kMaxValueBytes, ExactBytes(kMaxValueBytes)));
  }
  std::optional<Block> block;
  Batch* alongside = nullptr;
  // A modification that is not planned yet is only made where it needs no block.
  const Modification* const modification = wish.write.modification;
  const bool stores =
      modification == nullptr
          ? wish.write.mode != WriteMode::kDelete
          : modification->is_planned() && modification->change().kind == ValueModifier::Kind::kPut;
  Entry::Kind kind = stores ? KindFor(wish.write.entry.key, value) : Entry::Kind::kInline;
  LeafLocker::Tried* tried = begun.is_tried ? &begun.tried : nullptr;
  for (;;) {
    if (kind != wish.write.entry.kind) {
      const Status prepared = co_await PrepareBlock(op, kind, value, block.emplace(), wish);
      if (!prepared) co_return prepared.error();
      alongside = &block->batch;
    }
    LockedLeaf& locked = begun.locked;
    // RT 1.
    const Result<LeafLocker::Outcome> outcome = co_await leaves_.Lock(
        op, wish, true, std::exchange(alongside, nullptr), locked, std::exchange(tried, nullptr));
    Status status = Ok();
    if (!outcome) {
      status = outcome.error();
    } else if (outcome.value() == LeafLocker::Outcome::kLocked) {
      // RT 2.
      const Result<Edited> edited = co_await Edit(op, locked, wish);
      const bool is_done = !edited || edited.value() == Edited::kDone;
      if (!is_done) {
        const bool is_too_long = edited.value() == Edited::kTooLong;
        if (is_too_long) {
          wish.write.is_too_long = true;
          // A modification whose value is not known yet has no block: it is noted next.
          if (stores) kind = Entry::Kind::kLong;
          if (block) block->GiveBack();
        }
        locked = LockedLeaf(context_.locks, op);
        continue;
      }
      if (!edited) status = edited.error();
    } else {
      status = wish.write.status;
    }
    Conclude(op, wish.write, status);
    const bool is_refused = modification != nullptr && !modification->is_applied();
    if ((WroteNothing(status) || (status && is_refused)) && block) {
      block->GiveBack();
    } else if (status && block) {
      block->memory.Linked();
    }
    co_return status;
  }
}

void LeafWriter::Conclude(Op& op, const LeafWrite& write, const Status& status) {
  if (status && write.mode == WriteMode::kPut) {
    const bool is_insert = write.kind == OperationClass::kInsert;
    context_.recent_puts.Add(is_insert ? 1 : 0, is_insert ? 0 : 1);
  }
  if (op.kind != OperationClass::kInsertSplit) op.kind = write.kind;
  if (status && write.replaced) context_.memory.FreeBlock(op, *write.replaced);
}

// 1 RT, and 1 RT more where the overflow group, or all of the leaf, had to be read first; likewise for long keys.
Task<Result<Edited>> LeafWriter::Edit(Op& op, LockedLeaf& locked, LeafWish& wish) {
  LeafEditor& editor = *locked.editor;
  LeafWrite& write = wish.write;
  if (wish.block) locked.lock.linked().Add(*wish.block);
  LeafEditor::Applied applied = editor.Apply(write);
  for (;;) {
    const bool is_unread = applied == LeafEditor::Applied::kUnread;
    if (!is_unread && applied != LeafEditor::Applied::kUnknown) break;
    // An insert may have to split the leaf, and then needs all of it. That no hint told means that nothing is known of
    // the other groups either: they come along.
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
      const Status ended = co_await LeafLocker::ReleaseAfter(locked, read.error());
      co_return ended.error();
    }
    applied = editor.Apply(write);
  }
  const KeyView key = write.entry.key;
  const bool may_fit =
      key.size() <= CommonBytes(locked.path.low, key) + context_.store.inline_limits.key_bytes;
  if (applied == LeafEditor::Applied::kTooLong && !may_fit) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    co_return Edited::kTooLong;
  }
  if (applied == LeafEditor::Applied::kTooLong || applied == LeafEditor::Applied::kNoRoom) {
    co_return co_await splitter_.Rewrite(op, locked, write);
  }

  const Status status = co_await committer_.Commit(locked);
  if (!status) co_return status.error();
  if (applied == LeafEditor::Applied::kRefused && !write.status) co_return write.status.error();
  co_return Edited::kDone;
}

}  // namespace gossamer
