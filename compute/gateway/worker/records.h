// What a worker counts, and notes in the slow log.
//
// Thread-safety: none; the thread of the worker that `metrics` belongs to.
#pragma once

#include <chrono>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/worker/batch.h"
#include "compute/metrics/worker_metrics.h"

namespace gossamer::gateway {

// Counts the requests of a batch that has been answered. If that was slow, notes the longest of
// each client's requests: they all took as long.
void Record(const Batch& batch, std::chrono::nanoseconds duration, WorkerMetrics::Worker& metrics,
            SlowLog& slow_log);

}  // namespace gossamer::gateway
