#include "compute/tree/leaf_writer.h"

#include <fmt/core.h>

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "common/text/human.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Waiters whose wishes are granted along with one write.
constexpr size_t kMaxGranted = 64;

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

  BlockRef ref{};
  Allocated<BlockPtr> memory;
  BufferLease bytes;
  InlineBatch<1> batch;
};

Task<Status> LeafWriter::PrepareBlock(Op& op, std::string_view value, Block& block,
                                      LeafWish& wish) const {
  const auto length = static_cast<uint32_t>(value.size());
  Result<BufferLease> buffer = context_.links.Buffer(BlockReadBytes(length));
  if (!buffer) co_return buffer.error();
  block.bytes = std::move(buffer.value());
  Result<Allocated<BlockPtr>> allocated = co_await context_.memory.AllocateBlock(op, length);
  if (!allocated) co_return allocated.error();
  block.memory = std::move(allocated.value());
  const BlockPtr pointer = block.memory.pointer();
  block.ref = EncodeBlock(pointer, value, block.bytes.data());
  block.batch.Reset(pointer.server());
  block.batch.Add(Verb::Write(pointer.offset(), BlockReadBytes(length), block.bytes.address()));
  block.memory.Posted();
  wish.block = block.memory.stamp();
  wish.write.entry.stored = {reinterpret_cast<const char*>(&block.ref), sizeof block.ref};
  wish.write.entry.is_block = true;
  co_return Ok();
}

Task<Status> LeafWriter::Write(Op& op, WriteMode mode, KeyView key, std::string_view value) {
  BOOST_OUTCOME_CO_TRYV(context_.CheckKey(key));
  if (value.size() > kMaxValueBytes) {
    co_return MakeError(Code::kInvalidArgument,
                        fmt::format("a value of {} bytes: at most {} ({})", value.size(),
                                    kMaxValueBytes, ExactBytes(kMaxValueBytes)));
  }
  Block block;
  LeafWish wish;
  LeafWrite& write = wish.write;
  write.mode = mode;
  write.hash = KeyHash(key);
  write.unit = context_.geometry().GroupOf(write.hash);
  write.entry = {key, value, false};
  write.kind = op.kind;
  write.is_new = mode == WriteMode::kInsert ||
                 (mode == WriteMode::kPut && puts_since_insert_ < kPutsRemembered);
  const bool has_block =
      mode != WriteMode::kDelete && value.size() > context_.store.parameters.inline_value_bytes;
  if (has_block) {
    BOOST_OUTCOME_CO_TRYV(co_await PrepareBlock(op, value, block, wish));
  }
  for (bool is_first = true;; is_first = false) {
    LockedLeaf locked(context_.locks, op);
    // RT 1.
    const Result<LeafLocker::Outcome> outcome = co_await leaves_.Lock(
        op, wish, true, is_first && has_block ? &block.batch : nullptr, locked);
    Status status = Ok();
    if (!outcome) {
      status = outcome.error();
    } else if (outcome.value() == LeafLocker::Outcome::kLocked) {
      // RT 2.
      const Result<Edited> edited = co_await Edit(op, locked, wish);
      if (edited && edited.value() == Edited::kSplitOnly) continue;
      if (!edited) status = edited.error();
    } else {
      status = write.status;
    }
    if (status && mode == WriteMode::kPut) {
      puts_since_insert_ = write.kind == OperationClass::kInsert ? 0 : puts_since_insert_ + 1;
    }
    if (op.kind != OperationClass::kInsertSplit) op.kind = write.kind;
    if (status && write.replaced) context_.memory.FreeBlock(*write.replaced);
    if (WroteNothing(status)) block.GiveBack();
    co_return status;
  }
}

// 1 RT, and 1 RT more where the overflow group, or all of the leaf, had to be read first.
Task<Result<Edited>> LeafWriter::Edit(Op& op, LockedLeaf& locked, LeafWish& wish) {
  LeafEditor& editor = *locked.editor;
  LeafWrite& write = wish.write;
  if (wish.block) locked.lock.linked().Add(*wish.block);
  LeafEditor::Applied applied = editor.Apply(write);
  if (applied == LeafEditor::Applied::kUnread) {
    // An insert may have to split the leaf, and then needs all of it. That no hint told means that nothing is known of
    // the other groups either: they come along.
    const bool may_split = write.mode == WriteMode::kPut || write.mode == WriteMode::kInsert;
    Status read = Ok();
    if (may_split) {
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
  if (applied == LeafEditor::Applied::kNoRoom) {
    co_return co_await splitter_.Rewrite(op, locked, write);
  }

  // What others wish for this leaf goes along.
  LockTable::WaiterList granted = GrantWishes(locked);
  context_.cache.LearnHint(
      locked.path, context_.geometry(), editor.known(),
      [&editor](uint32_t number) -> const GroupView& { return editor.Unit(number); });
  const bool wrote = editor.changed() != 0;
  LockTable::Waiter* next = wrote ? locked.lock.NextWaiter() : nullptr;
  Status status = Ok();
  if (wrote) {
    status = co_await CommitUnits(
        locked, next != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease);
  } else {
    const Status released = co_await locked.lock.Release();
    status = rules::AnswerAfter(released);
  }
  AnswerWishes(locked, granted, status);
  if (status && next != nullptr) leaves_.HandOver(locked, *next);
  if (!status) co_return status.error();
  if (applied == LeafEditor::Applied::kRefused) co_return write.status.error();
  co_return Edited::kDone;
}

// Applies to the leaf what waiters wish for it, and takes them out of the queue: first come, first served, up to the
// first that cannot be done now. (To do those behind it first would spoil the order of an ascending load, and with it
// how full its leaves get.)
LockTable::WaiterList LeafWriter::GrantWishes(LockedLeaf& locked) const {
  LockTable::WaiterList granted;
  LockTable::Turn& turn = locked.lock.turn();
  if (!turn) return granted;
  LeafEditor& editor = *locked.editor;
  LockTable::WaiterList wishes = turn.TakeWishes(locked.leaf(), kMaxGranted);
  while (LockTable::Waiter* waiter = wishes.first()) {
    LeafWish& wish = LeafWish::From(*waiter->wish);
    LinkedMemory links = locked.lock.linked();
    if (wish.block) links.Add(*wish.block);
    // It changes two units at most.
    const bool can =
        editor.knows(wish.write.unit) && editor.Admits(wish.write) &&
        std::popcount(editor.changed()) + 2 <= static_cast<int>(RemoteLock::kMaxWrites) &&
        context_.memory.MayLink(links, locked.leaf().server());
    const auto applied = can ? editor.Apply(wish.write) : LeafEditor::Applied::kLater;
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    locked.lock.linked() = links;
    granted.Push(wishes.Pop());
  }
  turn.PutBack(wishes);
  return granted;
}

void LeafWriter::AnswerWishes(LockedLeaf& locked, LockTable::WaiterList& granted,
                              const Status& status) const {
  while (!granted.empty()) {
    LockTable::Waiter& waiter = granted.Pop();
    LeafWrite& write = LeafWish::From(*waiter.wish).write;
    ++context_.counters.locks.combined;
    // Nothing was written; or not by this one, whose answer does not count then (rule L5).
    const bool is_open = !status && (!write.status || status.error().code != Code::kMaybeApplied);
    if (is_open) {
      write.replaced.reset();
      locked.lock.turn().Resume(waiter, LockTable::Answer::kLookUp);
      continue;
    }
    if (!status) write.status = status.error();
    locked.lock.turn().Resume(waiter, LockTable::Answer::kDone);
  }
}

// 1 RT. The home groups come before the overflow group, so that a reader that sees an entry there finds the flag that leads
// to it (rule W1). What was combined is written together: each unit once.
Task<Status> LeafWriter::CommitUnits(LockedLeaf& locked, RemoteLock::After after) const {
  if (!context_.techniques().two_level_versions) co_return co_await CommitWhole(locked, after);
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  InlineBatch<RemoteLock::kMaxWrites + 1> batch(leaf.server());
  for (uint32_t rest = locked.editor->changed(); rest != 0; rest &= rest - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t at = geometry.unit_offset(unit);
    batch.Add(Verb::Write(leaf.offset() + at, geometry.unit_bytes(), locked.image(at)));
  }
  locked.editor->ForgetChanges();
  co_return co_await locked.lock.Commit(batch, after);
}

// 1 RT. As a leaf of one unit: whatever changed, all of it is arranged anew under a new version, and written.
Task<Status> LeafWriter::CommitWhole(LockedLeaf& locked, RemoteLock::After after) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  if (!locked.trailer) {
    co_return co_await LeafLocker::ReleaseAfter(
        locked, CorruptNode(leaf, "a trailer that fails its checksum"));
  }
  Result<BufferLease> lease = context_.links.Buffer(geometry.node_bytes());
  if (!lease) co_return co_await LeafLocker::ReleaseAfter(locked, lease.error());
  std::vector<Entry> entries;
  locked.editor->AppendTo(entries);
  const LeafContent content{Next(locked.unit(0).version()), locked.path.low, locked.unit(0).high(),
                            locked.trailer->sibling(), entries};
  // In the order of the units: each gets what it held, or more.
  const std::span<std::byte> image(lease.value().data(), geometry.node_bytes());
  if (!EncodeLeaf(image, leaf, geometry, content)) {
    co_return co_await LeafLocker::ReleaseAfter(
        locked, CorruptNode(leaf, "a leaf that does not fit into itself"));
  }
  std::copy(image.begin(), image.end(), locked.image().data);
  locked.editor->ForgetChanges();
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), geometry.node_bytes(), lease.value().address()));
  co_return co_await locked.lock.Commit(batch, after);
}

}  // namespace gossamer
