// What measurements come to: a table for people, and JSON for scripts/plot.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "compute/verify/sim/measure.h"

namespace gossamer::simulator {

// A line each, with the ratio to the naive design that was measured last before it.
std::string ReportText(std::span<const Measurement> measurements);

// {"schema":1, "costs":{of the network}, "rows":[one for each measurement]}: of the first of what was planned. Rates
// are per second of virtual time, latencies in microseconds; counts are totals of the measured time.
nlohmann::ordered_json ReportJson(std::span<const PlannedMeasurement> plan,
                                  std::span<const Measurement> measurements);

}  // namespace gossamer::simulator
