// Compares a tree with std::map on small data.
//
//   CheckAlone      one caller, all operations at random: each result must be that of the reference
//   CheckBatches    trees with workers: long calls of gets and inserts, in batches of many sizes
//   CheckContended  threads insert, replace, read and scan the same few keys
//   CheckHints      the same in small batches, each operation with the hint that preparing them gave
//   CheckDescending one thread inserts in front of the keys that others read, which moves them
//   CheckMix        a workload as it is measured; what the tree then holds must be what was inserted
//
// Errors of all: Corruption, with the first difference; Unsupported if no thread can be started.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/status.h"
#include "compute/lab/measure.h"
#include "compute/lab/run_together.h"
#include "compute/lab/steps.h"
#include "compute/lab/tree.h"

namespace gossamer::lab {

using Reference = std::map<Key, Value>;

inline Error Difference(const std::string& sentence) {
  return MakeError(Code::kCorruption, sentence);
}

// What a scan of the reference gives.
inline std::vector<Entry> ScanReference(const Reference& reference, Key from, size_t limit) {
  std::vector<Entry> entries;
  for (auto it = reference.lower_bound(from); it != reference.end() && entries.size() < limit; ++it)
    entries.push_back({it->first, it->second});
  return entries;
}

template <LocalTree Tree>
Status CompareScan(const Tree& tree, const Reference& reference, Key from, size_t limit) {
  if constexpr (kScansFromPresentKeys<Tree>) {
    const auto first = reference.lower_bound(from);
    if (first == reference.end()) return Ok();
    from = first->first;
  }
  std::vector<Entry> found(limit);
  found.resize(tree.Scan(from, found));
  const std::vector<Entry> expected = ScanReference(reference, from, limit);
  if (found == expected) return Ok();
  const auto [wrong, right] =
      std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  return Difference(fmt::format(
      "a scan of {} keys from {} gives {} entries instead of {}, and differs from entry "
      "{} on",
      limit, from, found.size(), expected.size(), wrong - found.begin()));
}

template <LocalTree Tree>
Status CompareGets(Tree& tree, const Reference& reference, std::span<const Key> keys) {
  std::vector<std::optional<Value>> values(keys.size());
  BOOST_OUTCOME_TRYV(FindMany(tree, keys, std::span(values)));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto it = reference.find(keys[i]);
    const std::optional<Value> expected =
        it == reference.end() ? std::nullopt : std::optional(it->second);
    if (values[i] != expected || tree.Get(keys[i]) != expected) {
      return Difference(fmt::format("a get of key {} finds {}{}", keys[i],
                                    values[i] ? fmt::format("value {}", *values[i]) : "nothing",
                                    expected ? fmt::format(" instead of value {}", *expected)
                                             : ", but the key was never inserted"));
    }
  }
  return Ok();
}

template <LocalTree Tree>
Status CompareAll(Tree& tree, const Reference& reference) {
  BOOST_OUTCOME_TRYV(CompareScan(tree, reference, 0, reference.size() + 1));
  std::vector<Key> keys;
  for (const auto& [key, value] : reference) {
    keys.push_back(key);
    keys.push_back(key + 1);  // most often absent
  }
  return CompareGets(tree, reference, keys);
}

template <LocalTree Tree>
Status CheckAlone(const TreeSettings& settings, uint64_t seed) {
  // A quarter of the steps are calls in which all workers of a parallel tree wait for each other,
  // which takes long where they have to wait for a processor, too.
  constexpr int kSteps = ParallelTree<Tree> ? 500 : 3'000;
  constexpr uint64_t kKeys = 2'000;
  constexpr uint64_t kLongestBatch = 150;
  const auto tree = MakeTree<Tree>(settings);
  Reference reference;
  BOOST_OUTCOME_TRYV(CompareScan(*tree, reference, 0, 3));  // while it is empty
  Random random(seed);
  // Half of the keys lie close together, half all over; the two ends are among them.
  const auto draw_key = [&random] {
    const uint64_t id = random.Below(kKeys);
    if (id == 0) return std::numeric_limits<Key>::max();
    return id % 2 == 0 ? Key{id - 2} : KeyOfRecord(id);
  };
  for (int step = 0; step < kSteps; ++step) {
    const uint64_t choice = random.Below(100);
    if (choice < 60) {
      const Entry entry{draw_key(), random.Next()};
      tree->Insert(entry.key, entry.value);
      reference.insert_or_assign(entry.key, entry.value);
    } else if (choice < 65) {
      std::vector<Entry> entries(random.Below(kLongestBatch));
      for (Entry& entry : entries) entry = {draw_key(), random.Next()};
      BOOST_OUTCOME_TRYV(InsertMany(*tree, std::span<const Entry>(entries)));
      for (const Entry& entry : entries) reference.insert_or_assign(entry.key, entry.value);
    } else if (choice < 85) {
      std::vector<Key> keys(random.Below(kLongestBatch));
      std::generate(keys.begin(), keys.end(), draw_key);
      BOOST_OUTCOME_TRYV(CompareGets(*tree, reference, keys));
    } else {
      BOOST_OUTCOME_TRYV(CompareScan(*tree, reference, draw_key(), random.Below(200)));
    }
  }
  return CompareAll(*tree, reference);
}

// In one call, a key is either read or inserted, some keys more than once: the order of requests then
// determines every result. Every other call keeps to a few keys, so that batches share nodes.
template <ParallelTree Tree>
Status CheckBatches(const TreeSettings& settings, uint64_t seed) {
  constexpr int kCalls = 20;
  constexpr uint64_t kKeys = 4'000;
  constexpr uint64_t kFewKeys = 60;
  constexpr std::array<uint32_t, 5> kBatches = {1, 17, 100, 700, 5'000};
  const auto tree = MakeTree<Tree>(settings);
  Reference reference;
  Random random(seed);
  for (int call = 0; call < kCalls; ++call) {
    const uint64_t keys = call % 2 == 0 ? kKeys : kFewKeys;
    std::vector<Request> requests(2'000);
    for (Request& request : requests) {
      const Key key = (call % 4 < 2) ? random.Below(keys) : KeyOfRecord(random.Below(keys));
      const bool is_insert = (key ^ static_cast<uint64_t>(call)) % 2 == 0;
      request = is_insert ? Request::Insert({key, random.Next()}) : Request::Get(key);
    }
    const Reference before = reference;
    for (const Request& request : requests) {
      if (request.is_insert) reference.insert_or_assign(request.key, request.value);
    }
    BOOST_OUTCOME_TRYV(tree->Execute(requests, kBatches[random.Below(kBatches.size())]));
    for (const Request& request : requests) {
      if (request.is_insert) continue;
      const auto it = before.find(request.key);
      const auto expected = it == before.end() ? std::nullopt : std::optional(it->second);
      if (request.Result() != expected) {
        return Difference(fmt::format("call {} has a wrong result for key {}", call, request.key));
      }
    }
  }
  return CompareAll(*tree, reference);
}

// Even keys below kKeys are there from the start; odd ones are inserted meanwhile. A value is its
// key and a tag, which changes: a value of another key is found out. All threads work in a window of
// keys that moves upwards, so that new keys come, and nodes split, where others read, until the end.
template <LocalTree Tree>
class ContendedCheck {
 public:
  // `prefetch`: how a PreparingTree prepares the keys of eight operations at a time; if not at all, nullopt.
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
    if constexpr (kScansFromPresentKeys<Tree>) from -= from % 2;
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

  Tree tree_;
};

template <LocalTree Tree>
Status CheckContended(uint32_t threads, uint64_t seed) {
  return std::make_unique<ContendedCheck<Tree>>()->Run(threads, seed, std::nullopt);
}

template <PreparingTree Tree>
Status CheckHints(uint32_t threads, uint64_t seed, size_t prefetch) {
  return std::make_unique<ContendedCheck<Tree>>()->Run(threads, seed, prefetch);
}

// Each insert is of a new smallest key, so that all entries of the leftmost leaf move. The others read
// only keys of which they know that they were inserted. Requires: `threads` is 2 at least.
template <LocalTree Tree>
Status CheckDescending(uint32_t threads, uint64_t seed) {
  constexpr Key kLargest = 10'000;
  constexpr Key kWindow = 64;
  const auto tree = std::make_unique<Tree>();
  tree->Insert(kLargest, ValueOfKey(kLargest));
  std::atomic<Key> smallest = kLargest;
  std::vector<uint64_t> wrong(threads);
  BOOST_OUTCOME_TRYV(RunTogether(threads, [&](uint32_t thread) {
    if (thread == 0) {
      for (Key key = kLargest; key-- > 0;) {
        tree->Insert(key, ValueOfKey(key));
        smallest.store(key, std::memory_order_release);
      }
      return;
    }
    Random random(seed, thread);
    for (Key first = kLargest; first > 0; first = smallest.load(std::memory_order_acquire)) {
      const Key key = first + random.Below(std::min(kWindow, kLargest - first + 1));
      if (tree->Get(key) != ValueOfKey(key)) ++wrong[thread];
    }
  }));
  const uint64_t all_wrong = std::accumulate(wrong.begin(), wrong.end(), uint64_t{0});
  if (all_wrong == 0) return Ok();
  return Difference(fmt::format("{} gets of keys that were there had a wrong result", all_wrong));
}

template <LocalTree Tree>
Status CheckMix(const RunOptions& options) {
  const auto tree = MakeTree<Tree>(SettingsFor<Tree>(options));
  BOOST_OUTCOME_TRYV(Load(*tree, options));
  const std::vector<ThreadSteps> steps = DrawStepsFor<Tree>(options);
  BOOST_OUTCOME_TRYV(RunSteps(
      *tree, options, [&](uint32_t caller) { return std::span(steps[caller].measured); },
      [](uint32_t /*caller*/, const auto& run) { run(); }));
  Reference reference;
  for (uint64_t id = 0; id < options.mix.Loaded(options.records); ++id) {
    reference[KeyOfRecord(id)] = ValueOfKey(KeyOfRecord(id));
  }
  for (const ThreadSteps& thread : steps) {
    for (const Step& step : thread.measured) {
      if (step.kind == BenchOperation::kInsert) reference[step.key] = ValueOfKey(step.key);
    }
  }
  return CompareAll(*tree, reference);
}

}  // namespace gossamer::lab
