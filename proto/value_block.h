// Value blocks: values longer than `inline_value_bytes`, outside the leaves.
//
// A block is {crc32c, length, value}. The CRC is seeded with the pointer and its generation, and
// covers length and value. The leaf entry holds pointer, length and the same CRC, so a reader
// accepts only the very block that the entry refers to, whole.
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
#include "proto/remote_ptr.h"
#include "proto/store_parameters.h"

namespace gossamer {

struct BlockHeader {
  uint32_t checksum;
  uint32_t length;  // of the value, bytes
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

// Bytes to READ for a value of `length`, at most kMaxValueBytes.
constexpr uint32_t BlockReadBytes(uint32_t length) {
  return static_cast<uint32_t>(sizeof(BlockHeader)) + length;
}

// The size class of a block for a value of `length`: multiples of 64, four steps between powers of two.
constexpr uint32_t BlockBytes(uint32_t length) {
  const uint32_t needed = BlockReadBytes(length);
  if (needed <= 4 * kBlockAlignment) {
    return (needed + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  }
  const uint32_t step = std::bit_ceil(needed) / 8;
  return (needed + step - 1) / step * step;
}
static_assert(BlockBytes(0) == 64 && BlockBytes(57) == 128 && BlockBytes(300) == 320 &&
              BlockBytes(kMaxValueBytes) == (5u << 20) / 4);

// Writes the block for `value` to `out` (BlockReadBytes bytes). Returns what the entry stores.
inline BlockRef EncodeBlock(BlockPtr pointer, std::string_view value, std::byte* out) {
  const auto length = static_cast<uint32_t>(value.size());
  std::memcpy(out + offsetof(BlockHeader, length), &length, sizeof length);
  value.copy(reinterpret_cast<char*>(out + sizeof(BlockHeader)), value.size());
  const uint32_t checksum = Crc32c(BlockSeed(pointer.word()), {out + offsetof(BlockHeader, length),
                                                               sizeof length + value.size()});
  std::memcpy(out, &checksum, sizeof checksum);
  return {pointer.word(), length, checksum};
}

// Returns the value in `bytes` (BlockReadBytes(ref.length) of them), or nullopt if they are not the
// block that `ref` refers to: torn, or memory used again. The caller then reads the entry again.
inline std::optional<std::string_view> DecodeBlock(const BlockRef& ref,
                                                   std::span<const std::byte> bytes) {
  BlockHeader header;
  if (ref.length > kMaxValueBytes || bytes.size() != BlockReadBytes(ref.length))
    return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.length != ref.length || header.checksum != ref.checksum) return std::nullopt;
  const std::span<const std::byte> covered = bytes.subspan(offsetof(BlockHeader, length));
  if (Crc32c(BlockSeed(ref.pointer), covered) != ref.checksum) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data() + sizeof header), ref.length);
}

}  // namespace gossamer
