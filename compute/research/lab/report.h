// Output of the lab: rows for people as they are measured, and JSON for programs (schema 1).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compute/bench/provenance.h"
#include "compute/research/lab/measure.h"
#include "compute/research/lab/plan.h"

namespace gossamer::lab {

struct Row {
  PlannedRun run;
  Measurement measurement;
};

struct LabReport {
  nlohmann::ordered_json config;  // every flag with its value
  bench::Provenance provenance;
  std::vector<Row> rows;
};

nlohmann::ordered_json ToJson(const LabReport& report);

// The rows as a table, with its head.
std::string ToText(const std::vector<Row>& rows);

}  // namespace gossamer::lab
