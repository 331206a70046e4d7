// SetBits: the numbers of the bits that are set in a word, the lowest first, for a range-based for.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>

namespace gossamer {

template <std::unsigned_integral Word>
class SetBits {
 public:
  class Iterator {
   public:
    explicit Iterator(Word rest) : rest_(rest) {}
    uint32_t operator*() const { return static_cast<uint32_t>(std::countr_zero(rest_)); }
    Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return rest_ == 0; }

   private:
    Word rest_;
  };

  explicit SetBits(Word word) : word_(word) {}
  Iterator begin() const { return Iterator(word_); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Word word_;
};

}  // namespace gossamer
