#include "compute/bench/process_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace gossamer::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t WireCounts::* kWireFields[] = {
    &WireCounts::operations, &WireCounts::round_trips,  &WireCounts::reads,
    &WireCounts::writes,     &WireCounts::atomics,      &WireCounts::sends,
    &WireCounts::bytes_read, &WireCounts::bytes_written};
constexpr uint64_t CacheCounts::* kCacheFields[] = {
    &CacheCounts::bytes,     &CacheCounts::hits,   &CacheCounts::misses, &CacheCounts::stale,
    &CacheCounts::evictions, &CacheCounts::filled, &CacheCounts::along,  &CacheCounts::along_right};
constexpr uint64_t LockCounts::* kLockFields[] = {&LockCounts::acquired, &LockCounts::handed_over,
                                                  &LockCounts::combined,
                                                  &LockCounts::remote_retries};
// A new counter must be added above.
static_assert(std::size(kWireFields) * sizeof(uint64_t) == sizeof(WireCounts));
static_assert(std::size(kCacheFields) * sizeof(uint64_t) == sizeof(CacheCounts));
static_assert(std::size(kLockFields) * sizeof(uint64_t) == sizeof(LockCounts));
static_assert(sizeof(Counters) == sizeof(WireCounts) * kOperationClasses + sizeof(CacheCounts) +
                                      sizeof(LockCounts) + 2 * sizeof(uint64_t));

template <typename Counts, size_t kFields>
Json EncodeCounts(const Counts& counts, uint64_t Counts::* const (&fields)[kFields]) {
  Json json = Json::array();
  for (uint64_t Counts::* const field : fields) json.push_back(counts.*field);
  return json;
}

template <typename Counts, size_t kFields>
Counts DecodeCounts(const Json& json, uint64_t Counts::* const (&fields)[kFields]) {
  Counts counts;
  for (size_t i = 0; i < kFields; ++i) counts.*fields[i] = json.at(i).get<uint64_t>();
  return counts;
}

Json EncodeCounters(const Counters& counters) {
  Json wire = Json::array();
  for (const WireCounts& one : counters.wire) wire.push_back(EncodeCounts(one, kWireFields));
  return {{"wire", std::move(wire)},
          {"cache", EncodeCounts(counters.cache, kCacheFields)},
          {"locks", EncodeCounts(counters.locks, kLockFields)},
          {"rereads", counters.rereads},
          {"expired", counters.expired}};
}

Counters DecodeCounters(const Json& json) {
  Counters counters;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    counters.wire[i] = DecodeCounts<WireCounts>(json.at("wire").at(i), kWireFields);
  }
  counters.cache = DecodeCounts<CacheCounts>(json.at("cache"), kCacheFields);
  counters.locks = DecodeCounts<LockCounts>(json.at("locks"), kLockFields);
  counters.rereads = json.at("rereads").get<uint64_t>();
  counters.expired = json.at("expired").get<uint64_t>();
  return counters;
}

Json EncodeHistogram(const Histogram& histogram) {
  const HistogramParts parts = histogram.Parts();
  return {{"counts", parts.counts}, {"sum", parts.sum}, {"min", parts.min}, {"max", parts.max}};
}

std::optional<Histogram> DecodeHistogram(const Json& json) {
  return Histogram::Assemble(
      {.counts = json.at("counts").get<std::vector<std::pair<uint32_t, uint64_t>>>(),
       .sum = json.at("sum").get<uint64_t>(),
       .min = json.at("min").get<uint64_t>(),
       .max = json.at("max").get<uint64_t>()});
}

Json EncodePhase(const PhaseResult& phase) {
  Json json = {{"operations", phase.operations},
               {"scanned_keys", phase.scanned_keys},
               {"seconds", phase.seconds},
               {"cpu_seconds", phase.cpu_seconds},
               {"server_cpu_seconds", nullptr},
               {"latency_ns", Json::array()},
               {"counters", EncodeCounters(phase.counters)},
               {"errors", Json::array()},
               {"interrupted", phase.interrupted},
               {"gave_up", phase.gave_up}};
  if (phase.server_cpu_seconds) json["server_cpu_seconds"] = *phase.server_cpu_seconds;
  for (const Histogram& histogram : phase.latency_ns) {
    json["latency_ns"].push_back(EncodeHistogram(histogram));
  }
  for (size_t code = 0; code < kCodes; ++code) {
    json["errors"].push_back({phase.errors.counts[code], phase.errors.messages[code]});
  }
  return json;
}

std::optional<PhaseResult> DecodePhase(const Json& json) {
  PhaseResult phase;
  phase.operations = json.at("operations").get<uint64_t>();
  phase.scanned_keys = json.at("scanned_keys").get<uint64_t>();
  phase.seconds = json.at("seconds").get<double>();
  phase.cpu_seconds = json.at("cpu_seconds").get<double>();
  phase.server_cpu_seconds = std::nullopt;
  if (const Json& seconds = json.at("server_cpu_seconds"); !seconds.is_null()) {
    phase.server_cpu_seconds = seconds.get<double>();
  }
  for (size_t i = 0; i < kBenchOperations; ++i) {
    std::optional<Histogram> histogram = DecodeHistogram(json.at("latency_ns").at(i));
    if (!histogram) return std::nullopt;
    phase.latency_ns[i] = *std::move(histogram);
  }
  phase.counters = DecodeCounters(json.at("counters"));
  for (size_t code = 0; code < kCodes; ++code) {
    const Json& error = json.at("errors").at(code);
    phase.errors.counts[code] = error.at(0).get<uint64_t>();
    phase.errors.messages[code] = error.at(1).get<std::string>();
  }
  phase.interrupted = json.at("interrupted").get<bool>();
  phase.gave_up = json.at("gave_up").get<bool>();
  return phase;
}

struct Phases {
  PhaseResult load;
  PhaseResult run;
};

std::optional<Phases> DecodePhases(const std::string& text) try {
  const Json json = Json::parse(text);
  std::optional<PhaseResult> load = DecodePhase(json.at("load"));
  std::optional<PhaseResult> run = DecodePhase(json.at("run"));
  if (!load || !run) return std::nullopt;
  return Phases{.load = *std::move(load), .run = *std::move(run)};
} catch (const Json::exception&) {
  return std::nullopt;
}

// Of another process.
void Add(const PhaseResult& one, PhaseResult& all) {
  all.Merge(one);
  all.counters.cache.bytes += one.counters.cache.bytes;
  if (!one.server_cpu_seconds || !all.server_cpu_seconds) {
    all.server_cpu_seconds = std::nullopt;
  } else {
    all.server_cpu_seconds = std::max(*all.server_cpu_seconds, *one.server_cpu_seconds);
  }
}

ProcessFigures FiguresOf(const PhaseResult& phase) {
  return {.operations = phase.operations,
          .failed = phase.errors.total(),
          .seconds = phase.seconds,
          .operations_per_second = phase.operations_per_second()};
}

}  // namespace

std::string EncodePhases(const BenchReport& report) {
  const Json json = {{"load", EncodePhase(report.load)}, {"run", EncodePhase(report.run)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status MergePhases(const std::vector<std::string>& texts, const std::vector<std::string>& hosts,
                   BenchReport& report) {
  report.load = PhaseResult();
  report.run = PhaseResult();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::optional<Phases> phases = DecodePhases(texts[rank]);
    if (!phases) {
      return MakeError(Code::kCorruption,
                       fmt::format("the result of rank {} (host {}) cannot be understood: are all "
                                   "programs of one version?",
                                   rank, hosts[rank]));
    }
    Add(phases->load, report.load);
    Add(phases->run, report.run);
    report.processes.push_back(
        {.host = hosts[rank], .load = FiguresOf(phases->load), .run = FiguresOf(phases->run)});
  }
  report.interrupted = report.load.interrupted || report.run.interrupted;
  return Ok();
}

}  // namespace gossamer::bench
