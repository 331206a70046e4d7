// Puts, inserts, updates and deletes: CAS + READ, then WRITE + unlock.
#include <string>

#include "compute/tree/leaf_edit.h"
#include "compute/tree/tree.h"
#include "compute/tree/unit_buffers.h"

namespace gossamer {

Task<Status> Tree::Write(WriteMode mode, KeyView key, std::string_view value) {
  Operation operation;
  operation.kind = mode == WriteMode::kDelete   ? OperationClass::kDelete
                   : mode == WriteMode::kInsert ? OperationClass::kInsert
                                                : OperationClass::kUpdate;
  Status status = co_await WriteIn(operation, mode, key, value);
  Finish(operation, operation.kind, status ? nullptr : &status.error());
  co_return status;
}

// 2 RT. A value block costs none of them: its WRITE goes out with the CAS, and is acknowledged before the entry is
// written. A key that overflows (or may have) costs 1 RT more when no hint told.
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
  BufferLease block_bytes;
  InlineBatch<1> block_batch;
  Entry entry{key, value, false};
  const bool has_block =
      mode != WriteMode::kDelete && value.size() > shared_.parameters.inline_value_bytes;
  if (has_block) {
    const auto length = static_cast<uint32_t>(value.size());
    Result<BufferLease> buffer = Buffer(BlockReadBytes(length));
    if (!buffer) co_return buffer.error();
    block_bytes = std::move(buffer.value());
    const Result<BlockPtr> pointer =
        co_await shared_.allocator.AllocateBlock(scheduler_, length, operation.wire);
    if (!pointer) co_return pointer.error();
    block = EncodeBlock(pointer.value(), value, block_bytes.data());
    block_batch.Reset(pointer.value().server());
    block_batch.Add(
        Verb::Write(pointer.value().offset(), BlockReadBytes(length), block_bytes.address()));
    entry.stored = {reinterpret_cast<const char*>(&block), sizeof block};
    entry.is_block = true;
  }
  // The block of a write that has not happened. Not called after MaybeApplied and Fenced: an entry may refer to it.
  // Nor may it be used again when its own WRITE is perhaps still on its way (E3): that would land in the next value.
  const auto release_block = [&] {
    const VerbStatus written = block_batch.status();
    const bool is_at_rest = written == VerbStatus::kSuccess || written == VerbStatus::kPending ||
                            written == VerbStatus::kRemoteAccess;
    if (has_block && is_at_rest) shared_.allocator.FreeBlock(block, scheduler_.Now());
  };
  const auto wrote_nothing = [](const Status& status) {
    return !status && status.error().code != Code::kMaybeApplied &&
           status.error().code != Code::kFenced;
  };

  for (bool first = true;; first = false) {
    // RT 1.
    Result<LockedLeaf> lock =
        co_await LockLeaf(operation, key, first && has_block ? &block_batch : nullptr);
    if (!lock) {
      release_block();
      co_return lock.error();
    }
    LockedLeaf& locked = lock.value();

    std::optional<Entry> old = locked.home->Find(key);
    const bool in_home = old.has_value();
    if (!old && locked.home->overflowed() && !locked.overflow) {
      const Status read = co_await ReadOverflowLocked(operation, locked);
      if (!read) {
        release_block();
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
        co_return read.error();
      }
      LearnOverflow(locked.path, key, *locked.overflow);
    }
    if (!old && locked.home->overflowed()) old = locked.overflow->Find(key);

    if (old ? mode == WriteMode::kInsert
            : mode == WriteMode::kUpdate || mode == WriteMode::kDelete) {
      // Nothing to write. What was read counts once the unlock has succeeded (rule L5).
      release_block();
      BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
      co_return MakeError(old ? Code::kAlreadyExists : Code::kNotFound);
    }
    if (mode == WriteMode::kPut) {
      operation.kind = old ? OperationClass::kUpdate : OperationClass::kInsert;
    }
    std::optional<BlockRef> old_block;
    if (old && old->is_block) old_block = old->block();

    // The new bytes of the units that change.
    const std::optional<Entry> put =
        mode == WriteMode::kDelete ? std::nullopt : std::optional<Entry>(entry);
    const LeafGeometry& geometry = shared_.geometry;
    const std::span<std::byte> new_home(locked.buffers.data() + UnitBuffers::kNewHome,
                                        geometry.unit_bytes());
    const std::span<std::byte> new_overflow(locked.buffers.data() + UnitBuffers::kNewOverflow,
                                            geometry.unit_bytes());
    const uint32_t unit = geometry.GroupOf(KeyHash(key));
    bool write_home = false;
    bool write_overflow = false;
    if (!old || in_home) {
      write_home = RewriteUnit(new_home, locked.leaf(), unit, *locked.home,
                               locked.home->overflowed(), key, put);
    }
    if (!write_home && !in_home) {
      // In the overflow group already, or an insert that finds its home full.
      Status read = Ok();
      if (!locked.overflow) read = co_await ReadOverflowLocked(operation, locked);
      if (!read) {
        release_block();
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
        co_return read.error();
      }
      write_overflow = RewriteUnit(new_overflow, locked.leaf(), geometry.overflow_unit(),
                                   *locked.overflow, false, key, put);
      if (write_overflow && !old && !locked.home->overflowed()) {
        // The flag first: whoever sees the overflow group without it would not look there (rule W1).
        write_home =
            RewriteUnit(new_home, locked.leaf(), unit, *locked.home, true, key, std::nullopt);
      }
      if (write_overflow && !old && !locked.path.parent.is_null()) {
        shared_.cache.AddHint(reader_, locked.path.parent, key, locked.leaf(),
                              OverflowHint(KeyHash(key)));
      }
    }

    if (write_home || write_overflow) {
      // RT 2.
      const Status committed = co_await CommitUnits(operation, locked, write_home, write_overflow);
      if (committed && old_block) shared_.allocator.FreeBlock(*old_block, scheduler_.Now());
      if (wrote_nothing(committed)) release_block();
      co_return committed;
    }
    // It fits neither here nor there.
    bool inserted = false;
    const Status rewritten = co_await RewriteLeaf(operation, locked, entry, inserted);
    if (!rewritten) {
      if (wrote_nothing(rewritten)) release_block();
      co_return rewritten;
    }
    if (inserted) {
      if (old_block) shared_.allocator.FreeBlock(*old_block, scheduler_.Now());
      co_return Ok();
    }
  }
}

// 1 RT. One queue pair: WRITE before WRITE before atomic, so that whoever takes the lock next, and every reader of
// the overflow group behind its flag, sees what came before (rule W1). A WRITE is at most one MTU (rule W2).
Task<Status> Tree::CommitUnits(Operation& operation, LockedLeaf& locked, bool write_home,
                               bool write_overflow) {
  const LeafGeometry& geometry = shared_.geometry;
  const BufferLease& buffers = locked.buffers;
  const uint64_t leaf = locked.leaf().offset();
  InlineBatch<3> batch(locked.leaf().server());
  if (write_home) {
    batch.Add(Verb::Write(leaf + geometry.unit_offset(locked.unit), geometry.unit_bytes(),
                          buffers.address(UnitBuffers::kNewHome)));
  }
  if (write_overflow) {
    batch.Add(Verb::Write(leaf + geometry.unit_offset(geometry.overflow_unit()),
                          geometry.unit_bytes(), buffers.address(UnitBuffers::kNewOverflow)));
  }
  batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, locked.word.word(), 0,
                              buffers.address(UnitBuffers::kUnlockWord)));
  co_await Execute(operation, batch);
  co_return CommitStatus(batch, locked.word);
}

}  // namespace gossamer
