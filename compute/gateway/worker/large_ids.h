// LargeIds: the ids of large composites that a worker has met, by their keys, so that it reads
// items along with the header that says whether the id is still right.
//
// Thread-safety: none; the worker's thread. Cost: a hash for each look at a key, once there is any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gossamer::gateway {

class LargeIds {
 public:
  // Once there are so many, all are forgotten.
  static constexpr size_t kMost = 4096;

  void Note(std::string_view key, uint64_t id) {
    if (ids_.size() >= kMost) ids_.clear();
    ids_.insert_or_assign(std::string(key), id);
  }
  std::optional<uint64_t> Find(std::string_view key) const {
    if (ids_.empty()) return std::nullopt;
    const auto found = ids_.find(key);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };

  std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> ids_;
};

}  // namespace gossamer::gateway
