// NewBlock: the block to which a write's entry refers, with the value, or a long key and its
// value.
//
// Its WRITE goes out with the CAS of the leaf's lock. The entry is written once it is acknowledged:
// no reader finds an entry whose block is not there.
//
// Thread-safety: none; it belongs to its write. Cost: a buffer; no allocation.
#pragma once

#include <cstdint>
#include <optional>
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

  // Takes `memory`, which is for ContentBytes. `entry`, which stores the value itself, then refers
  // to it. This outlives the entry.
  // Errors: NoResources: no registered memory. The entry is as it was.
  Status Take(Links& links, Allocated<BlockPtr> memory, Entry::Kind kind, Entry& entry);
  ServerId server() const { return memory_.pointer().server(); }
  // What the entry of a short key stores.
  const BlockRef& ref() const { return ref_.block; }
  const AllocationStamp& stamp() const { return memory_.stamp(); }
  // Adds the WRITE to `batch`, which is for server() and lives until one of the calls below.
  void AddWrite(Batch& batch);
  // Once that has ended: whether an entry may refer to the block.
  bool MayRefer() const;

  // Requires (unchecked) of both: the batch has ended.
  //
  // The write has not happened.
  void GiveBack();
  // The write has ended with `status`. `is_stored`: its entry was written if that is Ok.
  void End(const Status& status, bool is_stored);

 private:
  LongRef ref_{};  // of which a short key needs the first part
  Allocated<BlockPtr> memory_;
  BufferLease bytes_;
  const Verb* write_ = nullptr;
};

// The blocks of several writes, by the number of the write, and the batches of their WRITEs.
struct NewBlocks {
  std::vector<std::optional<NewBlock>> all;
  ServerBatches writes;
};

}  // namespace gossamer
