#include "compute/tree/shape/node_union.h"

#include <algorithm>
#include <cassert>

namespace gossamer {

bool NodeUnion::Combine(const Neighbours& nodes, std::span<const std::byte> left,
                        std::span<const std::byte> right, Right state) {
  nodes_ = nodes;
  const bool is_frozen = state == Right::kFrozen;
  return nodes.level == 0 ? CombineLeaves(left, right, is_frozen)
                          : CombineInternal(left, right, is_frozen);
}

bool NodeUnion::CombineLeaves(std::span<const std::byte> left, std::span<const std::byte> right,
                              bool is_frozen) {
  const std::optional<LeafView> a = LeafView::Parse(left, nodes_.left, geometry_, nodes_.low);
  const std::optional<LeafView> b =
      LeafView::Parse(right, nodes_.right, geometry_, nodes_.separator);
  const bool are_neighbours =
      a && b && !a->frozen() && b->frozen() == is_frozen &&
      a->trailer().sibling() == nodes_.right && a->EndsAt(nodes_.separator) &&
      a->trailer().low().Matches(nodes_.low) && b->trailer().low().Matches(nodes_.separator);
  if (!are_neighbours) return false;
  version_ = a->version();
  right_version_ = b->version();
  high_ = b->high();
  sibling_ = b->trailer().sibling();
  entries_.clear();
  keys_.Clear();
  a->AppendTo(entries_, keys_);
  const size_t of_left = entries_.size();
  b->AppendTo(entries_, keys_);
  has_empty_ = of_left == 0 || of_left == entries_.size();
  const Bounds bounds = Bounds::Of(nodes_.low, high_);
  const size_t longest = bounds.LongestKey(geometry_.max_suffix_bytes());
  are_short_ = std::ranges::all_of(entries_, [&](const Entry& entry) {
    return entry.is_long() || geometry_.CountedBytes(entry.key.size(), entry.expires()) <= longest;
  });
  bytes_ = LeafPacker::BytesOf(entries_, bounds.prefix.size());
  capacity_ = packer_.Capacity(bounds.fence.size());
  return true;
}

bool NodeUnion::CombineInternal(std::span<const std::byte> left, std::span<const std::byte> right,
                                bool is_frozen) {
  const std::optional<InternalView> a = InternalView::Parse(left, nodes_.left);
  const std::optional<InternalView> b = InternalView::Parse(right, nodes_.right);
  const bool are_neighbours =
      a && b && a->level() == nodes_.level && b->level() == nodes_.level && !a->frozen() &&
      b->frozen() == is_frozen && a->sibling() == nodes_.right && a->low() == nodes_.low.view() &&
      b->low() == nodes_.separator.view() && a->high() == HighFence::At(nodes_.separator);
  if (!are_neighbours) return false;
  version_ = a->version();
  right_version_ = b->version();
  high_ = b->high();
  sibling_ = b->sibling();
  node_ = a->Decode();
  node_.version = Next(version_);
  node_.high = high_;
  node_.sibling = sibling_;
  b->ForEach([this](KeyView separator, RemotePtr child) {
    node_.children.push_back({Key(separator), child});
  });
  has_empty_ = false;
  are_short_ = true;
  const size_t fixed = FixedBytes(node_);
  bytes_ = EncodedBytes(node_) - fixed;
  capacity_ = geometry_.node_bytes() - fixed;
  return true;
}

bool NodeUnion::Encode(std::span<std::byte> out, uint64_t& hint) {
  const bool may_be_one = are_short_ && (high_.infinite || IsShortFence(nodes_.low, high_.key));
  if (!may_be_one) return false;
  if (nodes_.level != 0) return EncodeInternal(out, nodes_.left, node_);
  LeafContent content{Next(version_), nodes_.low, high_, sibling_, entries_};
  if (!packer_.PlaceAll(content, LeafPacker::Own::kNever)) return false;
  hint = packer_.Encode(out, nodes_.left, content);
  return true;
}

void NodeUnion::Freeze(std::span<std::byte> right) const {
  if (nodes_.level == 0) {
    SetFrozen(right, nodes_.right, geometry_, nodes_.separator, true);
    return;
  }
  InternalNode node = *DecodeInternal(right, nodes_.right);
  node.frozen = true;
  node.version = Next(node.version);
  [[maybe_unused]] const bool fits = EncodeInternal(right, nodes_.right, node);
  assert(fits);  // as it did
}

}  // namespace gossamer
