// Reports of measurements: a table for people, and JSON for scripts/research/plot.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "compute/verify/sim/measure.h"

namespace gossamer::simulator {

// One line each, with the ratio to the latest preceding measurement of a naive design.
std::string ReportText(std::span<const Measurement> measurements);

// {"schema":1, "costs":{of the network}, "rows":[one for each measurement]}. `measurements` are
// those of the first entries of `plan`. Rates are per second of virtual time, latencies in
// microseconds, and counts are totals of the measured time. A row of Sherman's client has its
// switches, one of the product has none.
nlohmann::ordered_json ReportJson(std::span<const PlannedMeasurement> plan,
                                  std::span<const Measurement> measurements);

}  // namespace gossamer::simulator
