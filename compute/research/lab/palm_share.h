// What a worker of the PALM tree holds of one batch, and how work is divided without communication.
#pragma once

#include <algorithm>
#include <array>
#include <boost/sort/spreadsort/integer_sort.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "compute/research/lab/palm_node.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab::palm {

// A request of a batch: its key, and its place in the batch.
struct Item {
  Key key;
  uint32_t index;
};

// A node that is to be added on the level above. It came from the node of item `item` of worker
// `worker`, whose path tells the parent.
struct Change {
  NewNode added;
  uint32_t worker;
  uint32_t item;
};

// One worker's part of one batch: the requests of a range of keys.
//
// Thread-safety: its worker fills it; after the next barrier, the others read it.
struct alignas(64) Share {
  std::span<Request> requests;  // the whole batch
  std::vector<Item> items;      // ascending by key, equal keys in the order of the batch
  // path[level][i]: the node on that level that item i belongs to; leaves are level 0. It is as of
  // the
  // descent: a node that was split since has the rest of its keys on its right.
  std::vector<std::vector<Node*>> path;
  uint32_t height = 0;  // the root's level at the descent
  const Node* root = nullptr;
  // The changes that go to even levels, and to odd ones: one is read while the other is written.
  std::array<std::vector<Change>, 2> changes;
};

// The keys [first, last] that are a worker's. A worker finds its range alone: every worker draws
// the same sample from the batch, and divides it evenly, so that a skewed batch gives even shares
// too.
struct KeyRange {
  Key first;
  Key last;
};

inline KeyRange RangeOf(std::span<const Request> requests, uint32_t worker, uint32_t workers) {
  constexpr Key kMax = std::numeric_limits<Key>::max();
  if (workers == 1) return {0, kMax};
  constexpr size_t kSamplesEach = 32;
  const size_t samples = std::min(kSamplesEach * workers, requests.size());
  std::vector<Key> sample(samples);
  for (size_t i = 0; i < samples; ++i) sample[i] = requests[requests.size() * i / samples].key;
  std::sort(sample.begin(), sample.end());
  // The first key of worker w's range; ranges between equal samples are empty.
  const auto first_of = [&](uint32_t w) { return w == 0 ? 0 : sample[samples * w / workers]; };
  const Key first = first_of(worker);
  if (worker + 1 == workers) return {first, kMax};
  const Key past = first_of(worker + 1);
  return past == first ? KeyRange{1, 0} : KeyRange{first, past - 1};
}

// Sorts by key, equal keys by their place in the batch.
inline void SortItems(std::vector<Item>& items) {
  // A radix sort that falls back to comparisons in small bins. It leaves equal keys in any order.
  boost::sort::spreadsort::integer_sort(
      items.begin(), items.end(),
      [](const Item& item, unsigned shift) { return item.key >> shift; },
      [](const Item& a, const Item& b) { return a.key < b.key; });
  const auto by_index = [](const Item& a, const Item& b) { return a.index < b.index; };
  for (size_t i = 0; i + 1 < items.size(); ++i) {
    if (items[i].key != items[i + 1].key) continue;
    const size_t first = i;
    while (i + 1 < items.size() && items[i + 1].key == items[first].key) ++i;
    std::sort(&items[first], &items[i] + 1, by_index);
  }
}

// The requests of `range`, sorted.
inline void TakeItems(std::span<const Request> requests, KeyRange range, std::vector<Item>& items) {
  items.clear();
  for (uint32_t i = 0; i < requests.size(); ++i) {
    const Key key = requests[i].key;
    if (key >= range.first && key <= range.last) items.push_back({key, i});
  }
  SortItems(items);
}

// Each worker has a list, in the order of keys, where entry i belongs to the node `node_of(worker,
// i)`.
//
// Each node has one owner: the first worker that has entries of it. As lists of higher workers have
// higher keys, only neighbours can share a node: a worker drops the head of its list where the
// worker before has the same node, and goes on into the heads of the following lists. Calls
// `each(worker, i)` for all entries whose nodes `worker` owns, in the order of keys.
template <typename SizeOf, typename NodeOf, typename Each>
void ForOwned(uint32_t worker, uint32_t workers, const SizeOf& size_of, const NodeOf& node_of,
              const Each& each) {
  const size_t size = size_of(worker);
  if (size == 0) return;
  const Node* before = nullptr;  // the last node of the lists below
  for (uint32_t w = worker; w-- > 0 && before == nullptr;) {
    if (size_of(w) > 0) before = node_of(w, size_of(w) - 1);
  }
  size_t first = 0;
  while (first < size && node_of(worker, first) == before) ++first;
  if (first == size) return;
  for (size_t i = first; i < size; ++i) each(worker, i);
  const Node* const last = node_of(worker, size - 1);
  for (uint32_t w = worker + 1; w < workers; ++w) {
    size_t past = 0;
    while (past < size_of(w) && node_of(w, past) == last) each(w, past++);
    if (past < size_of(w)) return;
  }
}

}  // namespace gossamer::lab::palm
