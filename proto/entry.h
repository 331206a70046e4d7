// Entry: a key and what a leaf stores for it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/key.h"
#include "proto/region.h"
#include "proto/value_block.h"

namespace gossamer {

// A key and what the leaf stores for it: the value itself, or the 16 bytes of a BlockRef.
struct Entry {
  KeyView key;
  std::string_view stored;
  bool is_block = false;

  BlockRef block() const {
    BlockRef ref;
    std::memcpy(&ref, stored.data(), sizeof ref);
    return ref;
  }
};

namespace internal {

inline constexpr uint8_t kVariable = 0xff;   // in a header: each entry states its own
inline constexpr uint8_t kBlockCode = 0xfe;  // in place of a value's length: a BlockRef
static_assert(kMaxKeyBytes < kVariable && kMaxInlineValueBytes < kBlockCode);

inline uint64_t LoadWord(std::string_view bytes) {
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

inline uint8_t ValueCode(const Entry& entry) {
  return entry.is_block ? kBlockCode : static_cast<uint8_t>(entry.stored.size());
}
constexpr uint32_t StoredBytes(uint8_t value_code) {
  return value_code == kBlockCode ? sizeof(BlockRef) : value_code;
}

}  // namespace internal

}  // namespace gossamer
