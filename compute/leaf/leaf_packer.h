// LeafPacker: lays out entries as leaves, as many in each as fit, and encodes them straight into
// the buffers that are written, and cuts a leaf in two. No verbs.
//
// Example: entries that take several leaves.
//
//   for (size_t begin = 0; begin < entries.size();) {
//     const LeafPacker::Placed placed = packer.Place({entries, low, high, begin}, limit);
//     content.entries = entries [begin, placed.end);
//     content.own = placed.own;
//     const uint64_t hint = packer.Encode(image, leaf, content);
//     begin = placed.end;
//   }
//
// Thread-safety: none. Cost: no allocation once its vectors have grown; each entry is copied once.
#pragma once

#include <algorithm>
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

  // What entries take in a leaf whose fences share `prefix_bytes`.
  static size_t BytesOf(const Entry& entry, size_t prefix_bytes) {
    return entry.StoredKey(prefix_bytes).size() + entry.StoredAndExpiryBytes();
  }
  static size_t BytesOf(std::span<const Entry> entries, size_t prefix_bytes) {
    size_t bytes = 0;
    for (const Entry& entry : entries) bytes += BytesOf(entry, prefix_bytes);
    return bytes;
  }
  // What a leaf has for entries beside a fence of `fence_bytes` behind the prefix.
  size_t Capacity(size_t fence_bytes) const {
    return geometry_.units() * (geometry_.unit_bytes() - kGroupHeaderBytes - fence_bytes);
  }

  // Entries for one leaf or more.
  struct Supply {
    std::span<const Entry> entries;
    KeyView low;       // where the leaf starts
    HighFence high;    // where the last leaf ends
    size_t begin = 0;  // the leaf's first entry
  };
  // What the entries of a leaf may take: `bytes`, in which each counts without its first
  // `prefix_bytes`, or without the prefix of the leaf if there is no number.
  struct Most {
    size_t bytes = kNoLimit;
    std::optional<size_t> prefix_bytes;
  };
  // The entries that go into one leaf.
  struct Placed {
    size_t end = 0;
    OwnPrefix own{};
  };
  // Finds how many entries go into one leaf: as many as fit, not above `most`, and so that the
  // fence behind them is short. If there is no such fence, none: a leaf without entries, behind
  // which the others have a longer prefix. The leaf has a prefix of its own only if its first key
  // would be too long without, or if it then takes all entries.
  // Returns the end. If that is that of all entries, they fit with the high fence `supply.high`. If
  // not, the leaf ends at FenceAt.
  // Requires: the keys ascend; the fences `low` and `high` are short together.
  Placed Place(const Supply& supply, const Most& most);
  // The high fence of a leaf of the entries [supply.begin, end).
  static KeyView FenceAt(const Supply& supply, size_t end);
  // Whether a leaf may have a prefix of its own.
  enum class Own : uint8_t {
    kNever,
    kForRoom,   // if the leaf then has room for more than the few bytes that are soon used up
    kAsNeeded,  // if all entries fit with it only
  };
  // Whether all entries of `content` fit into one leaf, placed in the given order. Those of a leaf
  // fit again in the order of LeafView::AppendTo. Sets `content.own`.
  // Requires (unchecked): distinct keys, all of them known whole unless `own` is kNever.
  bool PlaceAll(LeafContent& content, Own own);
  // Encodes the leaf of the last Place or PlaceAll to `out` (node_bytes). `content.entries` are the
  // entries that were placed.
  // Returns the leaf's hint.
  uint64_t Encode(std::span<std::byte> out, RemotePtr leaf, const LeafContent& content) const;

 private:
  struct Unit {
    GroupSizer sizer{0, 0};  // of whole keys, without the fence
    bool overflowed = false;
  };
  // Of a leaf's bounds.
  struct FenceBytes {
    size_t prefix = 0;   // length
    size_t high = 0;     // Bounds::stored_bytes
    size_t longest = 0;  // Bounds::LongestKey

    // Takes the shorter prefix and the longer fence of both. Returns whether that is a change.
    bool Worsen(const FenceBytes& other) {
      if (other.high <= high && other.prefix >= prefix) return false;
      *this = {std::min(prefix, other.prefix), std::max(high, other.high),
               std::min(longest, other.longest)};
      return true;
    }
  };

  // fences_at(i): if the leaf ends behind entry i. `prefix_bytes`: what it has at least.
  template <typename FencesAt>
  size_t PlaceFrom(std::span<const Entry> entries, size_t begin, const Most& most,
                   size_t prefix_bytes, FencesAt fences_at);
  bool Fits(const LeafContent& content);
  // Returns nullopt if not all entries of the leaf have the same lengths.
  template <typename FencesAt>
  std::optional<size_t> PlaceAlike(std::span<const Entry> entries, size_t begin, const Most& most,
                                   FencesAt fences_at);
  template <typename FencesAt>
  size_t PlaceMixed(std::span<const Entry> entries, size_t begin, const Most& most,
                    size_t prefix_bytes, FencesAt fences_at);

  LeafGeometry geometry_;
  std::array<Unit, kMaxUnits> units_;
  bool are_words_ = false;  // all keys and stored bytes have 8 bytes
  // Of each placed entry; may be longer. hash_of_: the half of the hash that the hint's filter
  // uses.
  std::vector<uint8_t> unit_of_;
  std::vector<uint32_t> hash_of_;
};

// ---- Splits: where a leaf is cut, and the bytes of its halves.

// A new entry behind all but this fraction of the last node counts as part of an ascending load.
inline constexpr size_t kEdgeFraction = 8;

// The parts of a rewritten leaf.
struct LeafRewrite {
  RemotePtr leaf;
  RemotePtr sibling;  // of the split; unused when the leaf is rewritten in place
  Key low;
  NodeVersion version{0};  // of the result
  HighFence high;
  RemotePtr old_sibling;
};

// The encoded halves of a split.
struct LeafHalves {
  Key separator;
  uint64_t left_hint = 0;
  uint64_t right_hint = 0;
};

// Where to cut a leaf whose keys come in order, as the order of its entries tells: there new keys
// go on to come in. So one half stays as it is, and should be full.
struct OrderedCut {
  size_t left_count = 0;  // entries of the left half; 0 if the keys come in no order
  bool descends = false;
};
// `before`: the entries, unit by unit, of which there are `counts`. `after`: what goes into both
// halves, the new entry last.
// `at_edge`: no key is right of the leaf.
OrderedCut FindOrderedCut(std::span<const Entry> before, std::span<const uint32_t> counts,
                          std::span<const Entry> after, bool at_edge);

// Cuts `entries` near the middle, where the halves take least, or as near there as both fit and the
// fence is short, and encodes them: the separator becomes the high fence of the left half, and the
// left half's sibling is the right one. `left_count` != 0: tries that many on the left, then on to
// there.
// Requires: the order of LeafView::AppendTo, a new entry last; left_count < entries.size(), or one
// entry.
// Returns: nullopt if no split fits: one entry alone, which is too long for the leaf, has none.
std::optional<LeafHalves> EncodeSplit(LeafPacker& packer, const LeafRewrite& rewrite,
                                      std::span<const Entry> entries, size_t left_count,
                                      std::span<std::byte> left, std::span<std::byte> right);
// The same with no entry on the left: for a leaf whose entries have more in common with each other
// than with its low fence, so that no fence between them is short. The right half has a longer
// prefix.
std::optional<LeafHalves> EncodeEmptyLeft(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right);
// The same for a leaf whose keys come in descending order and share much more with each other than
// either fence tells: the fence in front of them is such that many more come behind it.
// Returns: nullopt also if that would not make room.
std::optional<LeafHalves> EncodeRoomBelow(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right);

}  // namespace gossamer
