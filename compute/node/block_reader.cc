#include "compute/node/block_reader.h"

#include "compute/node/block_reads.h"
#include "compute/rules/rules.h"

namespace gossamer {

namespace {

// The nodes' places that the block covers, as Links wants them.
struct Cover {
  explicit Cover(const BlockRef& block)
      : place(block.ptr().server(), block.ptr().offset() & ~(kNodeAlignment - 1), 0),
        bytes(block.ptr().offset() - place.offset() + BlockReadBytes(block.length)) {}

  RemotePtr place;
  uint64_t bytes;
};

}  // namespace

Status BlockReader::CheckReaches(Op& op, BlockRef block) const {
  const Cover cover(block);
  return links_.CheckReaches(op, cover.place, cover.bytes);
}

bool BlockReader::Reaches(BlockRef block) const {
  const Cover cover(block);
  return links_.Reaches(cover.place, cover.bytes);
}

std::optional<std::string_view> BlockReader::ValueIn(const BlockRef& block,
                                                     std::span<const std::byte> bytes) {
  return rules::ParseBlock(block, bytes);
}

std::optional<std::string_view> BlockReader::ValueOf(KeyView key, std::string_view content) {
  const std::optional<LongContent> parts = SplitLongContent(content);
  if (!parts || !rules::IsTheKey(parts->key == key)) return std::nullopt;
  return parts->value;
}

Task<Result<std::optional<std::string>>> BlockReader::Read(Op& op, BlockRef block) {
  const uint32_t bytes = BlockReadBytes(block.length);
  BOOST_OUTCOME_CO_TRYV(CheckReaches(op, block));
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(bytes));
  InlineBatch<1> batch(block.ptr().server());
  batch.Add(Verb::Read(block.ptr().offset(), bytes, buffer.address()));
  co_await links_.Execute(op, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  const std::optional<std::string_view> value = ValueIn(block, {buffer.data(), bytes});
  if (!value) co_return std::optional<std::string>();
  co_return std::optional<std::string>(std::string(*value));
}

Task<Status> BlockReader::ReadKeys(Op& op, RemotePtr leaf, std::span<const LongRef> refs,
                                   LongKeys& keys) {
  if (refs.empty()) co_return Ok();
  BlockReads reads;
  for (const LongRef& ref : refs) {
    BOOST_OUTCOME_CO_TRYV(CheckReaches(op, ref.block));
    reads.Add(ref.block, LongKeyReadBytes(ref.block));
  }
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(reads.buffer_bytes()));
  reads.AddTo(buffer.address());
  co_await links_.ExecuteAll(op, reads.batches());
  for (const Batch* batch : reads.batches()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    const std::optional<KeyView> key = DecodeLongKey(refs[i].block, reads.bytes(i));
    if (!key || KeyHash(*key) != refs[i].key_hash) {
      co_return CorruptNode(leaf, "a leaf whose long keys are not in their blocks");
    }
    keys.emplace(refs[i].block.pointer, *key);
  }
  co_return Ok();
}

}  // namespace gossamer
