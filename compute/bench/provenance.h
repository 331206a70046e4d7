// What the reports of all programs that measure have: where, when and with which code figures were
// measured, and with which flags.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/program/flags_main.h"

namespace gossamer::bench {

struct Provenance {
  std::string commit;            // of the source; see BuildCommit
  std::string host;              // host name
  std::string processor;         // model; empty if unknown
  uint32_t processors = 0;       // usable by this process
  std::string operating_system;  // "Linux 6.1.0-18-amd64 x86_64"
  std::string date;              // start time: "2026-11-21T00:48:22Z"
};

// Of this machine, now.
Provenance ThisProvenance(std::string_view commit);

// The full hash of the commit that the program was built from, with "-dirty" appended if files
// differed; "unknown" without git. Defined in a file that each build updates.
std::string_view BuildCommit();

// Every flag of the program with its value, numbers as numbers.
nlohmann::ordered_json ConfigJson(const ProgramInfo& program);

// The fields with which a report of schema 1 begins: schema, config, build, date and host.
nlohmann::ordered_json ReportHead(const nlohmann::ordered_json& config,
                                  const Provenance& provenance);

// Prints `text` to stdout, and writes `json` to the file `path`, if that is not empty. "-" is
// stdout: the text goes to stderr then. Returns the exit status.
int WriteReport(const ProgramInfo& program, const std::string& path, const std::string& text,
                const nlohmann::ordered_json& json);

}  // namespace gossamer::bench
