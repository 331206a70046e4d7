// Puts, inserts, updates and deletes: CAS + READ, then WRITE + unlock.
#include <algorithm>
#include <bit>
#include <string>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// Waiters whose wishes are granted along with one write.
constexpr size_t kMaxGranted = 64;

}  // namespace

Task<Status> Tree::Write(WriteMode mode, KeyView key, std::string_view value) {
  Operation operation;
  operation.kind = mode == WriteMode::kDelete   ? OperationClass::kDelete
                   : mode == WriteMode::kInsert ? OperationClass::kInsert
                                                : OperationClass::kUpdate;
  Status status = co_await WriteIn(operation, mode, key, value);
  while (!status) {
    const bool again = co_await ShouldRetry(operation, status.error());
    if (!again) break;
    status = co_await WriteIn(operation, mode, key, value);
  }
  TendPassedOver(operation);
  Finish(operation, operation.kind, status ? nullptr : &status.error());
  co_return status;
}

// 2 RT; 1 RT with a lock that was handed over, none when another's write does it. A value block costs none of them:
// its WRITE goes out with the CAS, and is acknowledged before the entry is written. A key that overflows (or may
// have) costs 1 RT more when no hint told, which is so where another compute server has filled its home group.
Task<Status> Tree::WriteIn(Operation& operation, WriteMode mode, KeyView key,
                           std::string_view value) {
  BOOST_OUTCOME_CO_TRYV(CheckKey(key));
  if (value.size() > kMaxValueBytes) {
    co_return MakeError(Code::kInvalidArgument, "a value of " + std::to_string(value.size()) +
                                                    " bytes: at most " +
                                                    std::to_string(kMaxValueBytes) + " (1 MiB)");
  }
  // What the leaf will store, and the block behind it.
  BlockRef block{};
  Allocated<BlockPtr> block_memory;
  BufferLease block_bytes;
  InlineBatch<1> block_batch;
  LeafWrite write;
  write.mode = mode;
  write.hash = KeyHash(key);
  write.unit = shared_.geometry.GroupOf(write.hash);
  write.entry = {key, value, false};
  write.kind = operation.kind;
  write.is_new = mode == WriteMode::kInsert ||
                 (mode == WriteMode::kPut && puts_since_insert_ < kPutsRemembered);
  const bool has_block =
      mode != WriteMode::kDelete && value.size() > shared_.parameters.inline_value_bytes;
  if (has_block) {
    const auto length = static_cast<uint32_t>(value.size());
    Result<BufferLease> buffer = Buffer(BlockReadBytes(length));
    if (!buffer) co_return buffer.error();
    block_bytes = std::move(buffer.value());
    Result<Allocated<BlockPtr>> allocated = co_await AllocateBlock(operation, length);
    if (!allocated) co_return allocated.error();
    block_memory = std::move(allocated.value());
    const BlockPtr pointer = block_memory.pointer();
    block = EncodeBlock(pointer, value, block_bytes.data());
    block_batch.Reset(pointer.server());
    block_batch.Add(Verb::Write(pointer.offset(), BlockReadBytes(length), block_bytes.address()));
    block_memory.Posted();
    write.block = block_memory.stamp();
    write.entry.stored = {reinterpret_cast<const char*>(&block), sizeof block};
    write.entry.is_block = true;
  }
  // The block of a write that has not happened. Not called after MaybeApplied and Fenced: an entry may refer to it.
  // Nor may it be used again when its own WRITE is perhaps still on its way (E3): that would land in the next value.
  const auto give_block_back = [&] {
    const VerbStatus written = block_batch.status();
    const bool is_at_rest = written == VerbStatus::kSuccess || written == VerbStatus::kPending ||
                            written == VerbStatus::kRemoteAccess || IsBroken(Mutant::kU1Block);
    if (is_at_rest) block_memory.GiveBack();
  };
  const auto wrote_nothing = [](const Status& status) {
    return !status && status.error().code != Code::kMaybeApplied &&
           status.error().code != Code::kFenced;
  };

  for (bool first = true;; first = false) {
    LockedLeaf locked;
    // RT 1.
    const Result<bool> mine = co_await LockLeaf(
        operation, write, true, first && has_block ? &block_batch : nullptr, locked);
    bool done = true;
    Status status = Ok();
    if (!mine) {
      status = mine.error();
    } else if (mine.value()) {
      // RT 2.
      status = co_await EditLeaf(operation, locked, write, done);
    } else {
      status = write.status;
    }
    if (status && !done) continue;
    if (status && mode == WriteMode::kPut) {
      puts_since_insert_ = write.kind == OperationClass::kInsert ? 0 : puts_since_insert_ + 1;
    }
    if (operation.kind != OperationClass::kInsertSplit) operation.kind = write.kind;
    if (status && write.replaced) shared_.allocator.FreeBlock(*write.replaced, scheduler_.Now());
    if (wrote_nothing(status)) give_block_back();
    co_return status;
  }
}

// 1 RT, and 1 RT more where the overflow group, or all of the leaf, had to be read first.
Task<Status> Tree::EditLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write,
                            bool& done) {
  LeafEditor& editor = *locked.editor;
  if (write.block) locked.lock.links.Add(*write.block);
  LeafEditor::Applied applied = editor.Apply(write);
  if (applied == LeafEditor::Applied::kUnread) {
    // An insert may have to split the leaf, and then needs all of it. That no hint told means that nothing is known of
    // the other groups either: they come along.
    const bool may_split = write.mode == WriteMode::kPut || write.mode == WriteMode::kInsert;
    Status read = Ok();
    if (may_split) {
      read = co_await ReadRest(operation, locked);
    } else {
      read = co_await ReadOverflow(operation, locked);
    }
    if (!read) co_return co_await UnlockAfter(operation, locked, read.error());
    applied = editor.Apply(write);
  }
  if (applied == LeafEditor::Applied::kNoRoom) {
    co_return co_await RewriteLeaf(operation, locked, write, done);
  }

  // What others wish for this leaf goes along.
  LockTable::WaiterList granted = GrantWishes(locked);
  Learn(locked.path, editor.known(),
        [&editor](uint32_t number) -> const GroupView& { return editor.Unit(number); });
  const bool wrote = editor.changed() != 0;
  LockTable::Waiter* next = wrote ? NextFor(locked.lock) : nullptr;
  Status status = Ok();
  if (wrote && next != nullptr && IsBroken(Mutant::kL3)) {
    const HeldLock held = locked.lock.held;
    HandOverLeaf(locked, *next);
    next = nullptr;
    locked.lock.held = held;
    status = co_await CommitUnits(operation, locked, AndThen::kKeep);
  } else if (wrote) {
    status = co_await CommitUnits(operation, locked,
                                  next != nullptr ? AndThen::kKeep : AndThen::kUnlock);
  } else {
    // What was read counts once the unlock has succeeded (rule L5).
    status = co_await Unlock(operation, locked);
    if (IsBroken(Mutant::kL5)) status = Ok();
  }
  while (LockTable::Waiter* waiter = granted.PopFront()) {
    auto& wish = static_cast<LeafWrite&>(*waiter->wish);
    ++counters_.locks.combined;
    // Nothing was written; or not by this one, whose answer does not count then (rule L5).
    const bool is_open = !status && (!wish.status || status.error().code != Code::kMaybeApplied);
    if (is_open) {
      wish.replaced.reset();
      locked.lock.turn.Resume(*waiter, LockTable::Answer::kLookUp);
      continue;
    }
    if (!status) wish.status = status.error();
    locked.lock.turn.Resume(*waiter, LockTable::Answer::kDone);
  }
  if (status && next != nullptr) HandOverLeaf(locked, *next);
  if (status && applied == LeafEditor::Applied::kRefused) co_return write.status;
  co_return status;
}

// Applies to the leaf what waiters wish for it, and takes them out of the queue: first come, first served, up to the
// first that cannot be done now. (To do those behind it first would spoil the order of an ascending load, and with it
// how full its leaves get.)
LockTable::WaiterList Tree::GrantWishes(LockedLeaf& locked) {
  LockTable::WaiterList granted;
  if (!locked.lock.turn) return granted;
  LeafEditor& editor = *locked.editor;
  LockTable::WaiterList wishes = locked.lock.turn.TakeWishes(locked.leaf(), kMaxGranted);
  while (LockTable::Waiter* waiter = wishes.first()) {
    auto& wish = static_cast<LeafWrite&>(*waiter->wish);
    LinkedMemory links = locked.lock.links;
    if (wish.block) links.Add(*wish.block);
    // It changes two units at most.
    const bool can = editor.knows(wish.unit) && editor.Admits(wish) &&
                     std::popcount(editor.changed()) + 2 <= kMaxWrites &&
                     shared_.allocator.MayLink(links, locked.leaf().server());
    const auto applied = can ? editor.Apply(wish) : LeafEditor::Applied::kLater;
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    locked.lock.links = links;
    granted.PushBack(*wishes.PopFront());
  }
  locked.lock.turn.PutBack(wishes);
  return granted;
}

// 1 RT. The home groups come before the overflow group, so that a reader that sees an entry there finds the flag that leads
// to it (rule W1). What was combined is written together: each unit once.
Task<Status> Tree::CommitUnits(Operation& operation, LockedLeaf& locked, AndThen and_then) {
  if (!shared_.options.techniques.two_level_versions) {
    co_return co_await CommitWhole(operation, locked, and_then);
  }
  const LeafGeometry& geometry = shared_.geometry;
  const RemotePtr leaf = locked.leaf();
  InlineBatch<kMaxWrites + 1> batch(leaf.server());
  for (uint32_t rest = locked.editor->changed(); rest != 0;) {
    const uint32_t unit = IsBroken(Mutant::kW1Overflow)
                              ? 31 - static_cast<uint32_t>(std::countl_zero(rest))
                              : static_cast<uint32_t>(std::countr_zero(rest));
    rest &= ~(1u << unit);
    const uint32_t at = geometry.unit_offset(unit);
    batch.Add(Verb::Write(leaf.offset() + at, geometry.unit_bytes(),
                          locked.buffers.address(LockedBuffers::kImage + at)));
  }
  locked.editor->Written();
  co_return co_await Commit(operation, locked.lock, batch,
                            locked.buffers.address(LockedBuffers::kUnlockWord), and_then);
}

// 1 RT. As a leaf of one unit: whatever changed, all of it is arranged anew under a new version, and written.
Task<Status> Tree::CommitWhole(Operation& operation, LockedLeaf& locked, AndThen and_then) {
  const LeafGeometry& geometry = shared_.geometry;
  const RemotePtr leaf = locked.leaf();
  if (!locked.trailer) {
    co_return co_await UnlockAfter(operation, locked,
                                   CorruptNode(leaf, "a trailer that fails its checksum"));
  }
  Result<BufferLease> lease = Buffer(geometry.node_bytes());
  if (!lease) co_return co_await UnlockAfter(operation, locked, lease.error());
  std::vector<Entry> entries;
  locked.editor->AppendTo(entries);
  const LeafContent content{Next(locked.unit(0).version()), locked.path.low, locked.unit(0).high(),
                            locked.trailer->sibling(), entries};
  // In the order of the units: each gets what it held, or more.
  const std::span<std::byte> image(lease.value().data(), geometry.node_bytes());
  if (!EncodeLeaf(image, leaf, geometry, content)) {
    co_return co_await UnlockAfter(operation, locked,
                                   CorruptNode(leaf, "a leaf that does not fit into itself"));
  }
  std::copy(image.begin(), image.end(), locked.buffers.data() + LockedBuffers::kImage);
  locked.editor->Written();
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), geometry.node_bytes(), lease.value().address()));
  co_return co_await Commit(operation, locked.lock, batch,
                            locked.buffers.address(LockedBuffers::kUnlockWord), and_then);
}

// The lock goes to `next`, and with it what is known of the leaf, if that is what `next` is after.
void Tree::HandOverLeaf(LockedLeaf& locked, LockTable::Waiter& next) {
  if (next.wish != nullptr && next.wish->node == locked.leaf()) {
    auto& wish = static_cast<LeafWrite&>(*next.wish);
    const LeafGeometry& geometry = shared_.geometry;
    wish.known_units = locked.editor->known();
    for (uint32_t rest = wish.known_units; rest != 0; rest &= rest - 1) {
      const uint32_t unit = static_cast<uint32_t>(std::countr_zero(rest));
      const std::span<const std::byte> bytes = locked.editor->bytes(unit);
      std::copy(bytes.begin(), bytes.end(), wish.image + geometry.unit_offset(unit));
    }
    wish.knows_trailer = locked.trailer.has_value();
    if (wish.knows_trailer) {
      const std::byte* trailer =
          locked.buffers.data() + LockedBuffers::kImage + geometry.trailer_offset();
      std::copy(trailer, trailer + kTrailerBytes, wish.image + geometry.trailer_offset());
    }
  }
  HandOver(locked.lock, next);
}

}  // namespace gossamer
