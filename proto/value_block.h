// Value blocks: values longer than `inline_value_bytes`, outside the leaves.
//
// A block is {crc32c, length, value}. The CRC is seeded with the pointer and its generation, and
// covers length and value. The leaf entry holds pointer, length and the same CRC, so a reader
// accepts only the very block that the entry refers to, whole.
//
// The block of a long key has the key in front of the value. The key has a checksum of its own, so
// that it can be read without the value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "proto/crc32c.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"
#include "proto/store_parameters.h"

namespace gossamer {

struct BlockHeader {
  uint32_t checksum;
  uint32_t length;  // of the content, bytes: the value, perhaps behind a long key
};
static_assert(sizeof(BlockHeader) == 8 && std::is_trivially_copyable_v<BlockHeader>);

// What a leaf entry stores in place of the value.
struct BlockRef {
  uint64_t pointer;  // BlockPtr
  uint32_t length;
  uint32_t checksum;

  BlockPtr ptr() const { return BlockPtr::FromWord(pointer); }
};
static_assert(sizeof(BlockRef) == 16 && std::is_trivially_copyable_v<BlockRef>);

// What is in front of the value in the block of a long key: a checksum of the rest of this, and the
// key.
struct LongKeyHeader {
  uint32_t checksum;
  uint8_t key_bytes;
};
inline constexpr uint32_t kLongKeyHeaderBytes = 5;
static_assert(offsetof(LongKeyHeader, key_bytes) + 1 == kLongKeyHeaderBytes);
inline constexpr uint32_t kMaxContentBytes = kLongKeyHeaderBytes + kMaxKeyBytes + kMaxValueBytes;

// What a leaf entry stores for a long key.
struct LongRef {
  BlockRef block;
  uint64_t key_hash;
};
static_assert(sizeof(LongRef) == 24 && std::is_trivially_copyable_v<LongRef>);

// Bytes to READ for a content of `length`, at most kMaxContentBytes.
constexpr uint32_t BlockReadBytes(uint32_t length) {
  return static_cast<uint32_t>(sizeof(BlockHeader)) + length;
}

// The size class of a block for a content of `length`: multiples of 64, four steps between powers
// of two.
constexpr uint32_t BlockBytes(uint32_t length) {
  const uint32_t needed = BlockReadBytes(length);
  if (needed <= 4 * kBlockAlignment) {
    return (needed + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  const uint32_t step = std::bit_ceil(needed) / 8;
  return (needed + step - 1) / step * step;
}
static_assert(BlockBytes(0) == 64 && BlockBytes(57) == 128 && BlockBytes(300) == 320 &&
              BlockBytes(kMaxContentBytes) == (5u << 20) / 4);

// Writes header and checksum of a block whose content of `length` is in `out` behind the header.
inline BlockRef SealBlock(BlockPtr pointer, uint32_t length, std::byte* out) {
  std::memcpy(out + offsetof(BlockHeader, length), &length, sizeof length);
  const uint32_t checksum = Crc32c(BlockSeed(pointer.word()),
                                   {out + offsetof(BlockHeader, length), sizeof length + length});
  std::memcpy(out, &checksum, sizeof checksum);
  return {pointer.word(), length, checksum};
}
// Writes the block for `value` to `out` (BlockReadBytes bytes). Returns what the entry stores.
inline BlockRef EncodeBlock(BlockPtr pointer, std::string_view value, std::byte* out) {
  value.copy(reinterpret_cast<char*>(out + sizeof(BlockHeader)), value.size());
  return SealBlock(pointer, static_cast<uint32_t>(value.size()), out);
}

// The content's length of the block of a long key.
constexpr uint32_t LongContentBytes(KeyView key, std::string_view value) {
  return kLongKeyHeaderBytes + static_cast<uint32_t>(key.size() + value.size());
}
inline uint32_t LongKeyChecksum(uint64_t pointer, std::span<const std::byte> content,
                                size_t key_bytes) {
  constexpr size_t kCovered = offsetof(LongKeyHeader, key_bytes);
  return Crc32c(BlockSeed(pointer),
                content.subspan(kCovered, kLongKeyHeaderBytes - kCovered + key_bytes));
}
// Writes the block for a long key and its value to `out` (BlockReadBytes(LongContentBytes) bytes).
// Returns what the entry stores.
inline LongRef EncodeLongBlock(BlockPtr pointer, KeyView key, std::string_view value,
                               std::byte* out) {
  std::byte* const content = out + sizeof(BlockHeader);
  const uint32_t length = LongContentBytes(key, value);
  content[offsetof(LongKeyHeader, key_bytes)] = static_cast<std::byte>(key.size());
  auto* const text = reinterpret_cast<char*>(content + kLongKeyHeaderBytes);
  key.copy(text, key.size());
  value.copy(text + key.size(), value.size());
  const uint32_t checksum = LongKeyChecksum(pointer.word(), {content, length}, key.size());
  std::memcpy(content, &checksum, sizeof checksum);
  return {SealBlock(pointer, length, out), KeyHash(key)};
}

// Bytes to READ for the key of a block of a long key.
constexpr uint32_t LongKeyReadBytes(const BlockRef& ref) {
  return BlockReadBytes(std::min(ref.length, kLongKeyHeaderBytes + kMaxKeyBytes));
}
// Returns the key in `bytes`, the first LongKeyReadBytes of a block, or nullopt if they are not
// those of the block that `ref` refers to.
inline std::optional<KeyView> DecodeLongKey(const BlockRef& ref, std::span<const std::byte> bytes) {
  BlockHeader header;
  LongKeyHeader key;
  if (ref.length < kLongKeyHeaderBytes || bytes.size() < LongKeyReadBytes(ref)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::span<const std::byte> content = bytes.subspan(sizeof header);
  std::memcpy(static_cast<void*>(&key), content.data(), kLongKeyHeaderBytes);
  const bool is_it = header.length == ref.length && header.checksum == ref.checksum &&
                     size_t{kLongKeyHeaderBytes} + key.key_bytes <= content.size() &&
                     key.key_bytes <= kMaxKeyBytes &&
                     LongKeyChecksum(ref.pointer, content, key.key_bytes) == key.checksum;
  if (!is_it) return std::nullopt;
  return KeyView(reinterpret_cast<const char*>(content.data() + kLongKeyHeaderBytes),
                 key.key_bytes);
}

// A long key and its value.
struct LongContent {
  KeyView key;
  std::string_view value;
};
// Splits the content of a block of a long key, as DecodeBlock has accepted it. nullopt: it is none.
inline std::optional<LongContent> SplitLongContent(std::string_view content) {
  if (content.size() < kLongKeyHeaderBytes) return std::nullopt;
  const size_t key_bytes = static_cast<uint8_t>(content[offsetof(LongKeyHeader, key_bytes)]);
  content.remove_prefix(kLongKeyHeaderBytes);
  if (key_bytes > content.size() || key_bytes > kMaxKeyBytes) return std::nullopt;
  return LongContent{content.substr(0, key_bytes), content.substr(key_bytes)};
}

// Returns the content in `bytes` (BlockReadBytes(ref.length) of them), or nullopt if they are not
// the block that `ref` refers to: torn, or memory used again. The caller then reads the entry
// again.
inline std::optional<std::string_view> DecodeBlock(const BlockRef& ref,
                                                   std::span<const std::byte> bytes) {
  BlockHeader header;
  if (ref.length > kMaxContentBytes || bytes.size() != BlockReadBytes(ref.length))
    return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.length != ref.length || header.checksum != ref.checksum) return std::nullopt;
  const std::span<const std::byte> covered = bytes.subspan(offsetof(BlockHeader, length));
  if (Crc32c(BlockSeed(ref.pointer), covered) != ref.checksum) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data() + sizeof header), ref.length);
}

}  // namespace gossamer
