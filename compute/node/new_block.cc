#include "compute/node/new_block.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {

uint32_t NewBlock::ContentBytes(const Entry& entry, Entry::Kind kind) {
  return kind == Entry::Kind::kLong ? LongContentBytes(entry.key, entry.stored)
                                    : static_cast<uint32_t>(entry.stored.size());
}

void NewBlock::Take(Allocated<BlockPtr> memory, LocalAddress bytes, Entry::Kind kind,
                    Entry& entry) {
  bytes_ = bytes;
  memory_ = std::move(memory);
  const BlockPtr pointer = memory_.pointer();
  if (kind == Entry::Kind::kLong) {
    ref_ = EncodeLongBlock(pointer, entry.key, entry.stored, bytes_.data);
    entry.stored = {reinterpret_cast<const char*>(&ref_), sizeof ref_};
  } else {
    ref_.block = EncodeBlock(pointer, entry.stored, bytes_.data);
    entry.stored = {reinterpret_cast<const char*>(&ref_), sizeof ref_.block};
  }
  entry.kind = kind;
}

bool NewBlock::LiesBehind(const NewBlock& before) const {
  const uint32_t bytes = BlockBytes(before.ref_.block.length);
  const BlockPtr here = memory_.pointer();
  const BlockPtr there = before.memory_.pointer();
  return here.server() == there.server() && here.offset() == there.offset() + bytes &&
         bytes_.data == before.bytes_.data + bytes && bytes_.key == before.bytes_.key;
}

void NewBlock::AddWrite(Batch& batch, const NewBlock* before) {
  const uint32_t length = BlockReadBytes(ref_.block.length);
  if (before != nullptr && LiesBehind(*before)) {
    // What is between them belongs to the one before: nobody reads it, but it is written.
    const uint32_t unused = BlockReadBytes(before->ref_.block.length);
    std::fill(before->bytes_.data + unused, bytes_.data, std::byte{0});
    write_ = before->write_;
    write_->length = static_cast<uint32_t>(bytes_.data - write_->local.data) + length;
  } else {
    write_ = &batch.Add(Verb::Write(memory_.pointer().offset(), length, bytes_));
  }
  memory_.Posted();
}

bool NewBlock::MayRefer() const { return rules::MayRefer(write_->status == VerbStatus::kSuccess); }

// The block must not be used again while its own WRITE is perhaps on its way (E3): that would land
// in the next value.
void NewBlock::GiveBack() {
  if (write_ == nullptr || rules::MayReuse(write_->status)) memory_.GiveBack();
}

void NewBlock::End(const Status& status, bool is_stored) {
  if (status && is_stored) return memory_.Linked();
  // After these, an entry may refer to the block.
  const bool is_unknown = !status && (status.error().code == Code::kMaybeApplied ||
                                      status.error().code == Code::kFenced);
  if (!is_unknown) GiveBack();
}

}  // namespace gossamer
