// ClientMemory: what the process holds for its clients, in bytes, and its bound.
//
// Each holder counts its bytes where they are, in a Holding:
//   - kRequests: requests that are not finished or not answered, and what is parsed of them;
//   - kAnswers: values read for an answer, lists that are being made, answers not taken yet.
// Each use has half of the bound, its share, so that neither can take the memory of the other. In a
// share:
//   - up to a half, holders grow as they like;
//   - above that, memory is short: new work takes little, and of the holders that have begun
//     something large, one at a time goes on to its end. So holders never wait for each other in a
//     circle;
//   - above three quarters, memory is full: new work waits.
//
// Thread-safety: ClientMemory: any thread. Holding: one thread.
// Cost: an atomic addition where the bytes of a holder change.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/admin/metrics.h"

namespace gossamer::gateway {

class ClientMemory {
 public:
  enum class Use : uint8_t { kRequests, kAnswers };
  class Holding;

  explicit ClientMemory(uint64_t most) : share_(most / 2) {}

  uint64_t most() const { return 2 * share_; }
  uint64_t share() const { return share_; }
  uint64_t held(Use use) const {
    const int64_t bytes = account(use).held.load(std::memory_order_relaxed);
    return bytes < 0 ? 0 : static_cast<uint64_t>(bytes);
  }
  bool is_short(Use use) const { return held(use) > share_ / 2; }
  bool is_full(Use use) const { return !HasRoom(use, 0); }
  // Whether something small may be begun.
  bool HasRoom(Use use, uint64_t more) const { return held(use) + more <= share_ / 4 * 3; }
  void AddTo(Families& families) const {
    families
        .Gauge("gossamer_client_memory_bytes",
               "What is held for clients: requests, and answers with what is read for them.")
        .Add({{"use", "requests"}}, held(Use::kRequests))
        .Add({{"use", "answers"}}, held(Use::kAnswers));
    families.Gauge("gossamer_client_memory_limit_bytes", "The bound of both together.", most());
  }

 private:
  struct Account {
    std::atomic<int64_t> held{0};
    std::atomic<const Holding*> goes_on{nullptr};  // the one that may grow while memory is short
  };
  const Account& account(Use use) const { return accounts_[static_cast<size_t>(use)]; }

  const uint64_t share_;
  std::array<Account, 2> accounts_;
};

// The bytes of one holder. They are given back when it ends.
class ClientMemory::Holding {
 public:
  // `memory` outlives this.
  Holding(ClientMemory& memory, Use use)
      : memory_(memory), account_(memory.accounts_[static_cast<size_t>(use)]) {}
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  ~Holding() {
    Set(0);
    EndGrowth();
  }

  uint64_t bytes() const { return bytes_; }
  // It has so many now.
  void Set(uint64_t bytes) {
    if (bytes == bytes_) return;
    const int64_t more = static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_);
    account_.held.fetch_add(more, std::memory_order_relaxed);
    bytes_ = bytes;
  }
  // Whether it may have `more` bytes. While memory is short, this is for one holder at a time, up
  // to its EndGrowth.
  bool MayGrow(uint64_t more) {
    const auto after = static_cast<uint64_t>(account_.held.load(std::memory_order_relaxed)) + more;
    if (after <= memory_.share_ / 2) return true;
    const Holding* other = nullptr;
    const bool goes_on = account_.goes_on.compare_exchange_strong(other, this) || other == this;
    return goes_on && after <= memory_.share_;
  }
  // It needs no more.
  void EndGrowth() {
    const Holding* self = this;
    if (account_.goes_on.load(std::memory_order_relaxed) != this) return;
    account_.goes_on.compare_exchange_strong(self, nullptr);
  }

 private:
  ClientMemory& memory_;
  Account& account_;
  uint64_t bytes_ = 0;
};

}  // namespace gossamer::gateway
