#include "memory/damage_finder.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/fabric/shm/shared_copy.h"
#include "proto/crc32c.h"
#include "proto/group.h"
#include "proto/internal_node.h"
#include "proto/region.h"

namespace gossamer {
DamageFinder::DamageFinder(LivingRegion region)
    : region_(std::move(region)), geometry_(region_.parameters), recognizer_(geometry_) {}

std::vector<Damage> DamageFinder::LookAtNode(uint64_t offset) {
  found_.clear();
  const Bytes node = Read(offset, geometry_.node_bytes(), node_);
  if (node.empty()) return {};
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::ranges::all_of(node, is_zero)) return {};  // nothing was written
  const Bytes trailer = node.subspan(geometry_.trailer_offset());
  if (const std::optional<RemotePtr> leaf = recognizer_.Leaf(region_.server, offset, node)) {
    if (IsOfLastUse(*leaf)) LookAtLeaf(*leaf, node, KnownLow(trailer));
  } else if (const auto internal = recognizer_.Internal(region_.server, offset, node)) {
    LookAtChildren(*internal, node);
  } else if (const auto by_unit = LeafByUnit(offset, node)) {
    if (IsOfLastUse(*by_unit)) {
      Note(offset + geometry_.trailer_offset(), trailer, "the trailer of a leaf");
      LookAtLeaf(*by_unit, node, KnownLow(trailer));
    }
  }
  return std::exchange(found_, {});
}

std::vector<Damage> DamageFinder::LookAtRoot() {
  found_.clear();
  const Bytes bytes = Read(kRootWordOffset, sizeof(uint64_t), node_);
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  const RootWord root = RootWord::FromWord(word);
  LookAtChild(root.pointer(), root.level(), {});
  return std::exchange(found_, {});
}

void DamageFinder::LookAtLeaf(RemotePtr leaf, Bytes node, KeyView low) {
  const Bytes trailer_bytes = node.subspan(geometry_.trailer_offset());
  const auto trailer = TrailerView::Parse(trailer_bytes, leaf, geometry_);
  std::vector<std::pair<uint32_t, std::string>> failed;
  bool is_prefix_known = false;
  bool may_be_valid = false;  // behind more of the low fence than is known
  for (uint32_t number = 0; number < geometry_.units(); ++number) {
    const Bytes bytes = node.subspan(geometry_.unit_offset(number), geometry_.unit_bytes());
    const std::optional<GroupView> unit = GroupView::Parse(bytes, leaf, number, low);
    if (!unit) {
      failed.emplace_back(number, fmt::format("unit {} of a leaf", number));
      may_be_valid = may_be_valid || GroupView::PrefixBytesOf(bytes) > low.size();
      continue;
    }
    is_prefix_known = true;
    if (trailer && unit->version() != trailer->version()) {
      failed.emplace_back(number, fmt::format("the version of unit {} of a leaf", number));
    } else if (!unit->frozen()) {
      unit->ForEach([this](const Entry& entry) {
        if (entry.has_block()) LookAtBlock(entry.block());
      });
    }
  }
  // All units have one prefix.
  if (may_be_valid && !is_prefix_known) return;
  for (auto& [number, what] : failed) {
    const uint32_t at = geometry_.unit_offset(number);
    Note(leaf.offset() + at, node.subspan(at, geometry_.unit_bytes()), std::move(what));
  }
}

// A leaf that nothing leads to any more may refer to memory that was used again. So it must be that
// very block: the checksum of the reference is in its header, or is that of its bytes.
void DamageFinder::LookAtBlock(const BlockRef& ref) {
  const BlockPtr pointer = ref.ptr();
  if (pointer.server() != region_.server || ref.length > kMaxContentBytes) return;
  const uint32_t length = BlockReadBytes(ref.length);
  const auto last = Generations(pointer.offset(), length, control::ExtentKind::kBlocks);
  if (!last || pointer.generation() < last->of_blocks) return;
  const Bytes bytes = Read(pointer.offset(), length, block_);
  if (DecodeBlock(ref, bytes)) return;
  BlockHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool is_it =
      header.checksum == ref.checksum ||
      Crc32c(BlockSeed(ref.pointer), bytes.subspan(offsetof(BlockHeader, length))) == ref.checksum;
  if (is_it) {
    Note(pointer.offset(), bytes, fmt::format("a value block of {} bytes", ref.length));
  }
}

void DamageFinder::LookAtChildren(RemotePtr parent, Bytes node) {
  const std::optional<InternalView> view = InternalView::Parse(node, parent);
  if (view->frozen() || !IsOfLastUse(parent)) return;
  view->ForEach([&](KeyView separator, RemotePtr child) {
    LookAtChild(child, view->level() - 1u, separator);
  });
}

void DamageFinder::LookAtChild(RemotePtr child, uint32_t level, KeyView low) {
  if (!IsOfLastUse(child)) return;
  if (level == 0) {
    // What else is in it is looked at in its place, if its low fence is known there.
    const Bytes bytes = Read(child.offset() + geometry_.trailer_offset(), kTrailerBytes, child_);
    const auto trailer = TrailerView::Parse(bytes, child, geometry_);
    if (trailer && (trailer->low().whole() || !trailer->low().Matches(low))) return;
  }
  const Bytes node = Read(child.offset(), geometry_.node_bytes(), child_);
  if (level == 0 &&
      TrailerView::Parse(node.subspan(geometry_.trailer_offset()), child, geometry_)) {
    LookAtLeaf(child, node, low);
    return;
  }
  // It may have become another node, or be one of which a part is damaged.
  const bool is_any = recognizer_.Internal(region_.server, child.offset(), node) ||
                      recognizer_.Leaf(region_.server, child.offset(), node) ||
                      LeafByUnit(child.offset(), node);
  if (!is_any) Note(child.offset(), node, "a node as a whole");
}

std::optional<RemotePtr> DamageFinder::LeafByUnit(uint64_t offset, Bytes node) const {
  const Key low = KnownLow(node.subspan(geometry_.trailer_offset()));
  for (uint32_t number = 0; number < geometry_.units(); ++number) {
    const auto found = recognizer_.Unit(region_.server, offset, node, number, low);
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<HeapMap::Generations> DamageFinder::Generations(uint64_t offset, uint64_t bytes,
                                                              control::ExtentKind kind) {
  HeapMap::Generations all;
  for (const uint64_t end = offset + bytes; offset < end;) {
    std::optional<ChunkAllocator::Extent>& extent = known_[kind == control::ExtentKind::kNodes];
    if (!extent || offset < extent->offset || offset >= extent->offset + extent->bytes) {
      extent = region_.next_extent(offset);
      if (!extent || extent->offset != offset) return std::nullopt;
    }
    if (extent->kind != kind || extent->is_waiting) return std::nullopt;
    all = all.With(extent->next);
    offset = extent->offset + extent->bytes;
  }
  return all;
}

bool DamageFinder::IsOfLastUse(RemotePtr node) {
  if (node.server() != region_.server) return false;
  // It is of no extent, and never used again.
  if (node.offset() == kFirstLeafOffset && region_.server == ServerId{0}) return true;
  const auto last = Generations(node.offset(), geometry_.node_bytes(), control::ExtentKind::kNodes);
  return last && node.generation() >= last->of_nodes;
}

DamageFinder::Bytes DamageFinder::Read(uint64_t offset, uint64_t bytes,
                                       std::vector<std::byte>& to) {
  if (offset > region_.bytes.size() || bytes > region_.bytes.size() - offset) return {};
  to.resize(std::max<size_t>(to.size(), bytes));
  shm::SharedCopy(to.data(), region_.bytes.data() + offset, bytes);
  bytes_read_ += bytes;
  return {to.data(), bytes};
}

void DamageFinder::Note(uint64_t offset, Bytes bytes, std::string what) {
  PairSum sum;
  sum.Add(bytes);
  found_.push_back({offset, std::move(what), sum.End()});
}

}  // namespace gossamer
