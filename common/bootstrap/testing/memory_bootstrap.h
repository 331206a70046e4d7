// A bootstrap in memory with faults, for tests and for the simulator.
//
// The faults are those of the outside world: a text is lost (memcached flushed, restarted or
// evicting; a file removed), overwritten by another program, or read late; or the bootstrap does
// not answer, with the change made or not. Tests cause them between calls, or with `set_before` in
// the middle of another component's work.
//
// Thread-safety: all calls from any thread. It neither sleeps nor starts threads. LockForJoin waits
// only while another thread holds the lock, so a single thread never waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/bootstrap/bootstrap.h"

namespace gossamer {

class MemoryBootstrap final : public Bootstrap {
 public:
  using Text = std::optional<std::string>;
  enum class Call : uint8_t { kGet, kCompareAndSwap, kLockForJoin, kMayHaveMembers };
  enum class Failure : uint8_t {
    kBefore,  // the call changes nothing
    kAfter,   // the change is made and its answer is lost
  };

  // Removes the text, as an eviction does.
  void Lose(const std::string& store) { Overwrite(store, std::nullopt); }
  // Writes as another program would; nullopt removes the text.
  void Overwrite(const std::string& store, const Text& text) {
    const std::lock_guard guard(mutex_);
    Set(store, text);
  }
  // The text, read without a call.
  Text Peek(const std::string& name) const {
    const std::lock_guard guard(mutex_);
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::nullopt : found->second.text;
  }
  // Removes all texts and locks, as memcached's flush_all does.
  void LoseAll() {
    const std::lock_guard guard(mutex_);
    for (auto& [store, entry] : entries_) {
      Set(store, std::nullopt);
      ++entry.lock_epoch;
      entry.locked = false;
    }
    unlocked_.notify_all();
  }
  // The next `reads` calls of Get return the text that the last change replaced. CompareAndSwap
  // still compares with the present text.
  void ServeStale(const std::string& store, uint32_t reads) {
    const std::lock_guard guard(mutex_);
    entries_[store].stale_reads = reads;
  }
  // Whether the next Get of `store` fails or is stale.
  bool IsReadWrongly(const std::string& store) {
    const std::lock_guard guard(mutex_);
    return failures_[Call::kGet].times > 0 || entries_[store].stale_reads > 0;
  }
  // The next `times` calls of this kind are NodeUnreachable.
  void Fail(Call call, uint32_t times, Failure failure = Failure::kBefore) {
    const std::lock_guard guard(mutex_);
    failures_[call] = {times, failure};
  }
  // From now on each call sees what is there, and is answered.
  void EndFaults() {
    const std::lock_guard guard(mutex_);
    failures_.clear();
    for (auto& [store, entry] : entries_) entry.stale_reads = 0;
  }
  // Called at the start of each call; it may cause the faults above first. Requires (unchecked):
  // set before other threads call.
  void set_before(std::function<void(Call, const std::string& store)> before) {
    before_ = std::move(before);
  }
  // What MayHaveMembers answers; true unless set. Requires (unchecked): set before other threads
  // call.
  void set_may_have_members(std::function<bool()> may_have_members) {
    may_have_members_ = std::move(may_have_members);
  }
  // Whether a joining server would wait for its lock.
  bool IsLocked(const std::string& store) const {
    const std::lock_guard guard(mutex_);
    const auto found = entries_.find(store);
    return found != entries_.end() && found->second.locked;
  }
  uint64_t calls(Call call) const {
    const std::lock_guard guard(mutex_);
    const auto found = calls_.find(call);
    return found == calls_.end() ? 0 : found->second;
  }

  Result<Text> Get(const std::string& store) override {
    BOOST_OUTCOME_TRYV(Begin(Call::kGet, store));
    const std::lock_guard guard(mutex_);
    if (FailsNow(Call::kGet, Failure::kBefore)) return Unreachable();
    Entry& entry = entries_[store];
    if (entry.stale_reads == 0) return entry.text;
    --entry.stale_reads;
    return entry.last_text;
  }

  Result<bool> CompareAndSwap(const std::string& store, const Text& expected,
                              const Text& desired) override {
    BOOST_OUTCOME_TRYV(Begin(Call::kCompareAndSwap, store));
    const std::lock_guard guard(mutex_);
    if (FailsNow(Call::kCompareAndSwap, Failure::kBefore)) return Unreachable();
    const bool swaps = entries_[store].text == expected;
    if (swaps) Set(store, desired);
    if (FailsNow(Call::kCompareAndSwap, Failure::kAfter)) return Unreachable();
    return swaps;
  }

  Result<Held> LockForJoin(const std::string& store, std::chrono::milliseconds patience) override {
    BOOST_OUTCOME_TRYV(Begin(Call::kLockForJoin, store));
    std::unique_lock guard(mutex_);
    if (FailsNow(Call::kLockForJoin, Failure::kBefore)) return Unreachable();
    Entry& entry = entries_[store];
    if (!unlocked_.wait_for(guard, patience, [&] { return !entry.locked; })) {
      return MakeError(Code::kContended, "store '" + store + "' is being joined");
    }
    entry.locked = true;
    return Held(std::make_shared<Lock>(*this, store, ++entry.lock_epoch));
  }

  Result<Held> Announce(const std::string& store) override {
    BOOST_OUTCOME_TRYV(CheckStoreName(store));
    return Held();
  }
  Result<bool> MayHaveMembers(const std::string& store) override {
    BOOST_OUTCOME_TRYV(Begin(Call::kMayHaveMembers, store));
    const std::lock_guard guard(mutex_);
    if (FailsNow(Call::kMayHaveMembers, Failure::kBefore)) return Unreachable();
    return may_have_members_ == nullptr || may_have_members_();
  }
  std::chrono::milliseconds republish_wait() const override { return republish_wait_; }
  // 0 unless set: a single-threaded test, or virtual time, cannot wait for members.
  void set_republish_wait(std::chrono::milliseconds wait) { republish_wait_ = wait; }

  std::string url() const override { return "memory:"; }

 private:
  struct Entry {
    Text text;
    Text last_text;
    uint32_t stale_reads = 0;
    bool locked = false;
    uint64_t lock_epoch = 0;
  };
  struct PlannedFailure {
    uint32_t times = 0;
    Failure failure = Failure::kBefore;
  };

  class Lock {
   public:
    Lock(MemoryBootstrap& bootstrap, std::string store, uint64_t epoch)
        : bootstrap_(bootstrap), store_(std::move(store)), epoch_(epoch) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      const std::lock_guard guard(bootstrap_.mutex_);
      Entry& entry = bootstrap_.entries_[store_];
      if (entry.lock_epoch == epoch_) entry.locked = false;
      bootstrap_.unlocked_.notify_all();
    }

   private:
    MemoryBootstrap& bootstrap_;
    const std::string store_;
    const uint64_t epoch_;
  };

  static Error Unreachable() {
    return MakeError(Code::kNodeUnreachable, "the bootstrap memory: does not answer");
  }

  Status Begin(Call call, const std::string& store) {
    const bool is_of_store = call == Call::kLockForJoin || call == Call::kMayHaveMembers;
    BOOST_OUTCOME_TRYV(is_of_store ? CheckStoreName(store) : CheckTextName(store));
    if (before_) before_(call, store);
    const std::lock_guard guard(mutex_);
    ++calls_[call];
    return Ok();
  }
  bool FailsNow(Call call, Failure failure) {
    PlannedFailure& planned = failures_[call];
    if (planned.times == 0 || planned.failure != failure) return false;
    --planned.times;
    return true;
  }
  void Set(const std::string& store, const Text& text) {
    Entry& entry = entries_[store];
    entry.last_text = std::exchange(entry.text, text);
  }

  std::function<void(Call, const std::string&)> before_;
  std::function<bool()> may_have_members_;
  std::chrono::milliseconds republish_wait_{0};
  mutable std::mutex mutex_;
  std::condition_variable unlocked_;
  std::map<std::string, Entry> entries_;
  std::map<Call, PlannedFailure> failures_;
  std::map<Call, uint64_t> calls_;
};

}  // namespace gossamer
