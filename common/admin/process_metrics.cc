#include "common/admin/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>

#include "common/version.h"

namespace gossamer {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

struct MemorySize {
  uint64_t virtual_bytes = 0;
  uint64_t resident_bytes = 0;
};

MemorySize OwnMemory() {
  std::ifstream statm("/proc/self/statm");  // in pages
  MemorySize size;
  statm >> size.virtual_bytes >> size.resident_bytes;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  size.virtual_bytes *= page_bytes;
  size.resident_bytes *= page_bytes;
  return size;
}

}  // namespace

uint64_t OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
  uint64_t count = 0;
  while (directory && readdir(directory.get()) != nullptr) ++count;
  return count < 3 ? 0 : count - 3;  // without ".", ".." and the directory's own
}

ProcessorTime OwnProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {Seconds(usage.ru_utime), Seconds(usage.ru_stime)};
}

uint64_t ResidentBytes() { return OwnMemory().resident_bytes; }

void ProcessMetrics::AddTo(Families& families) const {
  families.Gauge("gossamer_build_info", "How the program was built; always 1.")
      .Add({{"version", BuildVersion()}, {"compiler", BuildCompiler()}, {"type", BuildType()}},
           uint64_t{1});
  families.Gauge("process_start_time_seconds",
                 "Start of the process, in seconds since the Unix epoch.",
                 std::chrono::duration<double>(start_time_.time_since_epoch()).count());
  const ProcessorTime time = OwnProcessorTime();
  families.Counter("process_cpu_seconds_total", "Processor time of the process, user and system.",
                   time.user_seconds + time.system_seconds);
  const MemorySize memory = OwnMemory();
  families.Gauge("process_resident_memory_bytes", "Memory of the process that is in DRAM.",
                 memory.resident_bytes);
  families.Gauge("process_virtual_memory_bytes", "Address space of the process.",
                 memory.virtual_bytes);
  families.Gauge("process_open_fds", "Open file descriptors.", OpenDescriptors());
}

}  // namespace gossamer
