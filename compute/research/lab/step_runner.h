// Run drawn steps on a tree, and check every result.
//
// Hot path: the loops neither allocate for a step nor call virtual functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/research/lab/steps.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

// Checks what reads and scans find.
class ResultCheck {
 public:
  void Value(Key key, std::optional<lab::Value> value) {
    wrong_ += value == ValueOfKey(key) ? 0 : 1;
  }

  // Scans from a key that is there, for as many entries as the step says.
  template <typename Tree, typename... Hint>
  void Scan(const Tree& tree, const Step& step, const Hint&... hint) {
    const auto found = std::span(found_).first(step.scan_length);
    const size_t count = tree.Scan(step.key, found, hint...);
    bool right = count > 0 && found[0].key == step.key;
    for (size_t i = 0; i < count; ++i) {
      right &= found[i].value == ValueOfKey(found[i].key);
      right &= i == 0 || found[i - 1].key < found[i].key;
    }
    wrong_ += right ? 0 : 1;
  }

  // Reads without the right value, and scans that do not begin with their key, are not ascending or
  // have a wrong value.
  uint64_t wrong() const { return wrong_; }

 private:
  uint64_t wrong_ = 0;
  std::array<Entry, kMaxScanLength> found_;
};

// Runs the steps of one of the threads that share a tree.
template <LocalTree Tree>
class SharingRunner {
 public:
  // With batch 1 and no prefetch, each step is one call of the tree.
  //
  // A PreparingTree gets the keys of each batch first, if the options name a way to prefetch; then
  // each step is one call, in their order. With others, the reads of a batch are one FindMany, then
  // its inserts one InsertMany; scans stay alone. `tree` must outlive the runner.
  SharingRunner(Tree& tree, const RunOptions& options)
      : tree_(tree),
        batch_(options.batch),
        prefetch_(NumberOf(options.prefetch)),
        per_call_(BatchingTree<Tree> ? std::max(options.steps_per_call, batch_) : batch_),
        one_by_one_(batch_ == 1 && !prefetch_),
        values_(per_call_) {
    keys_.reserve(per_call_);
    entries_.reserve(per_call_);
    if constexpr (PreparingTree<Tree>) hints_.resize(batch_);
  }

  // Errors: none.
  Status Run(std::span<const Step> steps) {
    if (one_by_one_) {
      for (const Step& step : steps) RunStep(step);
      return Ok();
    }
    for (size_t first = 0; first < steps.size(); first += per_call_) {
      const auto some = steps.subspan(first, std::min<size_t>(per_call_, steps.size() - first));
      if constexpr (PreparingTree<Tree>) {
        if (prefetch_) {
          RunPrepared(some);
          continue;
        }
      }
      BOOST_OUTCOME_TRYV(RunBatch(some));
    }
    return Ok();
  }

  uint64_t wrong() const { return check_.wrong(); }

 private:
  static std::optional<size_t> NumberOf(std::string_view prefetch) {
    const auto names = PrefetchesOf<Tree>();
    const auto found = std::find(names.begin(), names.end(), prefetch);
    if (found == names.end()) return std::nullopt;
    return static_cast<size_t>(found - names.begin());
  }

  // `hint` is one for the step's key, or nothing.
  template <typename... Hint>
  void RunStep(const Step& step, const Hint&... hint) {
    switch (step.kind) {
      case BenchOperation::kRead: check_.Value(step.key, tree_.Get(step.key, hint...)); break;
      case BenchOperation::kScan: check_.Scan(tree_, step, hint...); break;
      default: tree_.Insert(step.key, ValueOfKey(step.key), hint...); break;
    }
  }

  void RunPrepared(std::span<const Step> steps) {
    keys_.clear();
    for (const Step& step : steps) keys_.push_back(step.key);
    const auto hints = std::span(hints_).first(steps.size());
    tree_.Prepare(keys_, hints, *prefetch_);
    for (size_t i = 0; i < steps.size(); ++i) RunStep(steps[i], hints[i]);
  }

  Status RunBatch(std::span<const Step> steps) {
    keys_.clear();
    entries_.clear();
    for (const Step& step : steps) {
      switch (step.kind) {
        case BenchOperation::kRead: keys_.push_back(step.key); break;
        case BenchOperation::kScan: check_.Scan(tree_, step); break;
        default: entries_.push_back({step.key, ValueOfKey(step.key)}); break;
      }
    }
    const auto values = std::span(values_).first(keys_.size());
    BOOST_OUTCOME_TRYV(FindMany(tree_, std::span<const Key>(keys_), values, batch_,
                                prefetch_.value_or(DefaultPrefetchOf<Tree>())));
    for (size_t i = 0; i < keys_.size(); ++i) check_.Value(keys_[i], values[i]);
    return InsertMany(tree_, std::span<const Entry>(entries_));
  }

  struct NoHint {};
  template <typename Any>
  struct HintOf {
    using Type = NoHint;
  };
  template <PreparingTree Any>
  struct HintOf<Any> {
    using Type = typename Any::Hint;
  };

  Tree& tree_;
  const uint32_t batch_;
  const std::optional<size_t> prefetch_;
  const uint32_t per_call_;
  const bool one_by_one_;
  ResultCheck check_;
  std::vector<Key> keys_;
  std::vector<std::optional<Value>> values_;
  std::vector<Entry> entries_;
  std::vector<typename HintOf<Tree>::Type> hints_;
};

// Runs all steps on a tree with workers of its own.
template <ParallelTree Tree>
class CallingRunner {
 public:
  // The tree gets many batches at a time, so that it may work on more than one. `tree` must outlive
  // the runner.
  CallingRunner(Tree& tree, const RunOptions& options) : tree_(tree), batch_(options.batch) {}

  // A scan waits for the steps before it, and is one call of the tree. Errors: of Execute.
  Status Run(std::span<const Step> steps) {
    constexpr size_t kMostHanded = 1 << 20;
    for (const Step& step : steps) {
      if (step.kind == BenchOperation::kScan) {
        BOOST_OUTCOME_TRYV(HandOver());
        check_.Scan(tree_, step);
        continue;
      }
      requests_.push_back(step.kind == BenchOperation::kRead
                              ? Request::Get(step.key)
                              : Request::Insert({step.key, ValueOfKey(step.key)}));
      if (requests_.size() < kMostHanded) continue;
      BOOST_OUTCOME_TRYV(HandOver());
    }
    return HandOver();
  }

  uint64_t wrong() const { return check_.wrong(); }

 private:
  Status HandOver() {
    BOOST_OUTCOME_TRYV(tree_.Execute(requests_, batch_));
    for (const Request& request : requests_) {
      if (!request.is_insert) check_.Value(request.key, request.Result());
    }
    requests_.clear();
    return Ok();
  }

  Tree& tree_;
  const uint32_t batch_;
  ResultCheck check_;
  std::vector<Request> requests_;
};

template <LocalTree Tree>
struct RunnerFor {
  using Type = SharingRunner<Tree>;
};
template <ParallelTree Tree>
struct RunnerFor<Tree> {
  using Type = CallingRunner<Tree>;
};
template <LocalTree Tree>
using StepRunner = typename RunnerFor<Tree>::Type;

}  // namespace gossamer::lab
