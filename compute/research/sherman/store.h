// Sherman's client (tree.h) as a Store, so that the bench and the simulator run their workloads on
// it.
//
// Keys and values have 8 bytes each, and all others are refused. Gets, puts, inserts, updates,
// deletes, and ascending scans; everything else is Unsupported. `Session::counters` counts as the
// product does.
//
// Thread-safety: as in gossamer/store.h.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/embedded_memory.h"
#include "common/fabric/compute_port.h"
#include "common/fabric/scheduler.h"
#include "compute/research/partial_store.h"
#include "compute/research/sherman/tree.h"
#include "proto/store_record.h"

namespace gossamer::sherman {

inline constexpr std::string_view kName = "Sherman's client";

class ShermanSession final : public PartialSession {
 public:
  ShermanSession(ComputeServer& server, std::unique_ptr<Endpoint> endpoint)
      : PartialSession(kName),
        server_(server),
        endpoint_(std::move(endpoint)),
        scheduler_(*endpoint_),
        tree_(server, scheduler_) {}
  // Waits for spawned tasks: an abandoned one could hold a lock.
  ~ShermanSession() override { scheduler_.RunUntil(0); }

  // `from`, `to`, `limit` and `keys_only`; other options are Unsupported. The session must outlive
  // the cursor.
  std::unique_ptr<ScanCursor> Scan(const ScanOptions& options) override;

  Task<Result<std::string>> AsyncGet(std::string_view key) override;
  using PartialSession::AsyncInsert, PartialSession::AsyncPut, PartialSession::AsyncUpdate;
  // Its keys never expire.
  Task<Status> AsyncPut(std::string_view key, std::string_view value, Expiry /*expiry*/) override {
    return Write(key, value, Condition::kNone);
  }
  Task<Status> AsyncInsert(std::string_view key, std::string_view value,
                           Expiry /*expiry*/) override {
    return Write(key, value, Condition::kAbsent);
  }
  Task<Status> AsyncUpdate(std::string_view key, std::string_view value,
                           Expiry /*expiry*/) override {
    return Write(key, value, Condition::kPresent);
  }
  Task<Status> AsyncDelete(std::string_view key) override;

  void Spawn(Task<void> task) override { scheduler_.Spawn(std::move(task)); }
  size_t Poll() override {
    scheduler_.RunOnce();
    return scheduler_.running();
  }
  void WaitAll() override { scheduler_.RunUntil(0); }
  Counters counters() const override;

  Scheduler& scheduler() { return scheduler_; }

 private:
  friend class ShermanCursor;

  void RunUntilDone(std::coroutine_handle<> task) override { scheduler_.RunUntilDone(task); }
  Task<Status> Write(std::string_view key, std::string_view value, Condition condition);

  ComputeServer& server_;
  const std::unique_ptr<Endpoint> endpoint_;
  Scheduler scheduler_;
  Tree tree_;
};

class ShermanStore final : public PartialStore {
 public:
  // A compute server of the memory servers in `record`, which are of no other store's use.
  // `cache_bytes` bounds its cache of level 1.
  // Errors: those of ComputeServer::Open.
  static Result<std::unique_ptr<ShermanStore>> OpenOn(std::unique_ptr<ComputePort> port,
                                                      const StoreRecord& record,
                                                      const Design& design, uint64_t cache_bytes);
  // Likewise with a memory server of its own, in this process, over shm. Of the options, those of
  // the memory and the cache count; the design decides where the locks are.
  static Result<std::unique_ptr<ShermanStore>> OpenLocal(const LocalOptions& local,
                                                         const Design& design);

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return parameters_; }

 private:
  ShermanStore() : PartialStore(kName) {}

  std::unique_ptr<EmbeddedMemory> memory_;  // of OpenLocal
  std::unique_ptr<ComputeServer> server_;
  StoreParameters parameters_;
};

}  // namespace gossamer::sherman
