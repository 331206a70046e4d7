// EvictingSession: a session of an EvictingStore.
//
// Thread-safety: as of Session.
// Cost, beside that of the session below: one cache line for each key, with --evict=lru; and one
// coroutine for each call.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "compute/gateway/eviction/evictor.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class EvictingSession final : public Session {
 public:
  // `evictor` must outlive it.
  EvictingSession(std::unique_ptr<Session> session, Evictor& evictor)
      : session_(std::move(session)), evictor_(evictor), heat_(evictor.heat()) {}

  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override {
    return session_->Scan(options);
  }
  using Session::AsyncInsert, Session::AsyncPut, Session::AsyncUpdate;
  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  Task<Result<ExpiringValue>> AsyncGetWithExpiry(std::string_view key) override;
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncInsert(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value, Expiry expiry) override;
  Task<Status> AsyncModify(std::string_view key, ValueModifier& modifier) override;
  Task<Status> AsyncDelete(std::string_view key) override { return session_->AsyncDelete(key); }
  Task<void> AsyncMultiGet(std::span<const std::string_view> keys, Values& values) override;
  Task<void> AsyncMultiPut(std::span<const KeyValueView> pairs, std::span<Status> results) override;
  Task<void> AsyncMultiDelete(std::span<const std::string_view> keys,
                              std::span<Status> results) override {
    return session_->AsyncMultiDelete(keys, results);
  }
  Task<void> AsyncMultiModify(std::span<const KeyModifier> modifiers,
                              std::span<Status> results) override;
  // Makes no room: a gateway loads nothing.
  Task<SortedLoad> AsyncLoadSorted(std::span<const KeyValueView> pairs, double fill) override {
    return session_->AsyncLoadSorted(pairs, fill);
  }
  Task<RangeDeletion> AsyncDeleteRange(KeyRange range,
                                       std::function<bool(uint64_t)> progress) override {
    return session_->AsyncDeleteRange(std::move(range), std::move(progress));
  }
  Task<RangeDeletion> AsyncDeleteExpired(std::function<bool(uint64_t)> progress) override {
    return session_->AsyncDeleteExpired(std::move(progress));
  }
  Task<Result<EvictedKeys>> AsyncEvict(EvictionChoice& choice) override {
    return session_->AsyncEvict(choice);
  }
  Task<Result<MemoryLevel>> AsyncMemoryLevel() override { return session_->AsyncMemoryLevel(); }
  Task<void> AsyncGiveBackMemory() override { return session_->AsyncGiveBackMemory(); }
  Task<void> AsyncSleep(std::chrono::microseconds time) override {
    return session_->AsyncSleep(time);
  }

  void Spawn(Task<void> task) override { session_->Spawn(std::move(task)); }
  size_t Poll() override { return session_->Poll(); }
  void WaitAll() override { session_->WaitAll(); }
  Counters counters() const override { return session_->counters(); }
  uint64_t StoreTimeMs() const override { return session_->StoreTimeMs(); }

 private:
  void RunUntilDone(std::coroutine_handle<> task) override {
    task.resume();
    while (!task.done()) session_->Poll();
  }

  // A key was looked for.
  void NoteRead(std::string_view key, bool is_found);
  // Writes of one key: `write` makes the task of a try.
  template <typename Write>
  Task<Status> WriteOne(std::string_view key, uint64_t bytes, Write write);
  // Tries those of `results` again that were refused for want of memory: `write(places)` makes a
  // task that does. `bytes_of(place)`: of the value.
  template <typename Write, typename BytesOf>
  Task<void> TryAgain(std::span<Status> results, Write write, BytesOf bytes_of);
  // The same of many: `write(some, results)` makes a task that writes some of `all`.
  template <typename One, typename Write, typename BytesOf>
  Task<void> TryRefused(std::span<const One> all, std::span<Status> results, Write write,
                        BytesOf bytes_of);

  const std::unique_ptr<Session> session_;
  Evictor& evictor_;
  KeyHeat* const heat_;  // null: nobody needs to know
};

}  // namespace gossamer::gateway
