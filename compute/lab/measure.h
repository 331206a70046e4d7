// Runs drawn steps on a tree, and measures them.
//
// Hot path: the loops of `StepRunner` neither allocate nor call virtual functions.
#pragma once

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "compute/lab/run_together.h"
#include "compute/lab/steps.h"
#include "compute/lab/tree.h"

namespace gossamer::lab {

// Runs the steps of one thread, and counts those with a wrong result.
template <LocalTree Tree>
class StepRunner {
 public:
  // `tree` must outlive the runner. With `batch` 1, each step is one call of the tree. With more,
  // the reads of so many steps are one GetMany, then their inserts one InsertMany; scans stay alone.
  StepRunner(Tree& tree, uint32_t batch) : tree_(tree), batch_(batch), values_(batch) {
    keys_.reserve(batch);
    entries_.reserve(batch);
  }

  void Run(std::span<const Step> steps) {
    if (batch_ == 1) {
      for (const Step& step : steps) RunAlone(step);
      return;
    }
    for (size_t first = 0; first < steps.size(); first += batch_) {
      RunBatch(steps.subspan(first, std::min<size_t>(batch_, steps.size() - first)));
    }
  }

  // Reads without the right value, and scans that do not begin with their key, are not ascending or
  // have a wrong value.
  uint64_t wrong() const { return wrong_; }

 private:
  void RunAlone(const Step& step) {
    switch (step.kind) {
      case BenchOperation::kRead: Check(step.key, tree_.Get(step.key)); break;
      case BenchOperation::kScan: Scan(step); break;
      default: tree_.Insert(step.key, ValueOfKey(step.key)); break;
    }
  }

  void RunBatch(std::span<const Step> steps) {
    keys_.clear();
    entries_.clear();
    for (const Step& step : steps) {
      switch (step.kind) {
        case BenchOperation::kRead: keys_.push_back(step.key); break;
        case BenchOperation::kScan: Scan(step); break;
        default: entries_.push_back({step.key, ValueOfKey(step.key)}); break;
      }
    }
    GetMany(tree_, std::span<const Key>(keys_), std::span(values_).first(keys_.size()));
    for (size_t i = 0; i < keys_.size(); ++i) Check(keys_[i], values_[i]);
    InsertMany(tree_, std::span<const Entry>(entries_));
  }

  void Scan(const Step& step) {
    const auto found = std::span(found_).first(step.scan_length);
    const size_t count = tree_.Scan(step.key, found);
    bool right = count > 0 && found[0].key == step.key;
    for (size_t i = 0; i < count; ++i) {
      right &= found[i].value == ValueOfKey(found[i].key);
      right &= i == 0 || found[i - 1].key < found[i].key;
    }
    wrong_ += right ? 0 : 1;
  }

  void Check(Key key, std::optional<Value> value) { wrong_ += value == ValueOfKey(key) ? 0 : 1; }

  Tree& tree_;
  const uint32_t batch_;
  uint64_t wrong_ = 0;
  std::vector<Key> keys_;
  std::vector<std::optional<Value>> values_;
  std::vector<Entry> entries_;
  std::array<Entry, kMaxScanLength> found_;
};

template <LocalTree Tree>
void Load(Tree& tree, const RunOptions& options) {
  for (uint64_t id = 0; id < options.mix.Loaded(options.records); ++id) {
    const Key key = KeyOfRecord(id);
    tree.Insert(key, ValueOfKey(key));
  }
}

struct Measurement {
  uint64_t operations = 0;
  double seconds = 0;        // from the first thread's begin to the last one's end
  double bytes_per_key = 0;  // that the allocator handed out, at the end

  double operations_per_second() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
};

// Bytes that malloc has handed out. (0 under a sanitizer, which has an allocator of its own.)
inline double AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

inline uint64_t CountInserts(std::span<const Step> steps) {
  return static_cast<uint64_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.kind == BenchOperation::kInsert;
  }));
}

// Loads a tree, runs the warm-up steps and then the measured ones.
// Errors: Corruption if the tree gave a wrong result; Unsupported if no thread can be started.
template <LocalTree Tree>
Result<Measurement> Measure(const RunOptions& options) {
  using Clock = std::chrono::steady_clock;
  const std::vector<ThreadSteps> steps = DrawSteps(options);
  const double bytes_before = AllocatedBytes();
  const auto tree = std::make_unique<Tree>();
  Load(*tree, options);

  std::vector<Clock::time_point> begins(options.threads);
  std::vector<Clock::time_point> ends(options.threads);
  std::vector<uint64_t> wrong(options.threads);
  BOOST_OUTCOME_TRYV(RunTogether(options.threads, [&](uint32_t thread) {
    StepRunner<Tree> runner(*tree, options.batch);
    runner.Run(steps[thread].warm_up);
    wrong[thread] = runner.wrong();
  }));
  BOOST_OUTCOME_TRYV(RunTogether(options.threads, [&](uint32_t thread) {
    StepRunner<Tree> runner(*tree, options.batch);
    begins[thread] = Clock::now();
    runner.Run(steps[thread].measured);
    ends[thread] = Clock::now();
    wrong[thread] += runner.wrong();
  }));

  uint64_t keys = options.mix.Loaded(options.records);
  uint64_t all_wrong = 0;
  for (uint32_t thread = 0; thread < options.threads; ++thread) {
    keys += CountInserts(steps[thread].warm_up) + CountInserts(steps[thread].measured);
    all_wrong += wrong[thread];
  }
  if (all_wrong > 0) {
    return MakeError(Code::kCorruption, fmt::format("{} of {} operations had a wrong result",
                                                    all_wrong, options.operations));
  }
  const auto begin = *std::min_element(begins.begin(), begins.end());
  const auto end = *std::max_element(ends.begin(), ends.end());
  const double bytes = std::max(AllocatedBytes() - bytes_before, 0.0);
  return Measurement{options.operations, std::chrono::duration<double>(end - begin).count(),
                     keys > 0 ? bytes / static_cast<double>(keys) : 0};
}

}  // namespace gossamer::lab
