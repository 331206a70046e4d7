// LongKeys: long keys of a leaf, as they were read from their blocks.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/key.h"
#include "proto/value_block.h"

namespace gossamer {

class LongKeys {
 public:
  void Add(const BlockRef& block, KeyView key) { keys_.push_back({block.pointer, Key(key)}); }
  // Null if it was not read.
  const Key* Find(const BlockRef& block) const {
    const auto found = std::ranges::find(keys_, block.pointer, &Item::block);
    return found == keys_.end() ? nullptr : &found->key;
  }

 private:
  struct Item {
    uint64_t block;
    Key key;
  };
  std::vector<Item> keys_;  // few
};

}  // namespace gossamer
