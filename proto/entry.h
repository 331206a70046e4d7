// Entry: a key and what a leaf stores for it.
#pragma once

#include <bit>
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
static_assert(std::endian::native == std::endian::little);
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
  // From then on the key counts as absent: milliseconds since 1970, by the store's clock, at most
  // kLatestExpiry; 0: never. With kComposite beside it, if that is set.
  uint64_t expires_at = 0;

  // Whether the leaf stores `expires_at`.
  bool expires() const { return expires_at != 0; }
  // Whether that says more than that the value is composite.
  bool has_time() const;
  bool HasExpiredAt(uint64_t now_ms) const;
  uint32_t StoredAndExpiryBytes() const {
    return static_cast<uint32_t>(stored.size()) + (expires() ? kExpiryBytes : 0);
  }
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

// The highest bit of what a leaf stores of the time: the value is a composite one, such as a hash
// of a Redis client. To the store it is bytes.
inline constexpr uint64_t kComposite = uint64_t{1} << (8 * kExpiryBytes - 1);
inline constexpr uint64_t kLatestExpiry = kComposite - 1;
// Whether what `expires_at`, with or without kComposite, says has come.
constexpr bool HasExpired(uint64_t expires_at, uint64_t now_ms) {
  const uint64_t time = expires_at & kLatestExpiry;
  return time != 0 && time <= now_ms;
}
inline bool Entry::has_time() const { return (expires_at & kLatestExpiry) != 0; }
inline bool Entry::HasExpiredAt(uint64_t now_ms) const { return HasExpired(expires_at, now_ms); }

namespace internal {

inline constexpr uint8_t kVariable = 0xff;   // in a header: each entry states its own
inline constexpr uint8_t kBlockCode = 0xfe;  // in place of a value's length: a BlockRef
inline constexpr uint8_t kLongCode = 0xfd;   // in place of a value's length: a LongRef
// The same of entries that expire, and the length of such a value is behind the first one.
inline constexpr uint8_t kExpiringBlockCode = 0xfc;
inline constexpr uint8_t kExpiringLongCode = 0xfb;
inline constexpr uint8_t kExpiringCode = 0x80;
static_assert(kMaxKeyBytes < kVariable && kMaxInlineValueBytes < kExpiringCode &&
              kExpiringCode + kMaxInlineValueBytes < kExpiringLongCode);

inline uint64_t LoadWord(std::string_view bytes) {
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

inline uint8_t ValueCode(const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kBlock: return entry.expires() ? kExpiringBlockCode : kBlockCode;
    case Entry::Kind::kLong: return entry.expires() ? kExpiringLongCode : kLongCode;
    case Entry::Kind::kInline: break;
  }
  return static_cast<uint8_t>(entry.stored.size() + (entry.expires() ? kExpiringCode : 0));
}
// Whether entries with that code expire. Not for kVariable.
constexpr bool Expires(uint8_t value_code) {
  return value_code >= kExpiringCode && value_code < kLongCode;
}
constexpr Entry::Kind KindOf(uint8_t value_code) {
  if (value_code < kExpiringLongCode) return Entry::Kind::kInline;
  return value_code == kBlockCode || value_code == kExpiringBlockCode ? Entry::Kind::kBlock
                                                                      : Entry::Kind::kLong;
}
constexpr uint32_t StoredBytes(uint8_t value_code) {
  if (value_code < kExpiringCode) return value_code;
  switch (KindOf(value_code)) {
    case Entry::Kind::kInline: return value_code - uint32_t{kExpiringCode};
    case Entry::Kind::kBlock: return sizeof(BlockRef);
    case Entry::Kind::kLong: break;
  }
  return sizeof(LongRef);
}
// Of what is stored, and of the time behind it.
constexpr uint32_t StoredAndExpiryBytes(uint8_t value_code) {
  return StoredBytes(value_code) + (Expires(value_code) ? kExpiryBytes : 0);
}
inline uint64_t LoadExpiry(const char* from) {
  uint64_t time = 0;
  std::memcpy(&time, from, kExpiryBytes);
  return time;
}
inline void StoreExpiry(uint64_t time, char* to) { std::memcpy(to, &time, kExpiryBytes); }

}  // namespace internal

}  // namespace gossamer
