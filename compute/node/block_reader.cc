#include "compute/node/block_reader.h"

#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"

namespace gossamer {

Links::Connecting BlockReader::ConnectFor(BlockRef block) {
  const RemotePtr place(block.ptr().server(), block.ptr().offset() & ~(kNodeAlignment - 1), 0);
  return links_.ConnectFor(place,
                           block.ptr().offset() - place.offset() + BlockReadBytes(block.length));
}

std::optional<std::string_view> BlockReader::ValueIn(const BlockRef& block,
                                                     std::span<const std::byte> bytes) {
  return rules::ParseBlock(block, bytes);
}

Task<Result<std::optional<std::string>>> BlockReader::Read(Op& op, BlockRef block) {
  const uint32_t bytes = BlockReadBytes(block.length);
  BOOST_OUTCOME_CO_TRYV(co_await ConnectFor(block));
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
  constexpr size_t kSlot = (BlockReadBytes(kLongKeyHeaderBytes + kMaxKeyBytes) + 63) / 64 * 64;
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(refs.size() * kSlot));
  ServerBatches batches;
  for (size_t i = 0; i < refs.size(); ++i) {
    const BlockRef& block = refs[i].block;
    BOOST_OUTCOME_CO_TRYV(co_await ConnectFor(block));
    batches.For(block.ptr().server(), 1)
        .Add(Verb::Read(block.ptr().offset(), LongKeyReadBytes(block), buffer.address(i * kSlot)));
  }
  co_await links_.ExecuteAll(op, batches.used());
  for (const Batch* batch : batches.used()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    const std::span<const std::byte> bytes(buffer.data() + i * kSlot,
                                           LongKeyReadBytes(refs[i].block));
    const std::optional<KeyView> key = DecodeLongKey(refs[i].block, bytes);
    if (!key || KeyHash(*key) != refs[i].key_hash) {
      co_return CorruptNode(leaf, "a leaf whose long keys are not in their blocks");
    }
    keys.emplace(refs[i].block.pointer, *key);
  }
  co_return Ok();
}

}  // namespace gossamer
