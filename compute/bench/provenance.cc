#include "compute/bench/provenance.h"

#include <fmt/chrono.h>
#include <sched.h>
#include <sys/utsname.h>
#include <time.h>

#include <fstream>

namespace gossamer::bench {
namespace {

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

}  // namespace gossamer::bench
