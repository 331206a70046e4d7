// What the lab asks of a local tree: an ordered map of 64-bit keys to 64-bit values in one process.
//
// A tree is a type that fulfils `LocalTree`. The lab is compiled for each tree, so that a measured
// operation has no virtual call. No workload deletes: trees never free a node before they end.
//
// Threads come to a tree in one of two ways:
//   kManyThreads   any number of threads may call any of the functions at once, and each call takes
//                  effect at one moment between its begin and its end. A scan is no snapshot: it
//                  has every key that was there throughout, and may have keys that came meanwhile.
//   ParallelTree   one thread calls, and the tree has workers for the batches of `Execute`.
// A tree that is neither is used by one thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gossamer::lab {

using Key = uint64_t;
using Value = uint64_t;

template <typename Payload>
struct EntryOf {
  Key key;
  Payload value;

  friend bool operator==(const EntryOf&, const EntryOf&) = default;
};
using Entry = EntryOf<Value>;

// A get or an insert in a batch.
struct Request {
  Key key;
  Value value;     // of an insert; the result of a get that found its key
  bool is_insert;  // else a get
  bool found;      // result of a get

  static Request Get(Key key) { return {key, 0, false, false}; }
  static Request Insert(const Entry& entry) { return {entry.key, entry.value, true, false}; }

  std::optional<Value> Result() const { return found ? std::optional(value) : std::nullopt; }
};

// What a tree may want to know when it is made.
struct TreeSettings {
  uint32_t workers = 1;        // of a ParallelTree
  uint32_t partitions = 1;     // of a PartitionedTree
  uint64_t expected_keys = 0;  // at the end; more may come
};

template <typename Tree>
concept LocalTree =
    requires(Tree tree, const Tree& unchanged, Key key, Value value, std::span<Entry> found) {
      { Tree::kManyThreads } -> std::convertible_to<bool>;
      // Adds the key, or replaces its value.
      { tree.Insert(key, value) } -> std::same_as<void>;
      // Returns: nullopt for an absent key.
      { unchanged.Get(key) } -> std::same_as<std::optional<Value>>;
      // Fills `found` with the entries from `key` on, in the order of keys.
      // Returns: how many there are; fewer than `found` has room for only at the tree's end.
      { unchanged.Scan(key, found) } -> std::same_as<size_t>;
    };

template <typename Tree>
concept ParallelTree =
    LocalTree<Tree> && std::constructible_from<Tree, const TreeSettings&> &&
    requires(Tree tree, std::span<Request> requests, uint32_t batch) {
      // Runs the requests in batches of `batch`. Inserts of one key take effect in their order; a
      // get sees the inserts of earlier calls, and may or may not see those of its own call.
      // Errors: Unsupported if a worker cannot be started.
      { tree.Execute(requests, batch) } -> std::same_as<Status>;
    };

// Whether the tree is made of as many trees as its settings say.
template <typename Tree>
inline constexpr bool kIsPartitioned = requires { Tree::kPartitioned; };

// Whether the tree scans only from keys that are there, as the measured scans do.
template <typename Tree>
inline constexpr bool kScansFromPresentKeys = requires { Tree::kScansFromPresentKeys; };

template <LocalTree Tree>
std::unique_ptr<Tree> MakeTree(const TreeSettings& settings) {
  if constexpr (ParallelTree<Tree>) {
    return std::make_unique<Tree>(settings);
  } else {
    return std::make_unique<Tree>();
  }
}

// A tree that can fetch the paths of a batch's keys together, before the batch is run one by one.
// `kPrefetches` has the names of its ways to do so, of which `prefetch` is the place.
template <typename Tree>
concept PreparingTree =
    LocalTree<Tree> &&
    requires(Tree tree, const Tree& unchanged, Key key, Value value, std::span<const Key> keys,
             std::span<Entry> found, std::span<typename Tree::Hint> hints, size_t prefetch) {
      { Tree::kPrefetches[prefetch] } -> std::convertible_to<std::string_view>;
      { unchanged.Prepare(keys, hints, prefetch) } -> std::same_as<void>;
      // The operations with the hint of their key: right too if the key has moved since.
      { tree.Insert(key, value, hints[0]) } -> std::same_as<void>;
      { unchanged.Get(key, hints[0]) } -> std::same_as<std::optional<Value>>;
      { unchanged.Scan(key, found, hints[0]) } -> std::same_as<size_t>;
    };

// A tree whose lookups of many keys take `batch` keys at a time, and fetch as `prefetch` says; in
// batches of more than one key as `kDefaultPrefetch`, if nothing is said.
template <typename Tree>
concept BatchingTree = LocalTree<Tree> && requires(const Tree& unchanged, std::span<const Key> keys,
                                                   std::span<std::optional<Value>> values,
                                                   uint32_t batch, size_t prefetch) {
  { Tree::kPrefetches[prefetch] } -> std::convertible_to<std::string_view>;
  { Tree::kDefaultPrefetch } -> std::convertible_to<size_t>;
  { unchanged.FindMany(keys, values, batch, prefetch) } -> std::same_as<void>;
};

template <typename Tree>
constexpr size_t DefaultPrefetchOf() {
  if constexpr (requires { Tree::kDefaultPrefetch; }) {
    return Tree::kDefaultPrefetch;
  } else {
    return 0;
  }
}

// The names of a tree's ways to prefetch; empty if it has none.
template <typename Tree>
constexpr std::span<const std::string_view> PrefetchesOf() {
  if constexpr (requires { Tree::kPrefetches; }) {
    return Tree::kPrefetches;
  } else {
    return {};
  }
}

// Looks up all `keys`; result i is that of key i. A tree may have a form of its own; `batch` and
// `prefetch` are for a BatchingTree. Requires: as many `values` as `keys`. Errors: of Execute.
template <LocalTree Tree>
Status FindMany(Tree& tree, std::span<const Key> keys, std::span<std::optional<Value>> values,
                [[maybe_unused]] uint32_t batch = 16,
                [[maybe_unused]] size_t prefetch = DefaultPrefetchOf<Tree>()) {
  assert(values.size() == keys.size());
  if constexpr (ParallelTree<Tree>) {
    std::vector<Request> requests(keys.size());
    std::transform(keys.begin(), keys.end(), requests.begin(), Request::Get);
    BOOST_OUTCOME_TRYV(tree.Execute(requests, static_cast<uint32_t>(requests.size())));
    std::transform(requests.begin(), requests.end(), values.begin(),
                   [](const Request& request) { return request.Result(); });
  } else if constexpr (BatchingTree<Tree>) {
    tree.FindMany(keys, values, batch, prefetch);
  } else if constexpr (requires { tree.FindMany(keys, values); }) {
    tree.FindMany(keys, values);
  } else {
    for (size_t i = 0; i < keys.size(); ++i) values[i] = tree.Get(keys[i]);
  }
  return Ok();
}

// Inserts all `entries`. Of entries with equal keys, the last one counts. A tree may have a form of
// its own. Errors: of Execute.
template <LocalTree Tree>
Status InsertMany(Tree& tree, std::span<const Entry> entries) {
  if constexpr (ParallelTree<Tree>) {
    std::vector<Request> requests(entries.size());
    std::transform(entries.begin(), entries.end(), requests.begin(), Request::Insert);
    return tree.Execute(requests, static_cast<uint32_t>(requests.size()));
  } else if constexpr (requires { tree.InsertMany(entries); }) {
    tree.InsertMany(entries);
  } else {
    for (const Entry& entry : entries) tree.Insert(entry.key, entry.value);
  }
  return Ok();
}

}  // namespace gossamer::lab
