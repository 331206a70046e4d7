// TlxMap: the B+tree of tlx, with the functions of std::map that the lab uses.
//
// Compiled if CMake is given a checkout: -DGOSSAMER_TLX=DIRECTORY.
#pragma once

#ifdef GOSSAMER_HAS_TLX

#include <tlx/container/btree_map.hpp>

namespace gossamer::lab {

template <typename Key, typename Value>
struct TlxMap : tlx::btree_map<Key, Value> {
  void insert_or_assign(const Key& key, const Value& value) { (*this)[key] = value; }
};

}  // namespace gossamer::lab

#endif  // GOSSAMER_HAS_TLX
