#include "compute/bench/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/text/escape.h"
#include "common/text/human.h"
#include "common/text/text_table.h"

namespace gossamer::bench {
namespace {

using Json = nlohmann::ordered_json;

Json LatenciesJson(const PhaseResult& phase) {
  Json json = Json::object();
  for (size_t i = 0; i < kBenchOperations; ++i) {
    const auto kind = static_cast<BenchOperation>(i);
    const Histogram& histogram = phase.latency(kind);
    if (kind == BenchOperation::kReadModifyWrite) {
      // The contract has it, and no workload deletes.
      json["delete"] = LatencyJson(Histogram());
      if (histogram.count() == 0) break;
    }
    json[std::string(BenchOperationName(kind))] = LatencyJson(histogram);
  }
  return json;
}

Json WireJson(const Counters& counters) {
  Json json = Json::object();
  for (size_t i = 0; i < kOperationClasses; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const WireCounts& wire = counters.of(operation);
    json[std::string(OperationClassName(operation))] = {
        {"operations", wire.operations}, {"round_trips", wire.round_trips},
        {"reads", wire.reads},           {"writes", wire.writes},
        {"cas", wire.atomics},           {"sends", wire.sends},
        {"bytes_read", wire.bytes_read}, {"bytes_written", wire.bytes_written}};
  }
  return json;
}

Json CacheJson(const CacheCounts& cache) {
  return {{"bytes", cache.bytes},         {"hits", cache.hits},
          {"misses", cache.misses},       {"stale", cache.stale},
          {"evictions", cache.evictions}, {"filled", cache.filled},
          {"along", cache.along},         {"along_right", cache.along_right}};
}

Json LocksJson(const LockCounts& locks) {
  return {{"acquired", locks.acquired},
          {"handed_over", locks.handed_over},
          {"combined", locks.combined},
          {"remote_retries", locks.remote_retries}};
}

Json ErrorsJson(const ErrorCounts& errors) {
  Json json = Json::object();
  for (size_t code = 0; code < kCodes; ++code) {
    if (errors.counts[code] == 0) continue;
    json[std::string(CodeName(static_cast<Code>(code)))] = errors.counts[code];
  }
  return json;
}

Json ProgressJson(const PhaseResult& phase) {
  Json json = Json::array();
  for (const ProgressPoint& point : phase.progress) {
    json.push_back({point.seconds, point.operations, point.failures});
  }
  return json;
}

Json PhaseJson(const PhaseResult& phase) {
  return {{"operations", phase.operations},
          {"failed", phase.errors.total()},
          {"seconds", phase.seconds},
          {"ops_per_second", phase.operations_per_second()},
          {"scanned_keys", phase.scanned_keys},
          {"cpu_seconds", phase.cpu_seconds},
          {"latency_us", LatenciesJson(phase)},
          {"errors", ErrorsJson(phase.errors)},
          {"progress", ProgressJson(phase)},
          {"interrupted", phase.interrupted},
          {"gave_up", phase.gave_up}};
}

Json FiguresJson(const ProcessFigures& figures) {
  return {{"operations", figures.operations},
          {"failed", figures.failed},
          {"seconds", figures.seconds},
          {"ops_per_second", figures.operations_per_second}};
}

Json ProcessesJson(const std::vector<ProcessReport>& processes) {
  Json json = Json::array();
  for (const ProcessReport& process : processes) {
    json.push_back({{"rank", json.size()},
                    {"host", process.host},
                    {"load", FiguresJson(process.load)},
                    {"run", FiguresJson(process.run)}});
  }
  return json;
}

ErrorCounts AllErrors(const BenchReport& report) {
  ErrorCounts errors = report.load.errors;
  errors.Merge(report.run.errors);
  return errors;
}

// ---- for people

std::string Spaced(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

// "8 + 8 B", and what keys are made of unless that is the usual.
std::string RecordText(const RunnerOptions& options) {
  const KeyChoice& keys = options.keys;
  std::string text = fmt::format("{}{} + {} B", keys.form == KeyForm::kNumbers ? "" : "up to ",
                                 KeyCodec(keys).max_key_bytes(), options.value_bytes);
  if (keys.form == KeyForm::kYcsb) text += ", keys of go-ycsb";
  if (keys.form == KeyForm::kLines) text += ", keys of " + Escaped(keys.list->path());
  if (!keys.prefix.empty()) text += ", prefix " + Quoted(keys.prefix);
  return text;
}

std::string InFlightText(const BenchReport& report) {
  const RunnerOptions& options = report.options;
  if (options.batch > 1) return fmt::format("batches of {}", options.batch);
  if (report.server) return HumanQuantity(options.coroutines, "request") + " in flight";
  const std::string coroutines = HumanQuantity(options.coroutines, "coroutine");
  return options.sessions == 1 ? coroutines
                               : HumanQuantity(options.sessions, "session") + ", " + coroutines;
}

std::string Header(const BenchReport& report) {
  const RunnerOptions& options = report.options;
  std::string text = "workload ";
  text += options.workload.name;
  text += ", ";
  text += DistributionName(options.workload.distribution);
  if (options.workload.distribution != Distribution::kUniform) {
    text += " (theta " + FixedDecimals(options.theta, 2) + ")";
  }
  text += fmt::format("; {} of {}; {}, ", HumanQuantity(options.records, "record"),
                      RecordText(options), HumanQuantity(options.threads, "thread"));
  text += InFlightText(report);
  if (options.threads > 1) text += " each";
  if (options.share.processes > 1) {
    text += fmt::format("; {} processes", options.share.processes);
  }
  text += "\n" + report.store_description + "\n";
  const std::string device = FactsText(report.device);
  if (!device.empty()) text += "by " + device + "\n";
  const Provenance& provenance = report.provenance;
  return text + provenance.date + " on " + provenance.host + ", " +
         HumanQuantity(provenance.processors, "processor") +
         (provenance.processor.empty() ? "" : " (" + provenance.processor + ")") + "; commit " +
         provenance.commit + "\n";
}

std::string PhaseLine(const char* name, const PhaseResult& phase) {
  std::string text = std::string(name) + ": " + HumanQuantity(phase.operations, "operation") +
                     " in " + HumanDuration(phase.seconds) + ", " +
                     HumanRate(phase.operations_per_second());
  if (phase.errors.total() > 0) text += ", " + HumanCount(phase.errors.total()) + " failed";
  if (phase.scanned_keys > 0) {
    text +=
        " (" +
        HumanRate(static_cast<double>(phase.scanned_keys) / std::max(phase.seconds, 1e-9), "keys") +
        " scanned)";
  }
  if (phase.operations > 0) {
    text += ", " + HumanDuration(phase.cpu_seconds / static_cast<double>(phase.operations)) +
            " of processor time each";
  }
  if (phase.interrupted) text += "; interrupted";
  if (phase.gave_up) {
    text += "; given up, as nothing but failures came";
  }
  return text + "\n";
}

std::string LatencyTable(const PhaseResult& phase) {
  std::vector<std::vector<std::string>> rows = {
      {"latency", "count", "mean", "p50", "p90", "p99", "p99.9", "max"}};
  for (size_t i = 0; i < kBenchOperations; ++i) {
    const auto kind = static_cast<BenchOperation>(i);
    const Histogram& histogram = phase.latency(kind);
    if (histogram.count() == 0) continue;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(Spaced(BenchOperationName(kind)));
    row.push_back(HumanCount(histogram.count()));
    row.push_back(HumanDuration(histogram.Mean() * 1e-9));
    for (const double percent : {50.0, 90.0, 99.0, 99.9, 100.0}) {
      row.push_back(HumanDuration(static_cast<double>(histogram.Percentile(percent)) * 1e-9));
    }
  }
  return rows.size() == 1 ? std::string() : TextTable(rows);
}

std::string CostTable(const Counters& counters) {
  std::vector<std::vector<std::string>> rows = {{"cost of one", "operations", "round trips", "READ",
                                                 "WRITE", "CAS", "bytes read", "bytes written"}};
  for (size_t i = 0; i < kOperationClasses; ++i) {
    const auto operation = static_cast<OperationClass>(i);
    const WireCounts& wire = counters.of(operation);
    if (wire.operations == 0) continue;
    const auto each = [&wire](uint64_t total, int decimals) {
      return FixedDecimals(static_cast<double>(total) / static_cast<double>(wire.operations),
                           decimals);
    };
    rows.push_back({Spaced(OperationClassName(operation)), HumanCount(wire.operations),
                    each(wire.round_trips, 3), each(wire.reads, 3), each(wire.writes, 3),
                    each(wire.atomics, 3), each(wire.bytes_read, 1), each(wire.bytes_written, 1)});
  }
  return rows.size() == 1 ? std::string() : TextTable(rows);
}

std::string CacheAndLocks(const Counters& counters) {
  const CacheCounts& cache = counters.cache;
  const uint64_t lookups = cache.hits + cache.misses;
  std::string text = "  cache: " + HumanBytes(cache.bytes);
  if (lookups > 0) {
    text +=
        ", " +
        FixedDecimals(100.0 * static_cast<double>(cache.hits) / static_cast<double>(lookups), 2) +
        " % hits";
  }
  text += ", " + HumanQuantity(cache.misses, "miss", "misses") + ", " + HumanCount(cache.stale) +
          " stale, " + HumanQuantity(cache.evictions, "eviction") + ", " +
          HumanCount(cache.filled) + " read ahead\n";
  if (cache.along != 0) {
    text += "  references: " + HumanQuantity(cache.along, "block") + " READ along with groups, " +
            HumanCount(cache.along - cache.along_right) + " in vain\n";
  }
  const LockCounts& locks = counters.locks;
  text += "  locks: " + HumanCount(locks.acquired) + " acquired, " + HumanCount(locks.handed_over) +
          " handed over, " + HumanCount(locks.combined) + " writes combined, " +
          HumanQuantity(locks.remote_retries, "retry", "retries") +
          "; rereads: " + HumanCount(counters.rereads) + "\n";
  return text;
}

nlohmann::ordered_json OrNull(std::optional<double> number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

// "server: 0.41 µs of processor time for each operation"
std::string ServerLine(const PhaseResult& phase) {
  const std::optional<double> seconds = phase.server_cpu_seconds;
  if (phase.operations == 0 || !seconds) return {};
  return "  server: " + HumanDuration(*seconds / static_cast<double>(phase.operations)) +
         " of processor time for each operation\n";
}

// What the client knows of the store itself is nothing, if it is behind a server.
std::string PhaseText(const char* name, const BenchReport& report, const PhaseResult& phase) {
  std::string text = PhaseLine(name, phase) + LatencyTable(phase);
  if (report.server) return text + ServerLine(phase);
  return text + CostTable(phase.counters) + CacheAndLocks(phase.counters);
}

std::string ProcessTable(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"process", "host"}};
  const auto add_phase = [&rows, &report](const char* name, ProcessFigures ProcessReport::* phase) {
    rows[0].insert(rows[0].end(), {name, "in", "rate"});
    for (size_t rank = 0; rank < report.processes.size(); ++rank) {
      const ProcessFigures& figures = report.processes[rank].*phase;
      rows[rank + 1].insert(rows[rank + 1].end(),
                            {HumanCount(figures.operations), HumanDuration(figures.seconds),
                             HumanRate(figures.operations_per_second)});
    }
  };
  for (size_t rank = 0; rank < report.processes.size(); ++rank) {
    rows.push_back({HumanCount(rank), report.processes[rank].host});
  }
  if (report.loaded) add_phase("loaded", &ProcessReport::load);
  if (report.ran) add_phase("ran", &ProcessReport::run);
  return TextTable(rows, {0, 1});
}

std::string ErrorLines(const ErrorCounts& errors) {
  if (errors.total() == 0) return "no errors\n";
  std::string text = HumanQuantity(errors.total(), "operation") + " failed:\n";
  for (size_t code = 0; code < kCodes; ++code) {
    if (errors.counts[code] == 0) continue;
    text += "  " + std::string(CodeName(static_cast<Code>(code))) + " " +
            HumanCount(errors.counts[code]);
    if (!errors.messages[code].empty()) text += ", the first: " + errors.messages[code];
    text += "\n";
  }
  return text;
}

}  // namespace

Json LatencyJson(const Histogram& histogram) {
  constexpr double kNanosecondsPerMicrosecond = 1000;
  const auto percentile = [&histogram](double percent) {
    return static_cast<double>(histogram.Percentile(percent)) / kNanosecondsPerMicrosecond;
  };
  return {{"count", histogram.count()}, {"mean", histogram.Mean() / kNanosecondsPerMicrosecond},
          {"p50", percentile(50)},      {"p90", percentile(90)},
          {"p99", percentile(99)},      {"p999", percentile(99.9)},
          {"max", percentile(100)}};
}

Json ToJson(const BenchReport& report) {
  const Counters& counters = report.run.counters;
  Json json = ReportHead(report.config, report.provenance);
  if (!report.device.facts.empty()) {
    for (const auto& [name, value] : report.device.facts) json["device"][name] = value;
  }
  json["load"] = PhaseJson(report.load);
  json["load"]["wire"] = WireJson(report.load.counters);
  json["load"]["cache"] = CacheJson(report.load.counters.cache);
  json["load"]["locks"] = LocksJson(report.load.counters.locks);
  json["load"]["rereads"] = report.load.counters.rereads;
  json["run"] = PhaseJson(report.run);
  json["wire"] = WireJson(counters);
  json["cache"] = CacheJson(counters.cache);
  json["locks"] = LocksJson(counters.locks);
  json["rereads"] = counters.rereads;
  json["errors"] = ErrorsJson(AllErrors(report));
  json["interrupted"] = report.interrupted;
  if (report.options.share.processes > 1 && report.processes.empty()) {
    json["rank"] = report.options.share.rank;
  }
  if (!report.processes.empty()) json["processes"] = ProcessesJson(report.processes);
  if (report.server) {
    json["server"] = {{"software", *report.server},
                      {"load_cpu_seconds", OrNull(report.load.server_cpu_seconds)},
                      {"run_cpu_seconds", OrNull(report.run.server_cpu_seconds)}};
  }
  return json;
}

std::string ToText(const BenchReport& report) {
  std::string text = Header(report);
  if (report.loaded) text += "\n" + PhaseText("load", report, report.load);
  if (report.ran) text += "\n" + PhaseText("run", report, report.run);
  if (!report.processes.empty()) text += "\n" + ProcessTable(report);
  text += "\n" + ErrorLines(AllErrors(report));
  if (!report.remark.empty()) text += report.remark + "\n";
  if (report.interrupted) text += "Interrupted: the figures are of what ran until then.\n";
  return text;
}

}  // namespace gossamer::bench
