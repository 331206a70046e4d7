// Measures a workload on a tree.
#pragma once

#include <fmt/core.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "compute/research/lab/run_together.h"
#include "compute/research/lab/step_runner.h"
#include "compute/research/lab/steps.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

// The threads that call the tree: one, if it has workers of its own.
template <LocalTree Tree>
uint32_t CallersOf(const RunOptions& options) {
  return ParallelTree<Tree> ? 1 : options.threads;
}

template <LocalTree Tree>
TreeSettings SettingsFor(const RunOptions& options) {
  // The warm-up inserts another tenth.
  return {.workers = options.threads,
          .partitions = std::max(options.partitions, 1u),
          .expected_keys = options.mix.Loaded(options.records) + options.operations * 11 / 10};
}

// The steps of all callers.
template <LocalTree Tree>
std::vector<ThreadSteps> DrawStepsFor(const RunOptions& options) {
  RunOptions of_callers = options;
  of_callers.threads = CallersOf<Tree>(options);
  return DrawSteps(of_callers);
}

// Inserts the records that a mix begins with. Errors: of Execute.
template <LocalTree Tree>
Status Load(Tree& tree, const RunOptions& options) {
  constexpr uint64_t kBatch = 8'192;
  std::vector<Entry> entries;
  for (uint64_t id = 0; id < options.mix.Loaded(options.records); ++id) {
    const Key key = KeyOfRecord(id);
    entries.push_back({key, ValueOfKey(key)});
    if (entries.size() < kBatch) continue;
    BOOST_OUTCOME_TRYV(InsertMany(tree, std::span<const Entry>(entries)));
    entries.clear();
  }
  return InsertMany(tree, std::span<const Entry>(entries));
}

using StepsOf = std::function<std::span<const Step>(uint32_t caller)>;
using Timed = std::function<void(uint32_t caller, const std::function<void()>& run)>;
inline void Untimed(uint32_t /*caller*/, const std::function<void()>& run) { run(); }

// Runs the steps of caller i, which `steps_of(i)` gives, by all callers at once. `timed(i, run)`
// calls `run`. Errors: Corruption if the tree gave a wrong result; Unsupported if no thread can be
// started.
template <LocalTree Tree>
Status RunSteps(Tree& tree, const RunOptions& options, const StepsOf& steps_of,
                const Timed& timed) {
  const uint32_t callers = CallersOf<Tree>(options);
  std::vector<Status> results(callers, Ok());
  std::vector<uint64_t> wrong(callers);
  BOOST_OUTCOME_TRYV(RunTogether(callers, [&](uint32_t caller) {
    StepRunner<Tree> runner(tree, options);
    timed(caller, [&] { results[caller] = runner.Run(steps_of(caller)); });
    wrong[caller] = runner.wrong();
  }));
  uint64_t all_wrong = 0;
  for (uint32_t caller = 0; caller < callers; ++caller) {
    BOOST_OUTCOME_TRYV(results[caller]);
    all_wrong += wrong[caller];
  }
  if (all_wrong == 0) return Ok();
  return MakeError(Code::kCorruption, fmt::format("{} of {} operations had a wrong result",
                                                  all_wrong, options.operations));
}

struct Measurement {
  uint64_t operations = 0;
  double seconds = 0;            // from the first thread's begin to the last one's end
  double processor_seconds = 0;  // that all threads had a processor for
  double bytes_per_key = 0;      // that the tree has taken, at the end

  double operations_per_second() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
};

// Bytes that malloc has handed out. (0 under a sanitizer, which has an allocator of its own.)
inline double AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

// What the tree has taken since the allocator had handed out `before` bytes.
template <LocalTree Tree>
double BytesOf(const Tree& tree, double before) {
  if constexpr (requires { tree.bytes(); }) {
    return static_cast<double>(tree.bytes());
  } else {
    return std::max(AllocatedBytes() - before, 0.0);
  }
}

// Of this process so far.
inline double ProcessorSeconds() {
  struct timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline uint64_t CountInserts(std::span<const Step> steps) {
  return static_cast<uint64_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.kind == BenchOperation::kInsert;
  }));
}

// Runs the warm-up steps on a loaded tree and then the measured ones. Errors: of RunSteps.
template <LocalTree Tree>
Result<Measurement> MeasureLoaded(Tree& tree, const RunOptions& options,
                                  std::span<const ThreadSteps> steps, double bytes_before) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begins(steps.size());
  std::vector<Clock::time_point> ends(steps.size());
  BOOST_OUTCOME_TRYV(RunSteps(
      tree, options, [&](uint32_t caller) { return std::span(steps[caller].warm_up); }, Untimed));
  const double processor_before = ProcessorSeconds();
  BOOST_OUTCOME_TRYV(RunSteps(
      tree, options, [&](uint32_t caller) { return std::span(steps[caller].measured); },
      [&](uint32_t caller, const std::function<void()>& run) {
        begins[caller] = Clock::now();
        run();
        ends[caller] = Clock::now();
      }));
  const double processor_seconds = ProcessorSeconds() - processor_before;

  uint64_t keys = options.mix.Loaded(options.records);
  for (const ThreadSteps& of_caller : steps) {
    keys += CountInserts(of_caller.warm_up) + CountInserts(of_caller.measured);
  }
  const auto begin = *std::min_element(begins.begin(), begins.end());
  const auto end = *std::max_element(ends.begin(), ends.end());
  const double bytes = BytesOf(tree, bytes_before);
  return Measurement{options.operations, std::chrono::duration<double>(end - begin).count(),
                     processor_seconds, keys > 0 ? bytes / static_cast<double>(keys) : 0};
}

// Loads a tree and measures `runs` on it, each of which `take` gets. Requires: one run at least; if
// there are more, that each SharesTree with the first. Errors: of RunSteps and Load.
template <LocalTree Tree>
Status Measure(std::span<const RunOptions> runs,
               const std::function<void(const Measurement&)>& take) {
  assert(!runs.empty());
  std::vector<ThreadSteps> steps = DrawStepsFor<Tree>(runs.front());
  const double bytes_before = AllocatedBytes();
  const auto tree = MakeTree<Tree>(SettingsFor<Tree>(runs.front()));
  BOOST_OUTCOME_TRYV(Load(*tree, runs.front()));
  for (const RunOptions& options : runs) {
    BOOST_OUTCOME_TRY(
        measured, MeasureLoaded(*tree, options, std::span<const ThreadSteps>(steps), bytes_before));
    take(measured);
  }
  return Ok();
}

}  // namespace gossamer::lab
