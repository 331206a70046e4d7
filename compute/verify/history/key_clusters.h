// Long keys as trees find them hard: clusters of keys that have most of their bytes in common.
//
//   key = region's number | region's bytes | cluster's number | cluster's bytes | the key's own end
//           3 bytes         0 and more        1 byte            0 and more        0 and more
//
// A region has 1, 4, 16 or 64 clusters, a cluster 16 keys. So neighbours share from no byte to all
// of the shorter one. In a cluster, ends are of one kind:
//
//   last byte   one byte from 0x00 to 0xff: keys of one length, up to max_key_bytes
//   chain       each key is a prefix of the next one, often by bytes 0x00 or 0xff
//   stairs      each key shares one byte less with the first one than the key before
//   tails       a byte as above, and any bytes up to max_key_bytes
//   one hash    as long as they can be, and all with the same KeyHash
//
// Keys are numbered in their order. Everything follows from the seed and from the number of keys.
//
// Thread-safety: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/random.h"

namespace gossamer::history {

class KeyClusters {
 public:
  static constexpr uint32_t kClusterKeys = 16;

  // Requires: 33 <= max_key_bytes; at most 2^20 keys.
  KeyClusters(uint32_t keys, uint32_t max_key_bytes, uint64_t seed);

  // Requires (unchecked): key <= keys. Cost: one allocation.
  std::string Text(uint32_t key) const;
  // The first key of the only cluster that may have a key with this text, if there is one. It may
  // lie beyond the last key.
  std::optional<uint32_t> ClusterOf(std::string_view text) const;

 private:
  // Draws how many bytes the keys of a region share behind its number.
  uint32_t RegionBytes(Random& draws) const;
  uint8_t ClusterNumber(uint32_t cluster) const;
  void AppendEnd(uint32_t key, uint64_t kind, Random& draws, std::string& text) const;

  uint64_t seed_;
  uint32_t max_key_bytes_;
  uint32_t region_clusters_;
  uint32_t stride_;  // between the numbers of regions
};

}  // namespace gossamer::history
