#include "compute/tree/scan_blocks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compute/session/server_batches.h"

namespace gossamer {
namespace {

using Kind = ScanEntry::Kind;

constexpr size_t kMaxBlocks = 32;
constexpr size_t kMaxBlockBytes = BufferPool::kMaxBytes;

size_t PaddedBytes(const BlockRef& block) { return (BlockReadBytes(block.length) + 63) / 64 * 64; }

}  // namespace

size_t BlockFiller::CountTogether(const ScanPage& page, std::span<const size_t> numbers) {
  size_t count = 0;
  size_t total = 0;
  for (const size_t number : numbers.first(std::min(numbers.size(), kMaxBlocks))) {
    total += PaddedBytes(BlockOf(page.entries[number]));
    if (count != 0 && total > kMaxBlockBytes) break;
    ++count;
  }
  return count;
}

BlockFiller::Took BlockFiller::TakeLong(ScanPage& page, ScanEntry& entry, const ScanRange& range,
                                        std::string_view content) {
  const std::optional<LongContent> parts = SplitLongContent(content);
  if (!parts) return Took::kNoLongKey;
  const ScanPosition& position = page.positions[entry.length];
  const KeyView key = parts->key;
  if (key < StartOf(range, position) || !IsBeforeEnd(key, range, position)) return Took::kOutside;
  entry.bytes = key.data();
  entry.key_bytes = static_cast<uint8_t>(key.size());
  page.SetValue(entry, range.keys_only ? std::string_view() : parts->value);
  return Took::kTaken;
}

Task<Result<bool>> BlockFiller::Fill(Op& op, ScanPage& page, const ScanRange& range,
                                     std::span<const size_t> numbers, std::vector<size_t>& gone) {
  size_t total = 0;
  for (const size_t number : numbers) {
    const ScanEntry& entry = page.entries[number];
    if (WantsBlock(entry)) total += PaddedBytes(BlockOf(entry));
  }
  Result<BufferLease> lease = context_.links.Buffer(total);
  if (!lease) co_return lease.error();
  page.blocks.push_back(std::move(lease.value()));
  const LocalAddress buffer = page.blocks.back().address();
  ServerBatches batches;
  size_t offset = 0;
  for (const size_t number : numbers) {
    if (!WantsBlock(page.entries[number])) continue;
    const BlockRef block = BlockOf(page.entries[number]);
    BOOST_OUTCOME_CO_TRYV(co_await context_.blocks.ConnectFor(block));
    batches.For(block.ptr().server(), 1)
        .Add(Verb::Read(block.ptr().offset(), BlockReadBytes(block.length), buffer + offset));
    offset += PaddedBytes(block);
  }
  co_await context_.links.ExecuteAll(op, batches.used());
  for (const Batch* batch : batches.used()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  offset = 0;
  for (const size_t number : numbers) {
    ScanEntry& entry = page.entries[number];
    if (!WantsBlock(entry)) continue;
    const BlockRef block = BlockOf(entry);
    std::optional<std::string_view> value =
        BlockReader::ValueIn(block, {buffer.data + offset, BlockReadBytes(block.length)});
    offset += PaddedBytes(block);
    if (entry.kind == Kind::kLong) {
      const Took took = value ? TakeLong(page, entry, range, *value) : Took::kNoLongKey;
      if (took == Took::kNoLongKey) co_return false;
      if (took == Took::kOutside) gone.push_back(number);
      continue;
    }
    if (!value) {
      ++context_.counters.rereads;
      Result<std::string> fresh = co_await getter_.Get(op, entry.key());
      if (!fresh && fresh.error().code != Code::kNotFound) co_return fresh.error();
      if (!fresh) {
        gone.push_back(number);
        continue;
      }
      value = page.values.emplace_back(std::move(fresh.value()));
    }
    page.SetValue(entry, *value);
  }
  co_return true;
}

}  // namespace gossamer
