// NewBlock: the block to which a write's entry refers, with the value, or a long key and its
// value.
//
// Its WRITE goes out with the CAS of the leaf's lock. The entry is written once it is acknowledged:
// no reader finds an entry whose block is not there. Blocks that lie one behind the other share a
// WRITE.
//
// Thread-safety: none; it belongs to its write. Cost: no allocation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/work_request.h"
#include "common/status.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/session/links.h"
#include "compute/session/server_batches.h"
#include "proto/entry.h"

namespace gossamer {

class NewBlock {
 public:
  NewBlock() = default;
  NewBlock(const NewBlock&) = delete;
  NewBlock& operator=(const NewBlock&) = delete;

  // Bytes of the content that a block for the value of `entry` has; `kind`: kBlock or kLong.
  static uint32_t ContentBytes(const Entry& entry, Entry::Kind kind);

  // Takes `memory`, which is for ContentBytes, and makes the block at `bytes`, which are BlockBytes
  // of that and live until the WRITE has ended. `entry`, which stores the value itself, then refers
  // to the block. This outlives the entry.
  void Take(Allocated<BlockPtr> memory, LocalAddress bytes, Entry::Kind kind, Entry& entry);
  ServerId server() const { return memory_.pointer().server(); }
  // What the entry of a short key stores.
  const BlockRef& ref() const { return ref_.block; }
  const AllocationStamp& stamp() const { return memory_.stamp(); }
  // Adds the WRITE to `batch`, which is for server() and lives until one of the calls below. If
  // this block lies behind `before`, here and there, that one's WRITE, which is not posted yet,
  // gets longer instead.
  void AddWrite(Batch& batch, const NewBlock* before = nullptr);
  // Once that has ended: whether an entry may refer to the block.
  bool MayRefer() const;

  // Requires (unchecked) of both: the batch has ended.
  //
  // The write has not happened.
  void GiveBack();
  // The write has ended with `status`. `is_stored`: its entry was written if that is Ok.
  void End(const Status& status, bool is_stored);

 private:
  bool LiesBehind(const NewBlock& before) const;

  LongRef ref_{};  // of which a short key needs the first part
  Allocated<BlockPtr> memory_;
  LocalAddress bytes_;
  Verb* write_ = nullptr;
};

// Registered memory for the bytes of several new blocks, one behind the other as far as possible.
class BlockSpace {
 public:
  // For the blocks of all `wishes`. The bytes of earlier blocks are not needed any more.
  void Begin(std::span<const RemoteAllocator::BlockWish> wishes) {
    GiveBack();
    left_ = 0;
    for (const RemoteAllocator::BlockWish& wish : wishes) left_ += BlockBytes(wish.length);
  }
  void GiveBack() {
    leases_.clear();
    used_ = 0;
  }
  // The next `bytes`: BlockBytes of a content. Errors: NoResources: no registered memory.
  Result<LocalAddress> Next(Links& links, uint32_t bytes) {
    if (leases_.empty() || used_ + bytes > leases_.back().capacity()) {
      const size_t wanted = std::clamp<size_t>(left_, bytes, BufferPool::kMaxBytes);
      BOOST_OUTCOME_TRY(lease, links.Buffer(wanted));
      leases_.push_back(std::move(lease));
      used_ = 0;
    }
    left_ -= std::min<size_t>(left_, bytes);
    return leases_.back().address(std::exchange(used_, used_ + bytes));
  }

 private:
  std::vector<BufferLease> leases_;
  size_t used_ = 0;  // of the last lease
  size_t left_ = 0;  // of what was announced
};

// The blocks of several writes, by the number of the write, and the batches of their WRITEs.
struct NewBlocks {
  std::vector<std::optional<NewBlock>> all;
  BlockSpace space;
  ServerBatches writes;
};

// The block of a single write.
struct LoneBlock {
  std::optional<NewBlock> block;
  BufferLease bytes;
  InlineBatch<1> write;
};

}  // namespace gossamer
