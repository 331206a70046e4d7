// The keys and values of benchmark records.
//
// A record has an id: 0, 1, 2, ... in insertion order. Its key has one of these forms, in each of
// which the keys of ascending ids are in random order, as with YCSB's hashed inserts:
//
//   numbers   The *mixed* id. Mixing is a bijection: no two records share a key. All keys have
//             key_bytes. 4 to 8 bytes without a prefix are the mixed id of 8 * key_bytes bits,
//             big-endian. Others are the prefix, "user" if there is none, and the mixed id in
//             decimal, padded with zeros: n digits hold floor(n * log2(10)) bits, 63 at most.
//   ycsb      The prefix, "usertable/user" and a hash of the id in decimal, as go-ycsb names keys
//             in Redis: 19 digits, and from record 1,376,256 on sometimes fewer. Some consecutive
//             ids have neighbouring keys. None of the first 200,000,000 records share a key.
//   lines     The prefix and a line of a file (key_list.h).
//
// A value is a stream of pseudo-random bytes from the record's id and the seed: a record has the
// same value in every run with that seed.
//
// Thread-safety: immutable.
// Cost: making a key or a value does not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/random.h"
#include "compute/bench/key_list.h"
#include "compute/bench/zipfian.h"
#include "proto/store_parameters.h"

namespace gossamer::bench {

inline constexpr uint32_t kMinBenchKeyBytes = 4;
// The longest that a store takes. The codec itself has no bound.
inline constexpr uint32_t kMaxBenchKeyBytes = kMaxKeyBytes;
// The least that a prefix leaves for a number: digits for 67,108,864 records.
inline constexpr uint32_t kMinNumberBytes = 8;

// A bijection on numbers of `bits` bits: shifts and odd multipliers, each of which is invertible.
constexpr uint64_t MixBits(uint64_t id, uint32_t bits) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint32_t half = (bits + 1) / 2;
  uint64_t mixed = (id + 0x9e3779b97f4a7c15) & mask;
  for (int round = 0; round < 2; ++round) {
    mixed ^= mixed >> half;
    mixed = (mixed * 0xd6e8feb86659fd93) & mask;
  }
  return mixed ^ (mixed >> half);
}

// The number in a key of go-ycsb: FNV-1a of the id's bytes, the highest first, without its sign.
constexpr uint64_t YcsbNumber(uint64_t id) {
  const uint64_t hash = FnvHash(__builtin_bswap64(id));
  return hash >> 63 != 0 ? -hash : hash;
}

// Room for a key that a store takes, and for the word in which a short one is written.
using KeyBuffer = std::array<char, std::max<uint32_t>(kMaxBenchKeyBytes, sizeof(uint64_t))>;

enum class KeyForm : uint8_t { kNumbers, kYcsb, kLines };

constexpr std::string_view KeyFormName(KeyForm form) {
  switch (form) {
    case KeyForm::kNumbers: return "numbers";
    case KeyForm::kYcsb: return "ycsb";
    case KeyForm::kLines: return "lines";
  }
  return "unknown";
}

// How records get their keys.
struct KeyChoice {
  KeyForm form = KeyForm::kNumbers;
  uint32_t key_bytes = 8;  // of kNumbers
  std::string prefix = {};
  std::shared_ptr<const KeyList> list = nullptr;  // of kLines
};

class KeyCodec {
 public:
  // Numbers without a prefix. Requires: kMinBenchKeyBytes <= key_bytes.
  explicit KeyCodec(uint32_t key_bytes) : KeyCodec(KeyChoice{.key_bytes = key_bytes}) {
    assert(key_bytes >= kMinBenchKeyBytes);
  }
  // Requires: `key_bytes` as above, and room for kMinNumberBytes behind a prefix; a list for
  // kLines.
  explicit KeyCodec(KeyChoice choice)
      : form_(choice.form),
        key_bytes_(choice.key_bytes),
        head_(std::move(choice.prefix)),
        list_(std::move(choice.list)) {
    assert(form_ != KeyForm::kLines || list_ != nullptr);
    switch (form_) {
      case KeyForm::kNumbers:
        if (head_.empty() && key_bytes_ > sizeof(uint64_t)) head_ = "user";
        bits_ = head_.empty() ? key_bytes_ * 8 : DecimalBits(key_bytes_ - HeadBytes());
        break;
      case KeyForm::kYcsb:
        head_ += "usertable/user";
        key_bytes_ = HeadBytes() + kMostDigits;
        break;
      case KeyForm::kLines: key_bytes_ = HeadBytes() + list_->longest(); break;
    }
  }

  KeyForm form() const { return form_; }
  // Of the longest key. Only numbers all have that length.
  uint32_t max_key_bytes() const { return key_bytes_; }
  // Of numbers: ids below 2^bits have distinct keys.
  uint32_t bits() const { return bits_; }
  bool HasKeysFor(uint64_t records) const {
    if (form_ == KeyForm::kLines) return records <= list_->size();
    return bits_ == 64 || records <= (uint64_t{1} << bits_);
  }
  const KeyList& list() const { return *list_; }

  // Writes a record's key to `buffer`. Requires: room for max_key_bytes(), and for 8 bytes; a list
  // has the id.
  std::string_view Encode(uint64_t id, std::span<char> buffer) const {
    assert(buffer.size() >= std::max<size_t>(max_key_bytes(), sizeof(uint64_t)));
    char* const to = buffer.data();
    if (form_ == KeyForm::kNumbers) {
      EncodeNumber(MixBits(id, bits_), to);
      return {to, key_bytes_};
    }
    std::memcpy(to, head_.data(), head_.size());
    char* const behind = to + head_.size();
    if (form_ == KeyForm::kYcsb) {
      const char* const end = std::to_chars(behind, behind + kMostDigits, YcsbNumber(id)).ptr;
      return {to, static_cast<size_t>(end - to)};
    }
    const std::string_view line = list_->line(id);
    std::memcpy(behind, line.data(), line.size());
    return {to, head_.size() + line.size()};
  }

 private:
  static constexpr uint32_t kMostDigits = 19;  // of 63 bits

  static constexpr uint32_t DecimalBits(uint32_t digits) {
    uint64_t power = 1;
    for (uint32_t i = 0; i < std::min(digits, kMostDigits); ++i) power *= 10;
    return std::min(static_cast<uint32_t>(std::bit_width(power)) - 1, 63u);
  }

  void EncodeNumber(uint64_t mixed, char* to) const {
    if (head_.empty()) {
      // One store: a load of the key as a word is forwarded from it.
      const uint64_t word = __builtin_bswap64(mixed << (64 - bits_));
      std::memcpy(to, &word, sizeof word);
      return;
    }
    std::memcpy(to, head_.data(), head_.size());
    uint32_t at = key_bytes_;
    for (; mixed != 0; mixed /= 10) to[--at] = static_cast<char>('0' + mixed % 10);
    std::memset(to + head_.size(), '0', at - head_.size());
  }

  uint32_t HeadBytes() const { return static_cast<uint32_t>(head_.size()); }

  KeyForm form_;
  uint32_t key_bytes_;
  uint32_t bits_ = 64;
  std::string head_;  // what all keys begin with
  std::shared_ptr<const KeyList> list_;
};

// Fills `value` with the bytes of a record. Only its first word is random, and each further one
// differs from the one before by a constant: the time of a benchmark is to be that of what it
// measures.
inline void FillValue(uint64_t id, uint64_t seed, std::span<char> value) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t word = SplitMix64(SplitMix64::Mix(seed) ^ id).Next();
  for (; value.size() >= sizeof word; value = value.subspan(sizeof word), word += kStep) {
    std::memcpy(value.data(), &word, sizeof word);  // of known size: one store
  }
  if (!value.empty()) std::memcpy(value.data(), &word, value.size());
}

}  // namespace gossamer::bench
