// ChangeMemory: what the read-modify-writes of a worker hold of values and replies, and its bound.
//
// How long a value is shows when the change is done. So a batch takes many changes that bring
// little as a rule, and a change that finds too long a value while others hold much is put off:
// nothing of it is done.
//
// Thread-safety: any thread, since a store may do a change on another one. `expected` and `Learn`:
// the worker's thread. Cost: an atomic addition for each key that is changed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace gossamer::gateway {

class ChangeMemory {
 public:
  // Of values that are being changed, and likewise of replies that are not given yet.
  static constexpr int64_t kMostBytes = int64_t{64} << 20;

  class Holding {
   public:
    explicit Holding(std::atomic<int64_t>& held) : held_(&held) {}
    Holding(Holding&& from) noexcept : held_(from.held_), bytes_(std::exchange(from.bytes_, 0)) {}
    Holding& operator=(Holding&& from) noexcept {
      std::swap(held_, from.held_);
      std::swap(bytes_, from.bytes_);
      return *this;
    }
    ~Holding() { GiveBack(); }

    // Returns false, and takes nothing, if too much is held already.
    bool Take(uint64_t more) {
      const auto bytes = static_cast<int64_t>(more);
      if (held_->fetch_add(bytes, std::memory_order_relaxed) + bytes > kMostBytes) {
        held_->fetch_sub(bytes, std::memory_order_relaxed);
        return false;
      }
      bytes_ += bytes;
      return true;
    }
    void GiveBack() { held_->fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed); }
    uint64_t bytes() const { return static_cast<uint64_t>(bytes_); }

   private:
    std::atomic<int64_t>* held_;
    int64_t bytes_ = 0;
  };

  Holding OfValues() { return Holding(values_); }
  Holding OfReplies() { return Holding(replies_); }

  // Bytes of a reply, as replies were of late.
  uint64_t expected() const { return expected_; }
  // The longest reply of some changes that were done together.
  void Learn(uint64_t longest) { expected_ = std::max(longest, expected_ - expected_ / 64); }

 private:
  std::atomic<int64_t> values_{0};
  std::atomic<int64_t> replies_{0};
  uint64_t expected_ = uint64_t{16} << 10;
};

}  // namespace gossamer::gateway
