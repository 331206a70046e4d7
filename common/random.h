// Small fast random numbers for benchmarks and tests. Not for secrets.
//
// The sequence of a seed never changes, so that a run repeats from its seed.
// Thread-safety: none; use one generator for each thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace gossamer {

// SplitMix64 (Steele, Lea, Flood '14): a counter and a mixer. Good for seeding and for hashing
// numbers.
class SplitMix64 {
 public:
  constexpr explicit SplitMix64(uint64_t seed) : state_(seed) {}

  static constexpr uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  constexpr uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15); }

 private:
  uint64_t state_;
};

// xoshiro256** (Blackman, Vigna '18): period 2^256 - 1, about 1 ns a number. `stream` selects
// independent sequences of one seed, one for each thread.
class Random {
 public:
  using result_type = uint64_t;

  constexpr explicit Random(uint64_t seed, uint64_t stream = 0) {
    SplitMix64 source(SplitMix64::Mix(seed) + SplitMix64::Mix(~stream));
    for (uint64_t& word : state_) word = source.Next();
  }

  constexpr uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), for bound > 0: Lemire's multiplication. Its bias is at most bound /
  // 2^64.
  constexpr uint64_t Below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((Wide{Next()} * bound) >> 64);
  }

  // Uniform in [0, 1), in steps of 2^-53.
  constexpr double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // The standard library's requirements of a generator.
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  constexpr uint64_t operator()() { return Next(); }

 private:
  std::array<uint64_t, 4> state_{};
};

// Puts `items` in a random order, which follows from the state of `random` on any machine.
template <typename Item>
void Shuffle(std::span<Item> items, Random& random) {
  for (size_t left = items.size(); left > 1; --left) {
    std::swap(items[left - 1], items[random.Below(left)]);
  }
}

}  // namespace gossamer
