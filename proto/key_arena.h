// KeyArena: storage for keys that are put together from a leaf's prefix and what its units store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "proto/key.h"

namespace gossamer {

// Thread-safety: none. Cost: no allocation in the steady state.
class KeyArena {
 public:
  // Returns `bytes` bytes, and a word behind them that may be written too. They stay until Clear.
  char* Allocate(size_t bytes) {
    bytes += sizeof(uint64_t);
    if (bytes > room_) AddRoom(bytes);
    char* const at = at_;
    at_ += bytes;
    room_ -= bytes;
    return at;
  }
  // The key made of both; `suffix` itself if the prefix is empty.
  KeyView Join(KeyView prefix, KeyView suffix) {
    if (prefix.empty()) return suffix;
    char* const at = Allocate(prefix.size() + suffix.size());
    prefix.copy(at, prefix.size());
    suffix.copy(at + prefix.size(), suffix.size());
    return {at, prefix.size() + suffix.size()};
  }
  KeyView Copy(KeyView key) {
    char* const at = Allocate(key.size());
    key.copy(at, key.size());
    return {at, key.size()};
  }
  void Clear() {
    used_ = 0;
    room_ = 0;
  }

 private:
  static constexpr size_t kBlock = 8192;
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size;
  };

  void AddRoom(size_t bytes) {
    while (used_ < blocks_.size() && blocks_[used_].size < bytes) ++used_;
    if (used_ == blocks_.size()) {
      const size_t size = std::max(bytes, kBlock);
      blocks_.push_back({std::unique_ptr<char[]>(new char[size]), size});
    }
    at_ = blocks_[used_].bytes.get();
    room_ = blocks_[used_++].size;
  }

  std::vector<Block> blocks_;
  size_t used_ = 0;  // of the blocks
  char* at_ = nullptr;
  size_t room_ = 0;
};

}  // namespace gossamer
