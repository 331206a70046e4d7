#include "compute/research/lab/report.h"

#include "common/text/human.h"
#include "common/text/text_table.h"

namespace gossamer::lab {
namespace {

using Json = nlohmann::ordered_json;

Json RowJson(const Row& row) {
  const RunOptions& options = row.run.options;
  const uint32_t fanout = row.run.tree->fanout;
  const uint32_t partitions = options.partitions;
  return {{"tree", row.run.tree->name},
          {"fanout", fanout == 0 ? Json() : Json(fanout)},
          {"partitions", partitions == 0 ? Json() : Json(partitions)},
          {"batch", options.batch},
          {"prefetch", options.prefetch.empty() ? Json() : Json(options.prefetch)},
          {"threads", options.threads},
          {"workload", options.mix.name},
          {"distribution", bench::DistributionName(options.distribution)},
          {"records", options.records},
          {"operations", row.measurement.operations},
          {"seconds", row.measurement.seconds},
          {"processor_seconds", row.measurement.processor_seconds},
          {"ops_per_second", row.measurement.operations_per_second()},
          {"bytes_per_key", row.measurement.bytes_per_key}};
}

}  // namespace

Json ToJson(const LabReport& report) {
  Json json = bench::ReportHead(report.config, report.provenance);
  json["rows"] = Json::array();
  for (const Row& row : report.rows) json["rows"].push_back(RowJson(row));
  return json;
}

std::string ToText(const std::vector<Row>& rows) {
  TextRows table = {{"tree", "workload", "distribution", "fanout", "partitions", "threads", "batch",
                     "prefetch", "operations", "throughput", "bytes a key"}};
  for (const Row& row : rows) {
    const RunOptions& options = row.run.options;
    const uint32_t fanout = row.run.tree->fanout;
    table.push_back({std::string(row.run.tree->name), std::string(options.mix.name),
                     std::string(bench::DistributionName(options.distribution)),
                     fanout == 0 ? "-" : std::to_string(fanout),
                     options.partitions == 0 ? "-" : std::to_string(options.partitions),
                     std::to_string(options.threads), std::to_string(options.batch),
                     options.prefetch.empty() ? "off" : std::string(options.prefetch),
                     HumanCount(row.measurement.operations),
                     HumanRate(row.measurement.operations_per_second()),
                     FixedDecimals(row.measurement.bytes_per_key, 1)});
  }
  return TextTable(table, {0, 1, 2});
}

}  // namespace gossamer::lab
