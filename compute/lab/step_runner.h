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
#include <type_traits>
#include <vector>

#include "common/status.h"
#include "compute/lab/steps.h"
#include "compute/lab/tree.h"

namespace gossamer::lab {

// Checks what reads and scans find.
class ResultCheck {
 public:
  void Value(Key key, std::optional<lab::Value> value) {
    wrong_ += value == ValueOfKey(key) ? 0 : 1;
  }

  // Scans from a key that is there, for as many entries as the step says.
  template <typename Tree>
  void Scan(const Tree& tree, const Step& step) {
    const auto found = std::span(found_).first(step.scan_length);
    const size_t count = tree.Scan(step.key, found);
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
  // `tree` must outlive the runner. With `batch` 1, each step is one call of the tree. With more,
  // the reads of so many steps are one FindMany, then their inserts one InsertMany; scans stay alone.
  SharingRunner(Tree& tree, uint32_t batch) : tree_(tree), batch_(batch), values_(batch) {
    keys_.reserve(batch);
    entries_.reserve(batch);
  }

  // Errors: none.
  Status Run(std::span<const Step> steps) {
    if (batch_ == 1) {
      for (const Step& step : steps) RunAlone(step);
      return Ok();
    }
    for (size_t first = 0; first < steps.size(); first += batch_) {
      BOOST_OUTCOME_TRYV(
          RunBatch(steps.subspan(first, std::min<size_t>(batch_, steps.size() - first))));
    }
    return Ok();
  }

  uint64_t wrong() const { return check_.wrong(); }

 private:
  void RunAlone(const Step& step) {
    switch (step.kind) {
      case BenchOperation::kRead: check_.Value(step.key, tree_.Get(step.key)); break;
      case BenchOperation::kScan: check_.Scan(tree_, step); break;
      default: tree_.Insert(step.key, ValueOfKey(step.key)); break;
    }
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
    BOOST_OUTCOME_TRYV(FindMany(tree_, std::span<const Key>(keys_), values));
    for (size_t i = 0; i < keys_.size(); ++i) check_.Value(keys_[i], values[i]);
    return InsertMany(tree_, std::span<const Entry>(entries_));
  }

  Tree& tree_;
  const uint32_t batch_;
  ResultCheck check_;
  std::vector<Key> keys_;
  std::vector<std::optional<Value>> values_;
  std::vector<Entry> entries_;
};

// Runs all steps on a tree with workers of its own.
template <ParallelTree Tree>
class CallingRunner {
 public:
  // The tree gets many batches at a time, so that it may work on more than one. `tree` must outlive
  // the runner.
  CallingRunner(Tree& tree, uint32_t batch) : tree_(tree), batch_(batch) {}

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
