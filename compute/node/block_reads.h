// BlockReads: READs of several blocks into one buffer.
//
// Thread-safety: none; they belong to one operation. Cost: no allocation once they have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/session/server_batches.h"
#include "proto/value_block.h"

namespace gossamer {

class BlockReads {
 public:
  // What so many bytes of a block take in the buffer.
  static constexpr size_t BufferBytes(uint32_t bytes) { return (size_t{bytes} + 63) / 64 * 64; }

  // For the next use. Requires (unchecked): the batches have ended.
  void Clear() {
    all_.clear();
    batches_.Clear();
    buffer_bytes_ = 0;
  }
  // Adds the first `bytes` of `block`, which has the next number, from 0 on.
  void Add(const BlockRef& block, uint32_t bytes) {
    all_.push_back({block, bytes});
    buffer_bytes_ += BufferBytes(bytes);
  }
  size_t size() const { return all_.size(); }
  // Of all together.
  size_t buffer_bytes() const { return buffer_bytes_; }

  // Makes the batches that read all to `into`, which has buffer_bytes() and lives until the last
  // call of bytes().
  void AddTo(LocalAddress into) {
    for (One& one : all_) {
      const BlockPtr at = one.block.ptr();
      one.batch = &batches_.For(at.server(), 1);
      one.read = &one.batch->Add(Verb::Read(at.offset(), one.bytes, into));
      into = into + BufferBytes(one.bytes);
    }
  }
  // After AddTo: all batches, and the one that reads the block.
  std::span<Batch* const> batches() const { return batches_.used(); }
  Batch& batch(size_t number) const { return *all_[number].batch; }

  // Of both: the batches have ended.
  bool is_read(size_t number) const { return all_[number].read->status == VerbStatus::kSuccess; }
  std::span<const std::byte> bytes(size_t number) const {
    const Verb& read = *all_[number].read;
    return {read.local.data, read.length};
  }
  const BlockRef& block(size_t number) const { return all_[number].block; }

 private:
  struct One {
    BlockRef block;
    uint32_t bytes;
    Batch* batch = nullptr;
    const Verb* read = nullptr;
  };

  std::vector<One> all_;
  ServerBatches batches_;
  size_t buffer_bytes_ = 0;
};

}  // namespace gossamer
