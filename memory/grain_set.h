// GrainSet: a set of numbers below a bound, one bit each, with summaries: it finds the next or the
// previous number in as many steps as there are levels of summaries, which is one for each factor
// of 64.
//
// The numbers may lie in memory of the caller's that outlives the process (HeapMap). Each change of
// them is one store there, which the compiler moves past no other release store.
//
// Memory: BytesFor(bound) of address space from the start, less the caller's. Only pages with
// numbers, and their summaries, are ever touched.
// Thread-safety: none.
#pragma once

#include <atomic>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace gossamer {

// An array of zeros. The system provides a page of it when it is first written.
template <typename T>
class ZeroedArray {
 public:
  explicit ZeroedArray(uint64_t size) : items_(static_cast<T*>(std::calloc(size, sizeof(T)))) {
    if (items_ == nullptr && size != 0) throw std::bad_alloc();
  }
  T& operator[](uint64_t i) { return items_.get()[i]; }
  const T& operator[](uint64_t i) const { return items_.get()[i]; }

 private:
  struct Free {
    void operator()(T* items) const { std::free(items); }
  };
  std::unique_ptr<T, Free> items_;
};

class GrainSet {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  explicit GrainSet(uint64_t bound) { AddLevels(bound); }
  // The numbers lie in `numbers`, WordsFor(bound) words. If they are not all zeros, SumUp must be
  // called first.
  explicit GrainSet(std::span<uint64_t> numbers) : levels_{{numbers.data(), numbers.size()}} {
    if (numbers.size() > 1) AddLevels(numbers.size());
  }
  // Makes the summaries of the numbers. Requires (unchecked): there are none. Reads all words.
  void SumUp() {
    for (size_t level = 1; level < levels_.size(); ++level) {
      const Level& below = levels_[level - 1];
      for (uint64_t i = 0; i < below.words; ++i) {
        if (below.bits[i] != 0) levels_[level].bits[i / 64] |= Bit(i);
      }
    }
  }
  static constexpr uint64_t WordsFor(uint64_t bound) {
    return bound / 64 + (bound % 64 != 0 || bound == 0);
  }
  static constexpr uint64_t BytesFor(uint64_t bound) {
    uint64_t words = 0;
    do {
      bound = WordsFor(bound);
      words += bound;
    } while (bound > 1);
    return words * sizeof(uint64_t);
  }

  void Insert(uint64_t number) {
    for (const Level& level : levels_) {
      uint64_t& word = level.bits[number / 64];
      const bool is_summed_up = word != 0;
      Store(word, word | Bit(number));
      if (is_summed_up) return;
      number /= 64;
    }
  }
  void Erase(uint64_t number) {
    for (const Level& level : levels_) {
      uint64_t& word = level.bits[number / 64];
      Store(word, word & ~Bit(number));
      if (word != 0) return;
      number /= 64;
    }
  }
  // The least number from `from` on; kNone if there is none.
  uint64_t Next(uint64_t from) const {
    for (size_t level = 0; level < levels_.size() && from / 64 < levels_[level].words;
         ++level, from = from / 64 + 1) {
      const uint64_t word = levels_[level].bits[from / 64] & ~uint64_t{0} << from % 64;
      if (word == 0) continue;
      uint64_t found = from / 64 * 64 + static_cast<uint64_t>(std::countr_zero(word));
      while (level-- > 0) {
        found = found * 64 + static_cast<uint64_t>(std::countr_zero(levels_[level].bits[found]));
      }
      return found;
    }
    return kNone;
  }
  // The greatest number up to `from`; kNone if there is none. Requires: `from` is below the bound.
  uint64_t Previous(uint64_t from) const {
    assert(from / 64 < levels_.front().words);
    for (size_t level = 0; level < levels_.size(); ++level) {
      const uint64_t word = levels_[level].bits[from / 64] & ~uint64_t{0} >> (63 - from % 64);
      if (word != 0) {
        uint64_t found = from / 64 * 64 + 63 - static_cast<uint64_t>(std::countl_zero(word));
        while (level-- > 0) {
          found =
              found * 64 + 63 - static_cast<uint64_t>(std::countl_zero(levels_[level].bits[found]));
        }
        return found;
      }
      if (from < 64) return kNone;
      from = from / 64 - 1;
    }
    return kNone;
  }

 private:
  static constexpr uint64_t Bit(uint64_t number) { return uint64_t{1} << number % 64; }
  static void Store(uint64_t& word, uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }
  void AddLevels(uint64_t bound) {
    do {
      bound = WordsFor(bound);
      levels_.push_back({&own_.emplace_back(bound)[0], bound});
    } while (bound > 1);
  }

  struct Level {
    uint64_t* bits;
    uint64_t words;
  };
  std::vector<ZeroedArray<uint64_t>> own_;
  std::vector<Level> levels_;  // each has a bit for each word of the one before
};

}  // namespace gossamer
