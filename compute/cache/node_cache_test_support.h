// Nodes for the tests of NodeCache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compute/cache/node_cache.h"

namespace gossamer {

inline constexpr uint64_t kNodeBytes = 1024;

inline std::string KeyOf(uint64_t number) {
  std::string key(8, '\0');
  for (size_t i = 8; i-- > 0; number >>= 8) key[i] = static_cast<char>(number);
  return key;
}
inline RemotePtr NodeAt(uint64_t number) { return RemotePtr(ServerId{0}, number * kNodeBytes, 0); }
inline RemotePtr LeafAt(uint64_t number) { return RemotePtr(ServerId{1}, number * kNodeBytes, 0); }

// A parent of the leaves for [from, to), one key each.
inline InternalNode ParentOf(uint64_t from, uint64_t to, uint32_t version = 1) {
  InternalNode node;
  node.version = NodeVersion{version};
  node.level = 1;
  node.high = HighFence::At(KeyOf(to));
  for (uint64_t i = from; i < to; ++i) node.children.push_back({Key(KeyOf(i)), LeafAt(i)});
  return node;
}

inline uint32_t InsertLeaf(NodeCache& cache, RemotePtr parent, const Key& separator,
                           RemotePtr leaf) {
  const InternalNode::Child child{separator, leaf};
  return cache.InsertChildren(parent, {&child, 1});
}

inline uint64_t BytesOf(const InternalNode& node) {
  NodeCache cache(uint64_t{1} << 20);
  cache.Insert(NodeAt(1), node);
  return cache.bytes();
}

inline std::optional<NodeCache::Step> FindLeaf(NodeCache::Reader& reader, uint64_t number) {
  const std::string key = KeyOf(number);
  std::optional<NodeCache::Step> step = reader.Find(SearchGoal::Covering(key), 0);
  return step && step->level == 0 ? step : std::nullopt;
}

}  // namespace gossamer
