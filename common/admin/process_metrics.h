// ProcessMetrics: the figures of /metrics that every program has: its build, start, processor time,
// memory and descriptors, under the names that Prometheus' own clients use.
//
// Thread-safety: all calls from any thread. Cost: reads two small files of /proc and lists the
// descriptors.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/admin/metrics.h"

namespace gossamer {

// How many this process has open.
uint64_t OpenDescriptors();
// Bytes of memory that it has resident.
uint64_t ResidentBytes();

struct ProcessorTime {
  double user_seconds;
  double system_seconds;
};
ProcessorTime OwnProcessorTime();

class ProcessMetrics {
 public:
  void AddTo(Families& families) const;

  // Since this object was made, which a program does when it starts.
  std::chrono::duration<double> uptime() const { return std::chrono::steady_clock::now() - start_; }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point start_time_ = std::chrono::system_clock::now();
};

}  // namespace gossamer
