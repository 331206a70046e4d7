// ProcessMetrics: the figures of /metrics that every program has: its build, start, processor time,
// memory and descriptors, under the names that Prometheus' own clients use.
//
// Thread-safety: all calls from any thread. Cost: reads two small files of /proc and lists the
// descriptors.
#pragma once

#include <prometheus/collectable.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gossamer {

struct BuildFacts {
  std::string version;   // "0.1.0"
  std::string compiler;  // "g++ 12.2.0"
  std::string type;      // "RelWithDebInfo"
};

// Of the sources that this is compiled with.
BuildFacts OwnBuild();

// How many this process has open.
uint64_t OpenDescriptors();
// Bytes of memory that it has resident.
uint64_t ResidentBytes();

class ProcessMetrics final : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(BuildFacts build) : build_(std::move(build)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

  // Since this object was made, which a program does when it starts.
  std::chrono::duration<double> uptime() const { return std::chrono::steady_clock::now() - start_; }

 private:
  const BuildFacts build_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point start_time_ = std::chrono::system_clock::now();
};

}  // namespace gossamer
