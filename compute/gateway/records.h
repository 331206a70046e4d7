// What a worker counts, and notes in the slow log.
//
// Thread-safety: none; the thread of the worker that `metrics` belongs to.
#pragma once

#include <chrono>

#include "compute/gateway/batch.h"
#include "compute/gateway/command_table.h"
#include "compute/gateway/slow_log.h"
#include "compute/metrics/worker_metrics.h"

namespace gossamer::gateway {

// Counts the requests of a batch that has been answered.
void Record(const Batch& batch, std::chrono::nanoseconds duration, WorkerMetrics::Worker& metrics);
// Notes, of each client, the longest of its requests: they all took as long.
void LogSlow(const Batch& batch, std::chrono::nanoseconds duration, SlowLog& slow_log);

}  // namespace gossamer::gateway
