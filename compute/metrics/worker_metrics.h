// WorkerMetrics: what the worker threads of a compute server have done, summed for its admin
// endpoint.
//
//   auto metrics = std::make_shared<WorkerMetrics>(std::vector<std::string>{"get", "set"});
//   metrics->AddTo(families);                                    // /metrics
//   … metrics->State() …                                         // /state
//   …
//   auto worker = metrics->AddWorker();                          // in each worker thread
//   for (;;) {
//     worker->RecordCommand(kGet, nanoseconds);
//     worker->numbers().bytes_received += bytes;
//     worker->PublishIfDue(now, *session);                       // once a round of its loop
//   }
//
// A worker counts in memory of its own. Every kPublishInterval it copies that into a slot, which
// the endpoint's thread sums.
//
// Invariants:
//   - No two workers write to one cache line, and no worker reads what another one writes. Only the
//     reader of figures shares a worker's slot.
//   - A worker never waits: if its slot is being read, it publishes in a later round.
//   - Sums never fall, except gauges: the counts of a worker that ends are kept.
//   - Counts of different kinds are of one moment for each worker. They are at most
//     kPublishInterval older than its last round.
// Thread-safety: WorkerMetrics: all calls from any thread. Worker: one thread.
// Cost: RecordCommand about 1 ns; PublishIfDue a comparison, and every 100 ms a copy of 30 KiB for
// each command that was used since. Memory: 60 KiB for each worker and command.
#pragma once

#include <cassert>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/admin/metrics.h"
#include "common/histogram.h"
#include "gossamer/counters.h"
#include "gossamer/store.h"

namespace gossamer {

// Of a worker's clients. Counts, except `connected`.
struct ClientNumbers {
  uint64_t connected = 0;     // now
  uint64_t accepted = 0;      // connections
  uint64_t rejected = 0;      // connections, because there were as many as allowed
  uint64_t slow_readers = 0;  // disconnected, because they left answers or messages untaken
  uint64_t slow_senders = 0;  // likewise, because they did not send the rest of a request
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t failed_logins = 0;  // AUTH and HELLO with a wrong password
  uint64_t tls_failures = 0;   // TLS handshakes that were not brought to an end
  // Requests that name no command of the gateway, or are not of the protocol. All were refused.
  uint64_t unknown_requests = 0;
  uint64_t keys_found = 0;   // by commands that read
  uint64_t keys_absent = 0;  // likewise, that were not there

  ClientNumbers& operator+=(const ClientNumbers& other);
};

struct CommandFigures {
  // Errors of both kinds together are all of the command's errors.
  uint64_t errors = 0;    // commands that ran, and were answered with an error
  uint64_t rejected = 0;  // refused before they ran: a wrong number of arguments, no login
  Histogram latency_ns;   // its count is the number of commands that ran
};

struct WorkerFigures {
  explicit WorkerFigures(size_t command_count) : commands(command_count) {}

  // `counters.cache.bytes` becomes the larger one, as all sessions of a store share one cache.
  WorkerFigures& operator+=(const WorkerFigures& other);

  Counters counters;
  ClientNumbers clients;
  std::vector<CommandFigures> commands;  // by number
  double commands_per_second = 0;        // of late; 0 of workers that have ended
};

class WorkerMetrics {
 public:
  using Clock = std::chrono::steady_clock;
  class Worker;

  static constexpr std::chrono::milliseconds kPublishInterval{100};

  // `commands`: their names, in small letters, by number. Worker::RecordCommand takes the number.
  explicit WorkerMetrics(std::vector<std::string> commands);
  ~WorkerMetrics();

  // This object must outlive the worker.
  std::unique_ptr<Worker> AddWorker();

  void AddTo(Families& families) const;
  // The fields workers, clients, commands, operations, cache, locks and rereads of /state
  // (docs/metrics.md).
  nlohmann::ordered_json State() const;

  // The sum of what all workers have published, those that have ended included.
  WorkerFigures Total() const;
  size_t workers() const;

 private:
  struct Slot;

  void End(const Slot& slot, const WorkerFigures& last);

  const std::vector<std::string> commands_;
  mutable std::mutex mutex_;  // for what follows; not taken by workers but when they begin and end
  std::vector<std::unique_ptr<Slot>> slots_;
  WorkerFigures ended_;
};

// The larger size keeps the line that a processor fetches beside the wanted one apart, too.
class alignas(128) WorkerMetrics::Worker {
 public:
  // Publishes what it has, with the counters of the last call to publish. Waits for the reader.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Requires: `command` is less than the number of names. `is_error`: so was its answer.
  void RecordCommand(size_t command, std::chrono::nanoseconds duration, bool is_error) {
    assert(command < own_.commands.size());
    own_.commands[command].latency_ns.Record(static_cast<uint64_t>(duration.count()));
    if (is_error) RecordError(command);
  }
  void RecordCommands(size_t command, uint64_t nanoseconds, uint64_t times) {
    own_.commands[command].latency_ns.RecordMany(nanoseconds, times);
  }
  // Beside RecordCommands, if its answer was an error.
  void RecordError(size_t command) { ++own_.commands[command].errors; }
  // Instead of RecordCommand, if it was refused.
  void RecordRejected(size_t command) { ++own_.commands[command].rejected; }
  ClientNumbers& numbers() { return own_.clients; }

  // `session`: this thread's, always the same one.
  void PublishIfDue(Clock::time_point now, const Session& session) {
    if (now >= due_) Publish(now, session.counters());
  }
  // At once, unless the slot is being read.
  void Publish(Clock::time_point now, const Counters& counters);

 private:
  friend class WorkerMetrics;
  static constexpr std::chrono::seconds kRateInterval{1};

  Worker(WorkerMetrics* metrics, Slot* slot, size_t commands);

  // Takes the rate anew if kRateInterval is over. `commands`: all that ran.
  void MeasureRate(Clock::time_point now, uint64_t commands);

  WorkerMetrics* const metrics_;
  Slot* const slot_;
  Clock::time_point due_{};
  Clock::time_point rate_since_{};
  uint64_t commands_before_ = 0;  // at that time
  WorkerFigures own_;
};

}  // namespace gossamer
