#include "compute/metrics/worker_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "compute/metrics/counters_metrics.h"

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

// How finely /state tells latencies: 8 steps for each power of two.
constexpr uint32_t kStepsOfState = 8;

// [[upper bound, count], …] without steps that have no values.
Json LatencyBuckets(const Histogram& latencies) {
  constexpr uint32_t kWidth = Histogram::kSubBuckets / kStepsOfState;
  static_assert(Histogram::kBuckets % kWidth == 0);
  Json buckets = Json::array();
  for (uint32_t first = 0; first < Histogram::kBuckets; first += kWidth) {
    uint64_t count = 0;
    for (uint32_t bucket = first; bucket < first + kWidth; ++bucket) {
      count += latencies.CountIn(bucket);
    }
    if (count != 0) buckets.push_back({Histogram::UpperBound(first + kWidth - 1), count});
  }
  return buckets;
}

Json CommandState(const CommandFigures& figures) {
  const Histogram& latencies = figures.latency_ns;
  return {{"count", latencies.count()},
          {"errors", figures.errors + figures.rejected},
          {"rejected", figures.rejected},
          {"mean_ns", latencies.Mean()},
          {"p50_ns", latencies.Percentile(50)},
          {"p99_ns", latencies.Percentile(99)},
          {"p999_ns", latencies.Percentile(99.9)},
          {"max_ns", latencies.max()},
          {"latency_buckets_ns", LatencyBuckets(latencies)}};
}

}  // namespace

ClientNumbers& ClientNumbers::operator+=(const ClientNumbers& other) {
  connected += other.connected;
  accepted += other.accepted;
  rejected += other.rejected;
  bytes_received += other.bytes_received;
  bytes_sent += other.bytes_sent;
  failed_logins += other.failed_logins;
  tls_failures += other.tls_failures;
  slow_readers += other.slow_readers;
  slow_senders += other.slow_senders;
  unknown_requests += other.unknown_requests;
  keys_found += other.keys_found;
  keys_absent += other.keys_absent;
  return *this;
}

WorkerFigures& WorkerFigures::operator+=(const WorkerFigures& other) {
  counters += other.counters;
  counters.cache.bytes = std::max(counters.cache.bytes, other.counters.cache.bytes);
  clients += other.clients;
  commands_per_second += other.commands_per_second;
  for (size_t i = 0; i < commands.size(); ++i) {
    commands[i].errors += other.commands[i].errors;
    commands[i].rejected += other.commands[i].rejected;
    // Most commands are never used, and a sum takes a microsecond.
    if (other.commands[i].latency_ns.count() == 0) continue;
    commands[i].latency_ns.Merge(other.commands[i].latency_ns);
  }
  return *this;
}

struct alignas(128) WorkerMetrics::Slot {
  explicit Slot(size_t commands) : figures(commands) {}

  std::mutex mutex;
  WorkerFigures figures;
};

WorkerMetrics::WorkerMetrics(std::vector<std::string> commands)
    : commands_(std::move(commands)), ended_(commands_.size()) {}
WorkerMetrics::~WorkerMetrics() = default;

std::unique_ptr<WorkerMetrics::Worker> WorkerMetrics::AddWorker() {
  auto slot = std::make_unique<Slot>(commands_.size());
  std::unique_ptr<Worker> worker(new Worker(this, slot.get(), commands_.size()));
  const std::lock_guard guard(mutex_);
  slots_.push_back(std::move(slot));
  return worker;
}

void WorkerMetrics::End(const Slot& slot, const WorkerFigures& last) {
  const std::lock_guard guard(mutex_);
  ended_ += last;
  ended_.clients.connected = 0;
  ended_.commands_per_second = 0;
  ended_.counters.cache.bytes = 0;
  std::erase_if(slots_, [&](const auto& other) { return other.get() == &slot; });
}

WorkerFigures WorkerMetrics::Total() const {
  const std::lock_guard guard(mutex_);
  WorkerFigures total = ended_;
  for (const auto& slot : slots_) {
    const std::lock_guard slot_guard(slot->mutex);
    total += slot->figures;
  }
  return total;
}

size_t WorkerMetrics::workers() const {
  const std::lock_guard guard(mutex_);
  return slots_.size();
}

void WorkerMetrics::AddTo(Families& families) const {
  const WorkerFigures total = Total();
  AddCounters(total.counters, families);
  families.Gauge("gossamer_workers", "Worker threads.", uint64_t{workers()});
  families.Gauge("gossamer_connected_clients", "Connections of clients that are open.",
                 total.clients.connected);
  families.Counter("gossamer_client_connections_total",
                   "Connections of clients that were accepted.", total.clients.accepted);
  families.Counter("gossamer_client_rejections_total",
                   "Connections of clients that were refused, as there were too many.",
                   total.clients.rejected);
  families.Counter("gossamer_client_slow_readers_total",
                   "Clients that were disconnected, as they took no answers while memory was "
                   "short, or no messages.",
                   total.clients.slow_readers);
  families.Counter(
      "gossamer_client_slow_senders_total",
      "Clients that were disconnected, as they did not send the rest of a request while "
      "memory was short.",
      total.clients.slow_senders);
  families.Counter("gossamer_client_bytes_total", "Bytes received from clients and sent to them.")
      .Add({{"direction", "received"}}, total.clients.bytes_received)
      .Add({{"direction", "sent"}}, total.clients.bytes_sent);
  families.Counter("gossamer_client_failed_logins_total",
                   "Logins of clients with a wrong password.", total.clients.failed_logins);
  families.Counter("gossamer_client_tls_failures_total", "TLS handshakes of clients that failed.",
                   total.clients.tls_failures);
  families.Counter("gossamer_client_unknown_requests_total",
                   "Requests that were refused as they name no command, or break the protocol.",
                   total.clients.unknown_requests);
  families.Counter("gossamer_client_key_lookups_total", "Keys that commands of clients have read.")
      .Add({{"result", "hit"}}, total.clients.keys_found)
      .Add({{"result", "miss"}}, total.clients.keys_absent);
  auto errors = families.Counter("gossamer_command_errors_total",
                                 "Commands that were answered with an error, or refused.");
  for (size_t i = 0; i < commands_.size(); ++i) {
    errors.Add({{"command", commands_[i]}}, total.commands[i].errors + total.commands[i].rejected);
  }
  auto durations = families.LatencyHistogram("gossamer_command_duration_seconds",
                                             "Time from a command's last byte to its answer.");
  for (size_t i = 0; i < commands_.size(); ++i) {
    durations.Add({{"command", commands_[i]}}, total.commands[i].latency_ns);
  }
}

Json WorkerMetrics::State() const {
  const WorkerFigures total = Total();
  uint64_t processed = 0;
  Json commands = Json::object();
  for (size_t i = 0; i < commands_.size(); ++i) {
    const CommandFigures& figures = total.commands[i];
    processed += figures.latency_ns.count();
    if (figures.latency_ns.count() + figures.errors + figures.rejected == 0) continue;
    commands[commands_[i]] = CommandState(figures);
  }
  Json state = {{"workers", workers()},
                {"clients",
                 {{"connected", total.clients.connected},
                  {"accepted", total.clients.accepted},
                  {"rejected", total.clients.rejected},
                  {"slow_readers", total.clients.slow_readers},
                  {"slow_senders", total.clients.slow_senders},
                  {"commands", processed},
                  {"bytes_received", total.clients.bytes_received},
                  {"bytes_sent", total.clients.bytes_sent},
                  {"failed_logins", total.clients.failed_logins},
                  {"tls_failures", total.clients.tls_failures},
                  {"unknown_requests", total.clients.unknown_requests},
                  {"keys_found", total.clients.keys_found},
                  {"keys_absent", total.clients.keys_absent}}},
                {"commands", std::move(commands)}};
  state.update(CountersState(total.counters));
  return state;
}

WorkerMetrics::Worker::Worker(WorkerMetrics* metrics, Slot* slot, size_t commands)
    : metrics_(metrics), slot_(slot), own_(commands) {}

WorkerMetrics::Worker::~Worker() { metrics_->End(*slot_, own_); }

void WorkerMetrics::Worker::Publish(Clock::time_point now, const Counters& counters) {
  own_.counters = counters;
  const std::unique_lock lock(slot_->mutex, std::try_to_lock);
  if (!lock) return;
  WorkerFigures& shown = slot_->figures;
  shown.counters = counters;
  shown.clients = own_.clients;
  uint64_t commands = 0;
  for (size_t i = 0; i < own_.commands.size(); ++i) {
    commands += own_.commands[i].latency_ns.count();
    shown.commands[i].errors = own_.commands[i].errors;
    shown.commands[i].rejected = own_.commands[i].rejected;
    if (shown.commands[i].latency_ns.count() == own_.commands[i].latency_ns.count()) continue;
    shown.commands[i].latency_ns = own_.commands[i].latency_ns;
  }
  MeasureRate(now, commands);
  shown.commands_per_second = own_.commands_per_second;
  due_ = now + kPublishInterval;
}

void WorkerMetrics::Worker::MeasureRate(Clock::time_point now, uint64_t commands) {
  const std::chrono::duration<double> elapsed = now - rate_since_;
  if (elapsed < kRateInterval) return;
  const bool is_first = rate_since_ == Clock::time_point();
  if (!is_first) {
    own_.commands_per_second = static_cast<double>(commands - commands_before_) / elapsed.count();
  }
  rate_since_ = now;
  commands_before_ = commands;
}

}  // namespace gossamer
