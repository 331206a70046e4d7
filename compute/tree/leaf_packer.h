// LeafPacker: lays out entries as leaves, as many in each as fit, and encodes them straight into the buffers that are
// written. No verbs.
//
// Example: entries that take several leaves.
//
//   for (size_t begin = 0; begin < entries.size();) {
//     const size_t end = packer.Place(entries, begin, limit, high);
//     const uint64_t hint = packer.Encode(image, leaf, content of [begin, end));
//     begin = end;
//   }
//
// Thread-safety: none. Cost: no allocation once its vectors have grown; each entry is copied once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/leaf.h"

namespace gossamer {

class LeafPacker {
 public:
  static constexpr size_t kNoLimit = ~size_t{0};

  explicit LeafPacker(const LeafGeometry& geometry) : geometry_(geometry) {}

  // Bytes that entries take in the units of a leaf, and that a leaf has for them beside fences of `fence_bytes`.
  static size_t BytesOf(const Entry& entry) { return entry.key.size() + entry.stored.size(); }
  size_t Capacity(size_t fence_bytes) const {
    return geometry_.units() * (geometry_.unit_bytes() - kGroupHeaderBytes - fence_bytes);
  }

  // Finds how many entries from `begin` on go into one leaf: as many as fit, and at most `most_bytes` of them, but
  // always one. Where the leaf ends before the last entry, its high fence is the separator to the next one.
  // Returns the end. If that is entries.size(), they fit with the high fence `high`.
  // Requires: the keys ascend.
  size_t Place(std::span<const Entry> entries, size_t begin, size_t most_bytes,
               const HighFence& high);
  // Whether all entries fit into one leaf with the high fence `high`, placed in the given order. Those of a leaf fit
  // again in the order of LeafView::AppendTo.
  // Requires: distinct keys.
  bool PlaceAll(std::span<const Entry> entries, const HighFence& high);
  // Encodes the leaf of the last Place or PlaceAll to `out` (node_bytes). `content.entries` are the entries that were placed.
  // Returns the leaf's hint.
  uint64_t Encode(std::span<std::byte> out, RemotePtr leaf, const LeafContent& content) const;

 private:
  struct Unit {
    GroupSizer sizer{HighFence()};  // without the fence
    bool overflowed = false;
  };

  template <typename FenceBytes>
  size_t PlaceFrom(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                   FenceBytes fence_bytes);
  // Returns nullopt if not all entries of the leaf have the same lengths.
  template <typename FenceBytes>
  std::optional<size_t> PlaceAlike(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                                   FenceBytes fence_bytes);
  template <typename FenceBytes>
  size_t PlaceMixed(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                    FenceBytes fence_bytes);

  LeafGeometry geometry_;
  std::array<Unit, kMaxUnits> units_;
  bool are_words_ = false;  // all keys and stored bytes have 8 bytes
  // Of each placed entry; may be longer. hash_of_: the half of the hash that the hint's filter uses.
  std::vector<uint8_t> unit_of_;
  std::vector<uint32_t> hash_of_;
};

}  // namespace gossamer
