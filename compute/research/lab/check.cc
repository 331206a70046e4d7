#include "compute/research/lab/check.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <numeric>

namespace gossamer::lab {
namespace {

// What a scan of the reference gives.
std::vector<Entry> ScanReference(const Reference& reference, Key from, size_t limit) {
  std::vector<Entry> entries;
  for (auto it = reference.lower_bound(from); it != reference.end() && entries.size() < limit; ++it)
    entries.push_back({it->first, it->second});
  return entries;
}

Status CompareScan(const AnyTree& tree, const Reference& reference, Key from, size_t limit) {
  if (tree.scans_from_present_keys()) {
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

Status CompareGets(AnyTree& tree, const Reference& reference, std::span<const Key> keys) {
  std::vector<std::optional<Value>> values(keys.size());
  BOOST_OUTCOME_TRYV(tree.FindMany(keys, values));
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

}  // namespace

Status CompareAll(AnyTree& tree, const Reference& reference) {
  BOOST_OUTCOME_TRYV(CompareScan(tree, reference, 0, reference.size() + 1));
  std::vector<Key> keys;
  for (const auto& [key, value] : reference) {
    keys.push_back(key);
    keys.push_back(key + 1);  // most often absent
  }
  return CompareGets(tree, reference, keys);
}

Status CheckAlone(TreeMaker make, const TreeSettings& settings, uint64_t seed) {
  constexpr uint64_t kKeys = 2'000;
  constexpr uint64_t kLongestBatch = 150;
  const std::unique_ptr<AnyTree> tree = make(settings);
  // A quarter of the steps are calls in which all workers of a parallel tree wait for each other,
  // which takes long where they have to wait for a processor, too.
  const int steps = tree->is_parallel() ? 500 : 3'000;
  Reference reference;
  BOOST_OUTCOME_TRYV(CompareScan(*tree, reference, 0, 3));  // while it is empty
  Random random(seed);
  // Half of the keys lie close together, half all over; the two ends are among them.
  const auto draw_key = [&random] {
    const uint64_t id = random.Below(kKeys);
    if (id == 0) return std::numeric_limits<Key>::max();
    return id % 2 == 0 ? Key{id - 2} : KeyOfRecord(id);
  };
  for (int step = 0; step < steps; ++step) {
    const uint64_t choice = random.Below(100);
    if (choice < 60) {
      const Entry entry{draw_key(), random.Next()};
      tree->Insert(entry.key, entry.value);
      reference.insert_or_assign(entry.key, entry.value);
    } else if (choice < 65) {
      std::vector<Entry> entries(random.Below(kLongestBatch));
      for (Entry& entry : entries) entry = {draw_key(), random.Next()};
      BOOST_OUTCOME_TRYV(tree->InsertMany(entries));
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

// In one call, a key is either read or inserted, some keys more than once: the order of requests
// then determines every result. Every other call keeps to a few keys, so that batches share nodes.
Status CheckBatches(TreeMaker make, const TreeSettings& settings, uint64_t seed) {
  constexpr int kCalls = 20;
  constexpr uint64_t kKeys = 4'000;
  constexpr uint64_t kFewKeys = 60;
  constexpr std::array<uint32_t, 5> kBatches = {1, 17, 100, 700, 5'000};
  const std::unique_ptr<AnyTree> tree = make(settings);
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

Status CheckContended(TreeMaker make, uint32_t threads, uint64_t seed) {
  const std::unique_ptr<AnyTree> tree = make({});
  return ContendedCheck<AnyTree>(*tree, tree->scans_from_present_keys())
      .Run(threads, seed, std::nullopt);
}

// Each insert is of a new smallest key, so that all entries of the leftmost leaf move. The others
// read only keys of which they know that they were inserted.
Status CheckDescending(TreeMaker make, uint32_t threads, uint64_t seed) {
  assert(threads >= 2);
  constexpr Key kLargest = 10'000;
  constexpr Key kWindow = 64;
  const std::unique_ptr<AnyTree> tree = make({});
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

}  // namespace gossamer::lab
