// Keys, fences and separators: byte strings in memcmp order.
//
// A key is any byte string of at most 250 B; 64-bit integers sort correctly as big-endian. The
// empty string is the least key, and so the low fence of the leftmost node. The high fence of the
// rightmost node is infinite.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "proto/leaf_geometry.h"
#include "proto/store_parameters.h"

namespace gossamer {

// std::string_view compares unsigned bytes, a prefix before its extensions: memcmp order.
using KeyView = std::string_view;

// The first 8 bytes as they are in memory, padded with zeros. Without a call: separators are short,
// and many.
inline uint64_t FirstBytes(KeyView key) {
  const char* const bytes = key.data();
  const size_t size = key.size();
  uint64_t word = 0;
  if (size >= sizeof word) {
    std::memcpy(&word, bytes, sizeof word);  // of known size: one load
  } else if (size >= sizeof(uint32_t)) {
    uint32_t first;
    uint32_t last;  // overlaps the first where there are fewer than 8 bytes
    std::memcpy(&first, bytes, sizeof first);
    std::memcpy(&last, bytes + size - sizeof last, sizeof last);
    word = first | uint64_t{last} << (8 * (size - sizeof last));
  } else if (size != 0) {
    const auto at = [bytes](size_t i) {
      return uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    };
    word = at(0) | at(size / 2) | at(size - 1);
  }
  return word;
}

// A mask for the first `count` of those bytes; for all of them if there are more.
constexpr uint64_t FirstBytesMask(size_t count) {
  return count >= sizeof(uint64_t) ? ~uint64_t{0} : (uint64_t{1} << (8 * count)) - 1;
}

// FirstBytes of the first `count` bytes of `key`, or of all if there are fewer. Without a branch
// for keys of 8 bytes and more.
inline uint64_t FirstBytesOf(KeyView key, size_t count) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (key.size() < kWord) return FirstBytes(key.substr(0, count));
  return FirstBytes(key.substr(0, kWord)) & FirstBytesMask(count);
}
// FirstBytes of what follows the first `count` bytes of `key`. Likewise. Requires: it has so many.
inline uint64_t FirstBytesBehind(KeyView key, size_t count) {
  constexpr size_t kWord = sizeof(uint64_t);
  assert(count <= key.size());
  const size_t left = key.size() - count;
  if (left >= kWord || left == 0 || key.size() < kWord) return FirstBytes(key.substr(count));
  return FirstBytes(key.substr(key.size() - kWord)) >> (8 * (kWord - left));
}

// A key with its own storage: inside if it has at most kInside bytes, as most separators have.
class Key {
 public:
  static constexpr size_t kInside = 32;

  Key() = default;
  // Requires: `key` has at most kMaxKeyBytes.
  explicit Key(KeyView key) {
    assert(key.size() <= kMaxKeyBytes);
    Fill({}, key);
  }
  Key(KeyView prefix, KeyView suffix) { Fill(prefix, suffix); }
  Key(const Key& other) : bytes_(other.bytes_), size_(other.size_) {
    if (is_outside()) CopyOutside();
  }
  Key(Key&& other) noexcept : bytes_(other.bytes_), size_(other.size_) { other.Forget(); }
  Key& operator=(const Key& other) {
    if (is_outside() || other.is_outside()) {
      Key copy(other);
      Swap(copy);
    } else {
      bytes_ = other.bytes_;
      size_ = other.size_;
    }
    return *this;
  }
  Key& operator=(Key&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Key() {
    if (is_outside()) [[unlikely]]
      delete[] outside();
  }
  // As `= Key(key)`, in place: copying a key just written stalls on store forwarding.
  void Assign(KeyView key) {
    if (is_outside() || key.size() > kInside) {
      *this = Key(key);
      return;
    }
    bytes_.fill(0);
    Fill({}, key);
  }

  KeyView view() const { return {is_outside() ? outside() : bytes_.data(), size_}; }
  size_t size() const { return size_; }
  operator KeyView() const { return view(); }  // NOLINT: a key is a view of itself

  // Without a call for those inside: what is behind them is zero.
  friend bool operator==(const Key& a, const Key& b) {
    if (a.size_ != b.size_) return false;
    return a.is_outside() ? a.view() == b.view() : a.bytes_ == b.bytes_;
  }

 private:
  bool is_outside() const { return size_ > kInside; }
  char* outside() const {
    char* at;
    std::memcpy(static_cast<void*>(&at), bytes_.data(), sizeof at);
    return at;
  }
  void set_outside(char* at) {
    std::memcpy(bytes_.data(), static_cast<const void*>(&at), sizeof at);
  }
  void CopyOutside() {
    auto* const at = new char[size_];
    std::memcpy(at, outside(), size_);
    set_outside(at);
  }
  void Forget() {
    bytes_.fill(0);
    size_ = 0;
  }
  void Swap(Key& other) {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
  }
  // Requires: all bytes are zero.
  void Fill(KeyView prefix, KeyView suffix) {
    const size_t size = prefix.size() + suffix.size();
    assert(size <= kMaxKeyBytes &&
           std::ranges::all_of(bytes_, [](char byte) { return byte == 0; }));
    size_ = static_cast<uint8_t>(size);
    if (const uint64_t word = FirstBytes(suffix); size <= sizeof word && prefix.empty()) {
      std::memcpy(bytes_.data(), &word, sizeof word);
      return;
    }
    char* to = bytes_.data();
    if (is_outside()) {
      to = new char[size];
      set_outside(to);
    }
    prefix.copy(to, prefix.size());
    suffix.copy(to + prefix.size(), suffix.size());
  }

  std::array<char, kInside> bytes_{};  // or, of a longer key, the pointer to its bytes
  uint8_t size_ = 0;
};

// The exclusive upper end of a node's range; infinite by default.
struct HighFence {
  Key key;
  bool infinite = true;

  static HighFence At(KeyView key) { return {Key(key), false}; }
  static HighFence At(KeyView prefix, KeyView suffix) { return {Key(prefix, suffix), false}; }
  // Whether `k` lies below the fence.
  bool Admits(KeyView k) const { return infinite || k < key.view(); }

  friend bool operator==(const HighFence& a, const HighFence& b) {
    return a.infinite == b.infinite && (a.infinite || a.key == b.key);
  }
};

// The length of the longest common prefix.
inline size_t CommonBytes(KeyView a, KeyView b) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t limit = std::min(a.size(), b.size());
  size_t common = 0;
  for (; common + kWord <= limit; common += kWord) {
    uint64_t left;
    uint64_t right;
    std::memcpy(&left, a.data() + common, kWord);
    std::memcpy(&right, b.data() + common, kWord);
    if (left != right) return common + static_cast<size_t>(std::countr_zero(left ^ right)) / 8;
  }
  while (common < limit && a[common] == b[common]) ++common;
  return common;
}

// How many bytes the keys of all `items` begin with in common: what follows tells them apart.
// key_of(item) is a KeyView.
// Requires: at least one.
template <typename Items, typename KeyOf>
size_t CommonBytesOfAll(const Items& items, KeyOf key_of) {
  assert(items.begin() != items.end());
  const KeyView first = key_of(*items.begin());
  size_t common = first.size();
  for (const auto& item : items) {
    if (common == 0) break;
    common = CommonBytes(first.substr(0, common), key_of(item));
  }
  return common;
}

// Whether a node from `low` to `high` may be: its high fence has few bytes behind what both share
// (LAYOUT.md).
inline bool IsShortFence(KeyView low, KeyView high) {
  return high.size() <= kMaxFenceBytes || high.size() - CommonBytes(low, high) <= kMaxFenceBytes;
}

// Returns the shortest s with left < s <= right. Requires: left < right.
inline KeyView Separator(KeyView left, KeyView right) {
  assert(left < right);
  return right.substr(0, CommonBytes(left, right) + 1);
}

// Returns a separator s with low < s <= first that has more in common with `first` than `low` has:
// the longest one that may be a high fence of a node from `low` on. Requires: low < first.
inline KeyView SeparatorBelow(KeyView low, KeyView first) {
  assert(low < first);
  return first.substr(0, CommonBytes(low, first) + kMaxFenceBytes);
}

// The first 8 bytes as a big-endian integer, padded with zeros: orders keys that differ there.
inline uint64_t KeyPrefix(KeyView key) { return __builtin_bswap64(FirstBytes(key)); }
// The same of what follows the first `count` bytes. Requires: `key` has so many.
inline uint64_t KeyPrefixBehind(KeyView key, size_t count) {
  assert(count <= key.size());
  return __builtin_bswap64(FirstBytesBehind(key, count));
}

// A key with its KeyPrefix: compares without a call where the first 8 bytes decide.
struct PrefixedKey {
  uint64_t prefix;
  KeyView key;

  explicit PrefixedKey(KeyView view) : prefix(KeyPrefix(view)), key(view) {}
  // `first_bytes`: FirstBytes(view).
  PrefixedKey(KeyView view, uint64_t first_bytes)
      : prefix(__builtin_bswap64(first_bytes)), key(view) {}

  friend bool operator<(const PrefixedKey& a, const PrefixedKey& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    constexpr size_t kWord = sizeof(uint64_t);
    // Of equal prefixes of short keys, the padding tells nothing: a prefix comes before its
    // extensions.
    if (a.key.size() <= kWord && b.key.size() <= kWord) return a.key.size() < b.key.size();
    return a.key < b.key;
  }
};

// Whether a and b are equal, mostly without a call: keys that are alike at first differ in their
// last bytes.
inline bool AreEqual(KeyView a, KeyView b) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (a.size() != b.size()) return false;
  if (a.size() < kWord) return FirstBytes(a) == FirstBytes(b);
  const size_t before = a.size() - kWord;
  const bool is_end_equal = FirstBytes(a.substr(before)) == FirstBytes(b.substr(before));
  return is_end_equal && (before == 0 || a.substr(0, before) == b.substr(0, before));
}

// Whether `key` starts with `prefix`, without a call for prefixes of up to 16 bytes.
inline bool StartsWith(KeyView key, KeyView prefix) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t size = prefix.size();
  if (key.size() < size) return false;
  if (size < kWord) return FirstBytesOf(key, size) == FirstBytes(prefix);
  const size_t last = size - kWord;
  if (FirstBytes(key.substr(0, kWord)) != FirstBytes(prefix.substr(0, kWord)) ||
      FirstBytes(key.substr(last, kWord)) != FirstBytes(prefix.substr(last, kWord))) {
    return false;
  }
  return size <= 2 * kWord || key.starts_with(prefix);
}

namespace internal {

// The finaliser of MurmurHash3 (public domain), a bijection.
constexpr uint64_t MixHash(uint64_t hash, uint64_t word) {
  hash ^= word;
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdu;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53u;
  hash ^= hash >> 33;
  return hash;
}
constexpr uint64_t HashSeed(size_t key_bytes) { return 0x9e3779b97f4a7c15u ^ key_bytes; }

}  // namespace internal

// A stable 64-bit hash. Part of the format, because it places keys in groups. Each word is mixed in
// by a bijection, so keys of 8 bytes never collide.
inline uint64_t KeyHash(KeyView key) {
  uint64_t hash = internal::HashSeed(key.size());
  const char* at = key.data();
  size_t left = key.size();
  for (; left > sizeof(uint64_t); at += sizeof(uint64_t), left -= sizeof(uint64_t)) {
    hash = internal::MixHash(hash, FirstBytes({at, sizeof(uint64_t)}));
  }
  return left == 0 ? hash : internal::MixHash(hash, FirstBytes({at, left}));
}

// The hash of the key made of both. Requires: it has at most kMaxKeyBytes.
inline uint64_t KeyHash(KeyView prefix, KeyView suffix) {
  if (prefix.empty() || suffix.empty()) return KeyHash(prefix.empty() ? suffix : prefix);
  const size_t size = prefix.size() + suffix.size();
  if (size <= sizeof(uint64_t)) {  // without a copy, which the loads of KeyHash would wait for
    const uint64_t word = FirstBytes(prefix) | FirstBytes(suffix) << (8 * prefix.size() & 63);
    return internal::MixHash(internal::HashSeed(size), word);
  }
  assert(size <= kMaxKeyBytes);
  std::array<char, kMaxKeyBytes> bytes;
  prefix.copy(bytes.data(), prefix.size());
  suffix.copy(bytes.data() + prefix.size(), suffix.size());
  return KeyHash({bytes.data(), size});
}

}  // namespace gossamer
