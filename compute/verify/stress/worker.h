// One thread of a stress run: many coroutines over one session, each running operations in
// sequence.
//
// The worker checks what it can at once: values are whole and belong to their key; scans are sorted
// and have all stable keys of their range. Checks that need other clients' operations use the
// history.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "compute/verify/history/history.h"
#include "compute/verify/history/scan.h"
#include "compute/verify/stress/failed_call.h"
#include "compute/verify/stress/options.h"
#include "gossamer/store.h"

namespace gossamer::stress {

// What a client reports while it runs, in memory shared with the parent.
struct alignas(64) ClientReport {
  static constexpr uint32_t kMaxThreads = 64;
  std::atomic<uint64_t> operations;
  std::atomic<uint64_t> contended;   // refused with Contended: nothing was done
  std::atomic<uint64_t> violations;  // printed to stderr
  std::atomic<uint64_t> failures;    // other errors, recorded in the client's log
  std::atomic<uint64_t> stores;      // opened
  std::atomic<uint64_t> sessions;    // opened
  std::atomic<uint64_t> scanned_keys;
  std::atomic<uint64_t> splits;
  std::atomic<uint64_t> rereads;
  std::atomic<uint64_t> lock_retries;
  std::atomic<uint64_t> stale_paths;
  std::atomic<int64_t> longest_ns;  // of all operations
  std::atomic<uint32_t> era;        // the client has closed its stores of all earlier eras
  // By thread: when the oldest of the operations began that it has under way.
  std::atomic<int64_t> oldest_began_ns[kMaxThreads];
};

// State shared by parent and clients: a mapped file in the run's directory.
struct RunBoard {
  // One for each life of a client, if clients are killed.
  static constexpr uint32_t kMaxClients = 2048;
  static constexpr uint32_t kMaxEras = 256;
  std::atomic<bool> stop;                    // clients finish their operations and begin no more
  std::atomic<uint32_t> era;                 // clients finish their operations in earlier eras
  std::atomic<uint32_t> progress_permille;   // of a campaign's era
  std::atomic<uint64_t> store_of[kMaxEras];  // each era's store id; 0: not known yet
  ClientReport clients[kMaxClients];
};

// Where a thread records what it saw.
struct Logs {
  HistoryWriter& history;
  FailureLog& failures;
  ClientReport& report;
};

// Returns the store for a thread's next session: another store object if the client reopens it,
// null if the era is over.
using NextStore = std::function<Result<std::shared_ptr<Store>>()>;

class Worker {
 public:
  // `writer` is this thread's number in the whole run.
  Worker(const StressOptions& options, uint32_t writer, uint32_t era, const Logs& logs,
         const RunBoard& board);

  // Runs until `operations` are done or the era or the run ends; in a campaign until one of the
  // latter two.
  Status Run(const NextStore& next_store, uint64_t operations);

 private:
  void RunSession(Session& session);
  Task<void> Loop(Session& session, uint32_t number);
  // Coroutine `number` begins an operation.
  void Begin(uint32_t number);
  Task<void> Read(Session& session, uint32_t key);
  Task<void> Write(Session& session, Random& random, uint32_t key);
  // MultiGet: each key is an operation of its own (worker_batch.cc).
  Task<void> ReadBatch(Session& session, Random& random);
  // MultiPut, MultiDelete or LoadSorted: each write is an operation of its own in the history
  // (worker_batch.cc).
  Task<void> WriteBatch(Session& session, Random& random);
  // Hot keys that are neighbours, some of them twice; they are being written from now on.
  std::vector<uint32_t> PickForBatch(Random& random);
  // Judges what a get returned.
  void EndRead(uint32_t key, const Result<std::string_view>& value, int64_t start, int64_t end);
  // The name of what a write stores: absent for a delete.
  ValueId NewValue(uint32_t key, OperationKind kind);
  // Logs a write that begins now.
  Event& BeginWrite(uint32_t key, OperationKind kind, ValueId value);
  // Logs what became of a write that has just ended.
  void EndWrite(Event& logged, uint32_t key, const Status& status);
  Task<void> Scan(Session& session, Random& random);
  uint32_t PickHot(Random& random) const;
  uint32_t PickForWrite(Random& random) const;
  // The value's name if it is a value of this key. Otherwise absent, and the violation has been
  // reported.
  ValueId Verify(uint32_t key, std::string_view value);
  bool MayWrite(uint32_t key) const;
  // For a get.
  void See(uint32_t key, ValueId value, int64_t start_ns, int64_t end_ns);
  void See(const history::Scan& scan);
  void Ended(int64_t start_ns, int64_t end_ns);
  void Failed(Call call, int64_t start, int64_t end, const Error& error);
  bool is_over() const;
  void Violation(const std::string& what);

  const StressOptions& options_;
  const KeySpace keys_;
  const ValueSpace values_;
  const uint32_t writer_;
  const uint32_t era_;
  HistoryWriter& history_;
  FailureLog& failures_;
  ClientReport& report_;
  const RunBoard& board_;
  uint64_t operations_ = 0;  // to do in all
  uint64_t begun_ = 0;
  std::vector<int64_t> began_ns_;  // by coroutine: the present operation
  uint64_t session_ends_at_ = 0;   // the session ends when so many have begun
  Random reopening_;
  uint32_t sequence_;
  std::vector<Event> scanned_;           // what the current scan says about each key
  std::vector<uint32_t> being_written_;  // keys, once for each write in progress
};

}  // namespace gossamer::stress
