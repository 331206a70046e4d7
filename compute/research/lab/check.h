// Compares a tree with std::map on small data.
//
//   CheckAlone      one caller, all operations at random: each result must be that of the reference
//   CheckBatches    trees with workers: long calls of gets and inserts, in batches of many sizes
//   CheckContended  threads insert, replace, read and scan the same few keys
//   CheckHints      the same in small batches, each operation with the hint from preparing them
//   CheckDescending one thread inserts in front of the keys that others read, which moves them
//   CheckMix        a workload as it is measured; the tree must then hold what was inserted
//
// Errors of all: Corruption, with the first difference; Unsupported if no thread can be started.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/status.h"
#include "compute/research/lab/any_tree.h"
#include "compute/research/lab/measure.h"
#include "compute/research/lab/run_together.h"
#include "compute/research/lab/steps.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

using Reference = std::map<Key, Value>;

inline Error Difference(const std::string& sentence) {
  return MakeError(Code::kCorruption, sentence);
}

// Compares gets of all keys, and of as many others, and a scan.
Status CompareAll(AnyTree& tree, const Reference& reference);

Status CheckAlone(TreeMaker make, const TreeSettings& settings, uint64_t seed);
// Requires (unchecked): a tree that is_parallel().
Status CheckBatches(TreeMaker make, const TreeSettings& settings, uint64_t seed);
Status CheckContended(TreeMaker make, uint32_t threads, uint64_t seed);
// Requires: `threads` is 2 at least.
Status CheckDescending(TreeMaker make, uint32_t threads, uint64_t seed);

// Even keys below kKeys are there from the start; odd ones are inserted meanwhile. A value is its
// key and a tag, which changes: a value of another key is found out. All threads work in a window
// of keys that moves upwards, so that new keys come, and nodes split, where others read, until the
// end.
// `Tree`: AnyTree, or a PreparingTree.
template <typename Tree>
class ContendedCheck {
 public:
  ContendedCheck(Tree& tree, bool scans_from_present_keys)
      : tree_(tree), scans_from_present_keys_(scans_from_present_keys) {}

  // `prefetch`: how a PreparingTree prepares the keys of eight operations at a time; if not at all,
  // nullopt.
  Status Run(uint32_t threads, uint64_t seed, std::optional<size_t> prefetch) {
    for (Key key = 0; key < kKeys; key += 2) tree_.Insert(key, key << kTagBits);
    std::vector<std::string> differences(threads);
    BOOST_OUTCOME_TRYV(RunTogether(threads, [&](uint32_t thread) {
      Random random(seed, thread);
      for (int step = 0; step < kSteps && differences[thread].empty(); ++step) {
        const Key window = (kKeys - kWindow) * static_cast<Key>(step) / kSteps;
        if constexpr (PreparingTree<Tree>) {
          if (prefetch) {
            differences[thread] = PreparedSteps(window, random, *prefetch);
            continue;
          }
        }
        differences[thread] = Step(window + random.Below(kWindow), random);
      }
    }));
    for (const std::string& difference : differences) {
      if (!difference.empty()) return Difference(difference);
    }
    return Ok();
  }

 private:
  static constexpr Key kKeys = 3'000;
  static constexpr Key kWindow = 100;
  static constexpr int kSteps = 4'000;
  static constexpr uint32_t kTagBits = 16;

  std::string PreparedSteps(Key window, Random& random, size_t prefetch) {
    std::array<Key, 8> keys;
    for (Key& key : keys) key = window + random.Below(kWindow);
    std::array<typename Tree::Hint, keys.size()> hints;
    tree_.Prepare(keys, hints, prefetch);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string difference = Step(keys[i], random, hints[i]);
      if (!difference.empty()) return difference;
    }
    return {};
  }

  // Returns: what is wrong, or "". `hint` is one for the key, or nothing.
  template <typename... Hint>
  std::string Step(Key key, Random& random, const Hint&... hint) {
    const uint64_t choice = random.Below(4);
    if (choice == 0) {
      tree_.Insert(key, (key << kTagBits) | random.Below(uint64_t{1} << kTagBits), hint...);
    } else if (choice <= 2) {
      const std::optional<Value> value = tree_.Get(key, hint...);
      if (!value && key % 2 == 0) return fmt::format("key {} is lost", key);
      if (value && *value >> kTagBits != key)
        return fmt::format("key {} has the value of another key", key);
    } else {
      return Scan(key, hint...);
    }
    return {};
  }

  template <typename... Hint>
  std::string Scan(Key from, const Hint&... hint) const {
    if (scans_from_present_keys_) from -= from % 2;
    std::array<Entry, 50> found;
    const size_t count = tree_.Scan(from, found, hint...);
    Key smallest = from;  // that the next entry may have
    for (const Entry& entry : std::span(found).first(count)) {
      const Key largest = smallest + smallest % 2;  // even keys are there
      if (entry.key < smallest || entry.key > largest) {
        return fmt::format("a scan from key {} has key {} where one from {} to {} belongs", from,
                           entry.key, smallest, largest);
      }
      if (entry.value >> kTagBits != entry.key) {
        return fmt::format("a scan's key {} has the value of another key", entry.key);
      }
      smallest = entry.key + 1;
    }
    if (count < found.size() && smallest < kKeys - 1) {
      return fmt::format("a scan from key {} ends before key {}", from, smallest);
    }
    return {};
  }

  Tree& tree_;
  const bool scans_from_present_keys_;
};

template <PreparingTree Tree>
Status CheckHints(uint32_t threads, uint64_t seed, size_t prefetch) {
  const auto tree = std::make_unique<Tree>();
  return ContendedCheck<Tree>(*tree, kScansFromPresentKeys<Tree>).Run(threads, seed, prefetch);
}

template <LocalTree Tree>
Status CheckMix(const RunOptions& options) {
  AnyTreeOf<Tree> any(SettingsFor<Tree>(options));
  BOOST_OUTCOME_TRYV(Load(any.tree(), options));
  const std::vector<ThreadSteps> steps = DrawStepsFor<Tree>(options);
  BOOST_OUTCOME_TRYV(RunSteps(
      any.tree(), options, [&](uint32_t caller) { return std::span(steps[caller].measured); },
      Untimed));
  Reference reference;
  for (uint64_t id = 0; id < options.mix.Loaded(options.records); ++id) {
    reference[KeyOfRecord(id)] = ValueOfKey(KeyOfRecord(id));
  }
  for (const ThreadSteps& thread : steps) {
    for (const Step& step : thread.measured) {
      if (step.kind == BenchOperation::kInsert) reference[step.key] = ValueOfKey(step.key);
    }
  }
  return CompareAll(any, reference);
}

}  // namespace gossamer::lab
