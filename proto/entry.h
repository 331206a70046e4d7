// Entry: a key and what a leaf stores for it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/key.h"
#include "proto/leaf_geometry.h"
#include "proto/region.h"
#include "proto/value_block.h"

namespace gossamer {

// Of a long key, a leaf stores so many bytes behind the prefix.
inline constexpr uint32_t kLongHeadBytes = 16;
static_assert(kBlockRefBytes == sizeof(BlockRef) &&
              kLongEntryBytes == kLongHeadBytes + sizeof(LongRef));

// A key and what the leaf stores for it.
struct Entry {
  enum class Kind : uint8_t {
    kInline,  // the value itself
    kBlock,   // a BlockRef: the value is in a block
    kLong,  // a LongRef: key and value are in a block, and of the key the leaf has the first bytes
  };

  KeyView key;
  std::string_view stored;
  Kind kind = Kind::kInline;

  bool has_block() const { return kind != Kind::kInline; }
  bool is_long() const { return kind == Kind::kLong; }
  // Requires: has_block().
  BlockRef block() const {
    static_assert(offsetof(LongRef, block) == 0);
    assert(has_block());
    BlockRef ref;
    std::memcpy(&ref, stored.data(), sizeof ref);
    return ref;
  }
  // Requires: is_long().
  LongRef long_ref() const {
    assert(is_long());
    LongRef ref;
    std::memcpy(&ref, stored.data(), sizeof ref);
    return ref;
  }
  // KeyHash of the key, also if a long one is not known whole.
  uint64_t key_hash() const { return is_long() ? long_ref().key_hash : KeyHash(key); }
  // What a unit stores of the key, whose first `prefix_bytes` are the prefix.
  KeyView StoredKey(size_t prefix_bytes) const {
    return key.substr(prefix_bytes, is_long() ? kLongHeadBytes : KeyView::npos);
  }
};

namespace internal {

inline constexpr uint8_t kVariable = 0xff;   // in a header: each entry states its own
inline constexpr uint8_t kBlockCode = 0xfe;  // in place of a value's length: a BlockRef
inline constexpr uint8_t kLongCode = 0xfd;   // in place of a value's length: a LongRef
static_assert(kMaxKeyBytes < kVariable && kMaxInlineValueBytes < kLongCode);

inline uint64_t LoadWord(std::string_view bytes) {
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

inline uint8_t ValueCode(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kBlock: return kBlockCode;
    case Entry::Kind::kLong: return kLongCode;
    case Entry::Kind::kInline: break;
  }
  return static_cast<uint8_t>(entry.stored.size());
}
constexpr uint32_t StoredBytes(uint8_t value_code) {
  if (value_code < kLongCode) return value_code;
  return value_code == kBlockCode ? sizeof(BlockRef) : sizeof(LongRef);
}
constexpr Entry::Kind KindOf(uint8_t value_code) {
  if (value_code < kLongCode) return Entry::Kind::kInline;
  return value_code == kBlockCode ? Entry::Kind::kBlock : Entry::Kind::kLong;
}

}  // namespace internal

}  // namespace gossamer
