// Expiry: when a key expires. From then on it counts as absent. And whether its value is a composite
// one, which is kept beside the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gossamer {

// A time is in milliseconds since 1970, by the store's clock: that of memory server 0, which is
// read when the store begins and does not jump afterwards (docs/operations.md).
class Expiry {
 public:
  using Milliseconds = std::chrono::milliseconds;
  // The last time there is, in the year 6429. Later ones count as this one.
  static constexpr uint64_t kLatestMs = (uint64_t{1} << 47) - 1;

  constexpr Expiry() = default;
  static constexpr Expiry Never() { return {}; }
  // As the key has it already. Of a key that is not there: never. The value is no composite one.
  static constexpr Expiry Keep() { return Expiry(kKeep); }
  // A time that has passed already makes the key absent at once.
  static constexpr Expiry At(uint64_t ms) { return Expiry(std::clamp<uint64_t>(ms, 1, kLatestMs)); }
  // So long after the write.
  static constexpr Expiry After(Milliseconds time) {
    return Expiry(
        kRelative |
        std::min<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(time.count(), 0)), kLatestMs));
  }

  // The same time, of a value whose bytes are a hash or a set of Redis clients (docs/redis.md).
  // Others read these bytes, and overwrite the value as any other. Not of Keep.
  constexpr Expiry OfComposite() const { return Expiry(raw_ | kComposite); }
  constexpr Expiry OfPlain() const { return Expiry(raw_ & ~kComposite); }  // likewise

  constexpr bool is_never() const { return (raw_ & ~kComposite) == 0; }
  constexpr bool keeps() const { return raw_ == kKeep; }
  constexpr bool is_composite() const { return raw_ != kKeep && (raw_ & kComposite) != 0; }
  // Of At; 0: never. Requires (unchecked): neither `keeps` nor of After.
  constexpr uint64_t at_ms() const { return raw_ & kLatestMs; }

  // For the store: what a leaf stores, 0: nothing.
  static constexpr Expiry FromStored(uint64_t stored) { return Expiry(stored); }
  constexpr uint64_t stored() const { return raw_; }  // requires as at_ms
  constexpr bool is_stored() const { return raw_ != 0; }
  // What is stored by a write at `now_ms` to a key of which `old` was stored.
  template <typename NowMs>
  constexpr uint64_t Resolve(NowMs&& now_ms, uint64_t old) const {
    if (raw_ == kKeep) return old & kLatestMs;
    if ((raw_ & kRelative) == 0) return raw_;
    return std::min<uint64_t>(now_ms() + (raw_ & kLatestMs), kLatestMs) | (raw_ & kComposite);
  }

  friend constexpr bool operator==(Expiry, Expiry) = default;

 private:
  static constexpr uint64_t kComposite = kLatestMs + 1;
  static constexpr uint64_t kRelative = uint64_t{1} << 62;
  static constexpr uint64_t kKeep = ~uint64_t{0};

  explicit constexpr Expiry(uint64_t raw) : raw_(raw) {}

  uint64_t raw_ = 0;
};

}  // namespace gossamer
