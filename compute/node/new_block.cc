#include "compute/node/new_block.h"

#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {

uint32_t NewBlock::ContentBytes(const Entry& entry, Entry::Kind kind) {
  return kind == Entry::Kind::kLong ? LongContentBytes(entry.key, entry.stored)
                                    : static_cast<uint32_t>(entry.stored.size());
}

Status NewBlock::Take(Links& links, Allocated<BlockPtr> memory, Entry::Kind kind, Entry& entry) {
  BOOST_OUTCOME_TRY(buffer, links.Buffer(BlockReadBytes(ContentBytes(entry, kind))));
  bytes_ = std::move(buffer);
  memory_ = std::move(memory);
  const BlockPtr pointer = memory_.pointer();
  if (kind == Entry::Kind::kLong) {
    ref_ = EncodeLongBlock(pointer, entry.key, entry.stored, bytes_.data());
    entry.stored = {reinterpret_cast<const char*>(&ref_), sizeof ref_};
  } else {
    ref_.block = EncodeBlock(pointer, entry.stored, bytes_.data());
    entry.stored = {reinterpret_cast<const char*>(&ref_), sizeof ref_.block};
  }
  entry.kind = kind;
  return Ok();
}

void NewBlock::AddWrite(Batch& batch) {
  write_ = &batch.Add(
      Verb::Write(memory_.pointer().offset(), BlockReadBytes(ref_.block.length), bytes_.address()));
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
