// Epoch-based reclamation: lock-free readers; memory is freed when no reader can still see it.
//
// A reader announces the global epoch while it reads (`EpochReader::Guard`). An unlinked object is
// freed once every reader was seen idle or in a later epoch. Source: Fraser, "Practical
// lock-freedom" (2004).
//
// Memory model: an object is retired in epoch E by the fetch_add that starts E+1, after it was
// unlinked. A reader that announces E+1 or later has read that fetch_add, or a later one, with
// acquire: it sees the object unlinked. A reader that announces E or earlier holds the object back.
// A reader has a light fence between its announcement and what it reads, a collection a heavy one
// before it looks at the announcements (asymmetric_fence.h): a reader that it sees idle sees all
// unlinked that was retired by then. An announcement is a
// release: what the reader read under its guard before is over when the collection sees it.
//
// Thread-safety: a reader belongs to one thread. `Retire` and `Collect` are called under the
// owner's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "common/asymmetric_fence.h"

namespace gossamer {

class EpochDomain;

class EpochReader {
 public:
  explicit EpochReader(EpochDomain& domain);
  ~EpochReader();
  EpochReader(const EpochReader&) = delete;
  EpochReader& operator=(const EpochReader&) = delete;

  // Pointers read during a guard's life stay valid until it ends. Guards must not nest or span a
  // wait.
  class [[nodiscard]] Guard {
   public:
    [[nodiscard]] explicit Guard(EpochReader& reader);
    ~Guard() { reader_.announced_.store(0, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    EpochReader& reader_;
  };

 private:
  friend class EpochDomain;
  EpochDomain& domain_;
  alignas(64) std::atomic<uint64_t> announced_{0};  // 0: idle
};

class EpochDomain {
 public:
  // Frees retired objects by free(object).
  explicit EpochDomain(std::function<void(void*)> free) : free_(std::move(free)) {}
  ~EpochDomain() {
    for (const Retired& retired : retired_) free_(retired.object);
  }
  EpochDomain(const EpochDomain&) = delete;
  EpochDomain& operator=(const EpochDomain&) = delete;

  // Frees `object` once no reader can see it: after some kCollectAt more, or once the reader that
  // holds it back has ended its guard, and as many more.
  void Retire(void* object) {
    retired_.push_back({epoch_.fetch_add(1, std::memory_order_release), object});
    if (retired_.size() >= collect_at_) Collect();
  }

 private:
  friend class EpochReader;
  static constexpr size_t kCollectAt = 64;

  struct Retired {
    uint64_t epoch;
    void* object;
  };

  void Collect() {
    HeavyFence();
    uint64_t oldest = epoch_.load(std::memory_order_relaxed);
    {
      const std::lock_guard lock(readers_mutex_);
      for (const EpochReader* reader : readers_) {
        const uint64_t announced = reader->announced_.load(std::memory_order_acquire);
        if (announced != 0 && announced < oldest) oldest = announced;
      }
    }
    std::erase_if(retired_, [this, oldest](const Retired& retired) {
      if (retired.epoch >= oldest) return false;
      free_(retired.object);
      return true;
    });
    // What a reader holds back is not looked at by every call.
    collect_at_ = retired_.size() + kCollectAt;
  }

  const std::function<void(void*)> free_;
  std::atomic<uint64_t> epoch_{1};
  std::mutex readers_mutex_;
  std::vector<EpochReader*> readers_;
  std::vector<Retired> retired_;
  size_t collect_at_ = kCollectAt;
};

inline EpochReader::EpochReader(EpochDomain& domain) : domain_(domain) {
  const std::lock_guard lock(domain_.readers_mutex_);
  domain_.readers_.push_back(this);
}

inline EpochReader::~EpochReader() {
  const std::lock_guard lock(domain_.readers_mutex_);
  std::erase(domain_.readers_, this);
}

inline EpochReader::Guard::Guard(EpochReader& reader) : reader_(reader) {
  reader_.announced_.store(reader_.domain_.epoch_.load(std::memory_order_acquire),
                           std::memory_order_release);
  LightFence();
}

}  // namespace gossamer
