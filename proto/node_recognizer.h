// NodeRecognizer: which node is in memory of which only the place is known, not the generation.
//
// A checksum starts from the node's pointer (rule R1). Checksums are linear: under another
// generation, that of the same bytes differs by what depends on their length alone. So one
// checksum of the bytes, and 256 comparisons, tell the generation.
//
// Thread-safety: constant. Cost: to make one, 256 checksums for each length of a piece; to ask, one
// checksum of the piece.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "proto/checksum.h"
#include "proto/group.h"
#include "proto/internal_node.h"
#include "proto/key.h"
#include "proto/leaf.h"
#include "proto/leaf_geometry.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// As much of a leaf's low fence as its trailer has. The trailer itself need not be valid.
inline Key KnownLow(std::span<const std::byte> trailer) {
  Trailer stored;
  std::memcpy(static_cast<void*>(&stored), trailer.data(), sizeof stored);
  const KeyView bytes(stored.low.bytes.data(), stored.low.bytes.size());
  return Key(stored.low.whole() ? *stored.low.whole()
                                : bytes.substr(0, LowFenceMark::kBytes - sizeof(uint32_t)));
}

class NodeRecognizer {
 public:
  explicit NodeRecognizer(const LeafGeometry& geometry)
      : geometry_(geometry),
        of_trailers_(Changes(kTrailerBytes)),
        of_units_(Changes(geometry.unit_bytes())),
        of_internal_(Changes(geometry.node_bytes())) {}

  // The pointer under which `node` (node_bytes at `offset` of `server`) has the trailer of a leaf.
  std::optional<RemotePtr> Leaf(ServerId server, uint64_t offset,
                                std::span<const std::byte> node) const {
    const std::span<const std::byte> trailer = node.subspan(geometry_.trailer_offset());
    const RemotePtr first(server, offset, 0);
    const std::optional<RemotePtr> found = Match(
        first, ChecksumOf(UnitSeed(first, geometry_.units()), trailer), trailer, of_trailers_);
    if (!found || !TrailerView::Parse(trailer, *found, geometry_)) return std::nullopt;
    return found;
  }

  // The pointer under which it is an internal node.
  std::optional<RemotePtr> Internal(ServerId server, uint64_t offset,
                                    std::span<const std::byte> node) const {
    const RemotePtr first(server, offset, 0);
    const std::optional<RemotePtr> found =
        Match(first, ChecksumOf(UnitSeed(first, 0), node), node, of_internal_);
    if (!found || !InternalView::Parse(node, *found)) return std::nullopt;
    return found;
  }

  // The pointer under which it has unit `number` of a leaf. `within`: as for GroupView::Parse.
  std::optional<RemotePtr> Unit(ServerId server, uint64_t offset, std::span<const std::byte> node,
                                uint32_t number, KeyView within) const {
    const std::span<const std::byte> unit =
        node.subspan(geometry_.unit_offset(number), geometry_.unit_bytes());
    const RemotePtr first(server, offset, 0);
    const size_t prefix = GroupView::PrefixBytesOf(unit);
    // Of a longer prefix, the rest is a part of what follows the pointer.
    const std::optional<RemotePtr> found =
        prefix <= kShortPrefixBytes
            ? Match(first, ChecksumOf(UnitSeed(first, number, within, prefix), unit), unit,
                    of_units_)
            : std::nullopt;
    if (found) {
      return GroupView::Parse(unit, *found, number, within) ? found : std::nullopt;
    }
    if (prefix <= kShortPrefixBytes) return std::nullopt;
    for (uint32_t generation = 0; generation < RemotePtr::kGenerations; ++generation) {
      const RemotePtr pointer(server, offset, static_cast<uint8_t>(generation));
      if (GroupView::Parse(unit, pointer, number, within)) return pointer;
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kShortPrefixBytes = 6;  // which share a word with the unit's number
  // By generation: what it changes of the checksum of a piece, from that under generation 0.
  using ByGeneration = std::array<Checksum, RemotePtr::kGenerations>;

  static ByGeneration Changes(size_t piece_bytes) {
    const std::vector<std::byte> zeros(piece_bytes);
    ByGeneration changes;
    const Checksum first = ChecksumOf(UnitSeed(RemotePtr(), 0), zeros);
    for (uint32_t generation = 0; generation < changes.size(); ++generation) {
      const RemotePtr pointer(ServerId{0}, 0, static_cast<uint8_t>(generation));
      const Checksum sum = ChecksumOf(UnitSeed(pointer, 0), zeros);
      changes[generation] = {sum.words ^ first.words, sum.folded ^ first.folded};
    }
    return changes;
  }

  // `sum`: of the piece under `first`, which has generation 0.
  static std::optional<RemotePtr> Match(RemotePtr first, const Checksum& sum,
                                        std::span<const std::byte> piece,
                                        const ByGeneration& changes) {
    Checksum stored;
    std::memcpy(&stored, piece.data(), sizeof stored);
    const Checksum change{sum.words ^ stored.words, sum.folded ^ stored.folded};
    for (uint32_t generation = 0; generation < changes.size(); ++generation) {
      if (changes[generation] != change) continue;
      return RemotePtr(first.server(), first.offset(), static_cast<uint8_t>(generation));
    }
    return std::nullopt;
  }

  const LeafGeometry geometry_;
  const ByGeneration of_trailers_;
  const ByGeneration of_units_;
  const ByGeneration of_internal_;
};

}  // namespace gossamer
