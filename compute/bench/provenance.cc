#include "compute/bench/provenance.h"

#include <fmt/chrono.h>
#include <gflags/gflags.h>
#include <sched.h>
#include <sys/utsname.h>
#include <time.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/program/output_file.h"
#include "common/version.h"

namespace gossamer::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

uint32_t UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

}  // namespace

Provenance ThisProvenance(std::string_view commit) {
  utsname system{};
  uname(&system);
  return {
      .commit = std::string(commit),
      .host = system.nodename,
      .processor = ProcessorModel(),
      .processors = UsableProcessors(),
      .operating_system = std::string(system.sysname) + " " + system.release + " " + system.machine,
      .date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time(nullptr)))};
}

Json ConfigJson(const ProgramInfo& program) {
  Json config = Json::object();
  for (const auto& [name, value] : FlagsInForce(program)) {
    const std::string type = gflags::GetCommandLineFlagInfoOrDie(name.c_str()).type;
    config[name] = type == "string" ? Json(value) : Json::parse(value);
  }
  return config;
}

Json ReportHead(const Json& config, const Provenance& provenance) {
  return {{"schema", 1},
          {"config", config},
          {"build",
           {{"version", BuildVersion()},
            {"compiler", BuildCompiler()},
            {"type", BuildType()},
            {"commit", provenance.commit}}},
          {"date", provenance.date},
          {"host",
           {{"name", provenance.host},
            {"processor", provenance.processor},
            {"processors", provenance.processors},
            {"operating_system", provenance.operating_system}}}};
}

int WriteReport(const ProgramInfo& program, const std::string& path, const std::string& text,
                const Json& json) {
  const bool json_to_stdout = path == "-";
  (json_to_stdout ? std::cerr : std::cout) << text << std::flush;
  if (path.empty()) return kExitSuccess;
  // A path in a flag may be any bytes; JSON allows only UTF-8.
  const std::string json_text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (json_to_stdout) {
    std::cout << json_text;
    return kExitSuccess;
  }
  const Status written = WriteFile(path, json_text);
  return written ? kExitSuccess : Failure(program, written.error().message);
}

}  // namespace gossamer::bench
