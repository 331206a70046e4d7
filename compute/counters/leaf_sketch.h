// LeafSketch: which leaves one session uses most, by a sample of its operations.
//
// About one use in kMeanStep is looked at. The sketch keeps kPlaces leaves (Space-Saving: a leaf
// that is not among them takes the place of the one with the least count, and that count). Every
// kHalveAfter samples all counts are halved, so that what is hot now is on top.
//
// Invariant: the session never waits: while the sketch is being read, it takes no sample.
// Thread-safety: one thread uses leaves; any thread reads.
// Cost: a subtraction for each use; a search of kPlaces words for each sample.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class LeafSketch {
 public:
  static constexpr size_t kPlaces = 32;
  static constexpr uint32_t kMeanStep = 64;
  static constexpr uint64_t kHalveAfter = 1 << 14;
  static constexpr size_t kKeyBytes = 64;

  struct Leaf {
    RemotePtr leaf;
    std::string key;          // the least one of those that were sampled, cut to kKeyBytes
    uint64_t operations = 0;  // estimated
  };

  // The leaf is used for the key.
  void Use(RemotePtr leaf, KeyView key) {
    if (--left_ == 0) Sample(leaf, key);
  }
  // Likewise, of `count` uses at once: leaf_at(i) and key_at(i). Null leaves are passed over.
  template <typename LeafAt, typename KeyAt>
  void UseMany(size_t count, LeafAt leaf_at, KeyAt key_at) {
    size_t next = 0;
    while (count - next >= left_) {
      next += left_;
      Sample(leaf_at(next - 1), key_at(next - 1));
    }
    left_ -= static_cast<uint32_t>(count - next);
  }

  // In no order.
  std::vector<Leaf> Read() const {
    const std::lock_guard guard(mutex_);
    std::vector<Leaf> leaves;
    for (size_t i = 0; i < used_; ++i) {
      const Place& place = places_[i];
      leaves.push_back({place.leaf, std::string(place.key_view()), place.samples * kMeanStep});
    }
    return leaves;
  }

 private:
  // Without memory of its own: operations allocate none.
  struct Place {
    RemotePtr leaf;
    uint64_t samples = 0;
    uint32_t key_bytes = 0;
    std::array<char, kKeyBytes> key;

    KeyView key_view() const { return {key.data(), key_bytes}; }
    void SetKey(KeyView bytes) {
      key_bytes = static_cast<uint32_t>(bytes.copy(key.data(), kKeyBytes));
    }
  };

  void Sample(RemotePtr leaf, KeyView key) {
    left_ = NextStep();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || leaf.is_null()) return;
    const auto used = std::span(places_).first(used_);
    const auto found = std::ranges::find(used, leaf, &Place::leaf);
    Place& place = found != used.end() ? *found : NewPlace(leaf);
    if (place.samples++ == 0 || found == used.end() || key.substr(0, kKeyBytes) < place.key_view())
      place.SetKey(key);
    if (++samples_ % kHalveAfter != 0) return;
    for (Place& one : places_) one.samples /= 2;
  }
  Place& NewPlace(RemotePtr leaf) {
    Place& place = used_ < kPlaces ? places_[used_++]
                                   : *std::ranges::min_element(places_, {}, &Place::samples);
    place.leaf = leaf;
    return place;
  }
  // Not a fixed one: batches may have a length of their own.
  uint32_t NextStep() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return 1 + static_cast<uint32_t>(random_ >> 33) % (2 * kMeanStep - 1);
  }

  uint32_t left_ = 1;  // uses until the next sample
  uint64_t random_ = 1;
  uint64_t samples_ = 0;
  mutable std::mutex mutex_;  // for what follows
  size_t used_ = 0;
  std::array<Place, kPlaces> places_;
};

}  // namespace gossamer
