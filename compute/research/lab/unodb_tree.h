// UnodbTree: UnoDB's adaptive radix tree with optimistic lock coupling (`unodb::olc_db`; Leis et
// al., ICDE 2013 and DaMoN 2016).
//
// For one thread: it cannot replace a value in one step, which the lab asks of a tree for many
// threads. Compiled if CMake is given a checkout: -DGOSSAMER_UNODB=DIRECTORY.
#pragma once

#ifdef GOSSAMER_HAS_UNODB

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "compute/research/lab/tree.h"
#include "olc_art.hpp"

namespace gossamer::lab {

class UnodbTree {
 public:
  static constexpr bool kManyThreads = false;
  // A scan from an absent key may leave out entries, or begin below the key (as of December 2025).
  static constexpr bool kScansFromPresentKeys = true;

  void Insert(Key key, Value value) {
    std::array<std::byte, sizeof(Value)> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    if (map_.insert(key, bytes)) return;
    static_cast<void>(map_.remove(key));
    static_cast<void>(map_.insert(key, bytes));
  }

  std::optional<Value> Get(Key key) const {
    const auto found = map_.get(key);
    if (!found) return std::nullopt;
    return ValueAt(found->begin());
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    size_t count = 0;
    if (found.empty()) return 0;
    map_.scan_from(from, [&](const auto& visitor) {
      uint64_t encoded;  // big-endian
      std::memcpy(&encoded, visitor.get_key().data(), sizeof encoded);
      found[count++] = {__builtin_bswap64(encoded), ValueAt(visitor.get_value().begin())};
      return count == found.size();
    });
    return count;
  }

 private:
  template <typename Pointer>
  static Value ValueAt(Pointer at) {
    Value value;
    std::memcpy(&value, &*at, sizeof value);
    return value;
  }

  mutable unodb::olc_db<Key, unodb::value_view> map_;  // a scan is no const function of it
};

}  // namespace gossamer::lab

#endif  // GOSSAMER_HAS_UNODB
