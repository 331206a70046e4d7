// What the lab asks of a local tree: an ordered map of 64-bit keys to 64-bit values in one process.
//
// A tree is a type that fulfils `LocalTree`. The lab is compiled for each tree, so that a measured
// operation has no virtual call. No workload deletes: trees never free a node before they end.
//
// Thread-safety: where `kManyThreads` is true, any number of threads may call any of the functions
// at once, and each call takes effect at one moment between its begin and its end. A scan is no
// snapshot: it has every key that was there throughout, and may have keys that came meanwhile.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gossamer::lab {

using Key = uint64_t;
using Value = uint64_t;

struct Entry {
  Key key;
  Value value;

  friend bool operator==(const Entry&, const Entry&) = default;
};

template <typename Tree>
concept LocalTree =
    std::default_initializable<Tree> &&
    requires(Tree tree, const Tree& unchanged, Key key, Value value, std::span<Entry> found) {
      // Whether threads may share the tree.
      { Tree::kManyThreads } -> std::convertible_to<bool>;
      // Adds the key, or replaces its value.
      { tree.Insert(key, value) } -> std::same_as<void>;
      // Returns: nullopt for an absent key.
      { unchanged.Get(key) } -> std::same_as<std::optional<Value>>;
      // Fills `found` with the entries from `key` on, in the order of keys.
      // Returns: how many there are; fewer than `found` has room for only at the tree's end.
      { unchanged.Scan(key, found) } -> std::same_as<size_t>;
    };

// Looks up all `keys`; result i is that of key i. A tree may have a form of its own.
// Requires: as many `values` as `keys`.
template <LocalTree Tree>
void GetMany(const Tree& tree, std::span<const Key> keys, std::span<std::optional<Value>> values) {
  if constexpr (requires { tree.GetMany(keys, values); }) {
    tree.GetMany(keys, values);
  } else {
    for (size_t i = 0; i < keys.size(); ++i) values[i] = tree.Get(keys[i]);
  }
}

// Inserts all `entries`. Of entries with equal keys, the last one counts. A tree may have a form of
// its own.
template <LocalTree Tree>
void InsertMany(Tree& tree, std::span<const Entry> entries) {
  if constexpr (requires { tree.InsertMany(entries); }) {
    tree.InsertMany(entries);
  } else {
    for (const Entry& entry : entries) tree.Insert(entry.key, entry.value);
  }
}

}  // namespace gossamer::lab
