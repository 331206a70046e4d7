#include "compute/verify/sim/measure_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/sim/costs.h"
#include "common/text/human.h"
#include "common/text/text_table.h"
#include "compute/bench/report.h"

namespace gossamer::simulator {
namespace {

using Json = nlohmann::ordered_json;

const WireCounts& UpdatesOf(const Measurement& measurement) {
  return measurement.counters.of(OperationClass::kUpdate);
}

std::string Latency(const Histogram& histogram, double percent) {
  return HumanDuration(static_cast<double>(histogram.Percentile(percent)) * 1e-9);
}

Json RowJson(std::string_view part, const Measurement& measurement) {
  const MeasureOptions& options = measurement.options;
  const MeasuredDesign& design = measurement.design;
  const WireCounts& updates = UpdatesOf(measurement);
  const LockCounts& locks = measurement.counters.locks;
  Json row = {{"part", part}, {"design", design.name}};
  if (design.research) {
    row["combined_commands"] = design.research->combined_commands;
    row["on_chip_locks"] = design.research->on_chip_locks;
    row["hierarchical_locks"] = design.research->hierarchical_locks;
    row["two_level_versions"] = design.research->two_level_versions;
    row["release_by_write"] = design.research->release_by_write;
  }
  row.update(Json{{"seed", options.seed},
                  {"memory_servers", options.memory_servers},
                  {"compute_servers", options.compute_servers},
                  {"threads", options.threads},
                  {"coroutines", options.coroutines},
                  {"records", options.records},
                  {"theta", options.theta},
                  {"ranks", options.ranks},
                  {"update_percent", options.update_percent},
                  {"milliseconds", options.milliseconds},
                  {"ops_per_second", measurement.operations_per_second()},
                  {"reads_per_second", measurement.reads_per_second()},
                  {"updates_per_second", measurement.updates_per_second()},
                  {"latency_us",
                   {{"read", bench::LatencyJson(measurement.read_ns)},
                    {"update", bench::LatencyJson(measurement.update_ns)}}},
                  {"update_wire",
                   {{"operations", updates.operations},
                    {"round_trips", updates.round_trips},
                    {"reads", updates.reads},
                    {"writes", updates.writes},
                    {"cas", updates.atomics},
                    {"bytes_read", updates.bytes_read},
                    {"bytes_written", updates.bytes_written}}},
                  {"locks",
                   {{"acquired", locks.acquired},
                    {"handed_over", locks.handed_over},
                    {"combined", locks.combined},
                    {"remote_retries", locks.remote_retries}}},
                  {"rereads", measurement.counters.rereads}});
  return row;
}

}  // namespace

std::string ReportText(std::span<const Measurement> measurements) {
  std::vector<std::vector<std::string>> rows = {
      {"design", "servers x threads", "theta", "operations", "x naive", "updates", "round trips",
       "retries", "p50 update", "p99", "p50 read", "p99"}};
  const Measurement* naive = nullptr;
  for (const Measurement& measurement : measurements) {
    const MeasureOptions& options = measurement.options;
    if (naive == nullptr || measurement.design.name.starts_with(DesignLadder().front().name)) {
      naive = &measurement;
    }
    std::string load = fmt::format("{} x {}", options.compute_servers, options.threads);
    if (options.coroutines > 1) load += fmt::format(" x {}", options.coroutines);
    rows.push_back(
        {std::string(measurement.design.name), load, FixedDecimals(options.theta, 2),
         HumanRate(measurement.operations_per_second()),
         FixedDecimals(measurement.operations_per_second() / naive->operations_per_second(), 1),
         HumanRate(measurement.updates_per_second()),
         FixedDecimals(measurement.PerUpdate(UpdatesOf(measurement).round_trips), 2),
         FixedDecimals(measurement.PerUpdate(measurement.counters.locks.remote_retries), 2),
         Latency(measurement.update_ns, 50), Latency(measurement.update_ns, 99),
         Latency(measurement.read_ns, 50), Latency(measurement.read_ns, 99)});
  }
  return TextTable(rows);
}

Json ReportJson(std::span<const PlannedMeasurement> plan,
                std::span<const Measurement> measurements) {
  const SimCosts costs = MeasuredSimCosts();
  Json rows = Json::array();
  for (size_t i = 0; i < measurements.size(); ++i) {
    rows.push_back(RowJson(plan[i].part, measurements[i]));
  }
  return {{"schema", 1},
          {"costs",
           {{"one_way_ns", costs.one_way_ns},
            {"wire_bytes_per_us", costs.wire_bytes_per_us},
            {"nic_message_ns", costs.nic_message_ns},
            {"pcie_read_ns", costs.pcie_read_ns},
            {"pcie_write_ns", costs.pcie_write_ns},
            {"dram_atomic_ns", costs.dram_atomic_ns},
            {"on_chip_atomic_ns", costs.on_chip_atomic_ns},
            {"atomic_slots", costs.atomic_slots},
            {"completion_cpu_ns", costs.completion_cpu_ns}}},
          {"rows", std::move(rows)}};
}

}  // namespace gossamer::simulator
