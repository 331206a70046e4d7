#include "compute/tree/read/scan_blocks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compute/node/block_reads.h"

namespace gossamer {
namespace {

using Kind = ScanEntry::Kind;

constexpr size_t kMaxBlocks = 32;
constexpr size_t kMaxBlockBytes = BufferPool::kMaxBytes;

// What is read of the block of `entry`: of a long key whose value is not wanted, the key.
uint32_t WantedBytes(const ScanEntry& entry, const ScanRange& range) {
  const BlockRef block = BlockOf(entry);
  const bool is_key = entry.kind == Kind::kLong && range.keys_only;
  return is_key ? LongKeyReadBytes(block) : BlockReadBytes(block.length);
}

}  // namespace

size_t BlockFiller::CountTogether(const ScanPage& page, const ScanRange& range,
                                  std::span<const size_t> numbers) {
  size_t count = 0;
  size_t total = 0;
  for (const size_t number : numbers.first(std::min(numbers.size(), kMaxBlocks))) {
    total += BlockReads::BufferBytes(WantedBytes(page.entries[number], range));
    if (count != 0 && total > kMaxBlockBytes) break;
    ++count;
  }
  return count;
}

BlockFiller::Took BlockFiller::TakeLong(ScanPage& page, ScanEntry& entry, const ScanRange& range,
                                        const BlockRef& block, std::span<const std::byte> bytes) {
  std::optional<LongContent> parts;
  if (range.keys_only) {
    const std::optional<KeyView> key = DecodeLongKey(block, bytes);
    if (key) parts = LongContent{*key, {}};
  } else if (const std::optional<std::string_view> content = BlockReader::ValueIn(block, bytes)) {
    parts = SplitLongContent(*content);
  }
  if (!parts || !parts->key.starts_with(entry.key())) return Took::kNoLongKey;
  const ScanPosition& position = page.positions[entry.length];
  const KeyView key = parts->key;
  if (key < StartOf(range, position) || !IsBeforeEnd(key, range, position)) return Took::kOutside;
  const uint64_t expires_at = page.ExpiryOf(entry);  // behind the first bytes of the key
  entry.bytes = key.data();
  entry.key_bytes = static_cast<uint8_t>(key.size());
  page.SetValue(entry, parts->value, expires_at);
  return Took::kTaken;
}

Task<Result<std::optional<BlockRef>>> BlockFiller::Fill(Op& op, ScanPage& page,
                                                        const ScanRange& range,
                                                        std::span<const size_t> numbers,
                                                        std::vector<size_t>& gone) {
  BlockReads reads;
  for (const size_t number : numbers) {
    const ScanEntry& entry = page.entries[number];
    if (!WantsBlock(entry)) continue;
    const BlockRef block = BlockOf(entry);
    BOOST_OUTCOME_CO_TRYV(context_.blocks.CheckReaches(op, block));
    reads.Add(block, WantedBytes(entry, range));
  }
  BOOST_OUTCOME_CO_TRY(buffer, context_.links.Buffer(reads.buffer_bytes()));
  reads.AddTo(buffer.address());
  page.blocks.push_back(std::move(buffer));
  co_await context_.links.ExecuteAll(op, reads.batches());
  for (const Batch* batch : reads.batches()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  size_t next = 0;
  for (const size_t number : numbers) {
    ScanEntry& entry = page.entries[number];
    if (!WantsBlock(entry)) continue;
    const BlockRef& block = reads.block(next);
    const std::span<const std::byte> bytes = reads.bytes(next++);
    if (entry.kind == Kind::kLong) {
      const Took took = TakeLong(page, entry, range, block, bytes);
      if (took == Took::kNoLongKey) co_return std::optional(block);
      if (took == Took::kOutside) gone.push_back(number);
      continue;
    }
    std::optional<std::string_view> value = BlockReader::ValueIn(block, bytes);
    if (!value) {
      ++context_.counters.rereads;
      uint64_t expires_at = 0;
      Result<std::string> fresh = co_await getter_.Get(op, entry.key(), &expires_at);
      if (!fresh && fresh.error().code != Code::kNotFound) co_return fresh.error();
      if (!fresh) {
        gone.push_back(number);
        continue;
      }
      page.SetValue(entry, page.values.emplace_back(std::move(fresh.value())), expires_at);
      entry.expiry_at = expires_at != 0;
      continue;
    }
    page.SetValue(entry, *value, page.ExpiryOf(entry));
  }
  co_return std::optional<BlockRef>();
}

}  // namespace gossamer
