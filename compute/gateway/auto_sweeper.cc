#include "compute/gateway/auto_sweeper.h"

#include <glog/logging.h>

#include <cassert>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/text/human.h"

namespace gossamer::gateway {

using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<AutoSweeper>> AutoSweeper::Start(Store& store,
                                                        std::chrono::milliseconds after) {
  assert(after.count() > 0);
  std::unique_ptr<AutoSweeper> sweeper(new AutoSweeper(store, after));
  BOOST_OUTCOME_TRYV(sweeper->thread_.Start("sweep", [&own = *sweeper] { own.Run(); }));
  return sweeper;
}

void AutoSweeper::Run() {
  bool was_needed = false;
  while (thread_.Rest(after_)) {
    const Result<bool> is_needed = store_.NeedsSweep();
    if (!is_needed) {
      NoteFailure(is_needed.error());
    } else if (is_needed.value() && was_needed) {
      Sweep();
    }
    was_needed = is_needed && is_needed.value();
  }
}

void AutoSweeper::Sweep() {
  {
    const std::lock_guard guard(mutex_);
    figures_.is_sweeping = true;
    figures_.nodes = 0;
  }
  const Clock::time_point begun = Clock::now();
  uint64_t nodes = 0;
  Clock::time_point woken = begun;
  const Result<std::optional<SweepReport>> report =
      store_.SweepIfNeeded([&](const SweepProgress& progress) {
        nodes = progress.nodes;
        {
          const std::lock_guard guard(mutex_);
          figures_.nodes = nodes;
        }
        const bool goes_on = thread_.Rest((kShare - 1) * (Clock::now() - woken));
        woken = Clock::now();
        return goes_on;
      });
  uint64_t swept_bytes = 0;
  const bool has_swept = report && report.value() && !report.value()->was_stopped;
  if (has_swept) {
    for (const auto& [server, memory] : report.value()->servers) swept_bytes += memory.swept_bytes;
    LOG(INFO) << "gave back " << HumanBytes(swept_bytes)
              << " that compute servers have left behind which ended; it took "
              << std::chrono::duration<double>(woken - begun).count() << " s to read the tree";
    last_failure_.clear();
  } else if (!report) {
    NoteFailure(report.error());
  }
  const std::lock_guard guard(mutex_);
  figures_.is_sweeping = false;
  figures_.sweeps += has_swept ? 1 : 0;
  figures_.swept_bytes += swept_bytes;
}

// The same one is told once, until a sweep ends well.
void AutoSweeper::NoteFailure(const Error& error) {
  if (std::exchange(last_failure_, error.message) != error.message) {
    LOG(WARNING) << "no sweep for now: " << error.message;
  }
  const std::lock_guard guard(mutex_);
  ++figures_.failures;
}

AutoSweeper::Figures AutoSweeper::figures() const {
  const std::lock_guard guard(mutex_);
  return figures_;
}

void AutoSweeper::AddTo(Families& families) const {
  const Figures now = figures();
  families.Counter("gossamer_sweeps_total", "Sweeps of this compute server.")
      .Add({{"result", "done"}}, now.sweeps)
      .Add({{"result", "failed"}}, now.failures);
  families.Counter("gossamer_swept_bytes_total",
                   "Memory of compute servers that ended, given back by sweeps of this one.",
                   now.swept_bytes);
  families.Gauge("gossamer_sweeping", "1 while this compute server sweeps.",
                 uint64_t{now.is_sweeping});
}

nlohmann::ordered_json AutoSweeper::State() const {
  const Figures now = figures();
  return {{"done", now.sweeps},
          {"failed", now.failures},
          {"swept_bytes", now.swept_bytes},
          {"is_sweeping", now.is_sweeping},
          {"nodes", now.nodes}};
}

}  // namespace gossamer::gateway
