#include "compute/cache/cached_node.h"

#include <cassert>
#include <new>

namespace gossamer {
namespace {

KeyView KeyOf(const HighFence& high) { return high.infinite ? KeyView() : high.key.view(); }

}  // namespace

CachedNode CachedNode::Make(NodeArena& arena, SeparatorList& separators, RemotePtr pointer,
                            const InternalNode& node) {
  separators.Clear();
  for (const InternalNode::Child& child : node.children) {
    separators.Append(child.separator, child.pointer.word());
  }
  return Make(arena, separators, pointer.word(), node.version, node.level, node.high);
}

bool CachedNode::HasContentOf(RemotePtr pointer, const InternalView& node) const {
  if (this->pointer() != pointer || level() != node.level() || count() != node.count() ||
      !(high() == node.high()) || low().view() != node.low()) {
    return false;
  }
  uint32_t i = 0;
  bool has_all = true;
  node.ForEach([&](KeyView, RemotePtr other) { has_all &= child(i++) == other; });
  return has_all;
}

CachedNode CachedNode::MakeWithChildren(NodeArena& arena, SeparatorList& separators, CachedNode old,
                                        uint32_t index,
                                        std::span<const InternalNode::Child> children) {
  assert(!children.empty() && index < old.count());
  const auto append_children = [&] {
    for (const InternalNode::Child& child : children) {
      separators.Append(child.separator, child.pointer.word());
    }
  };
  const HighFence high = old.high();
  separators.Clear();
  append_children();
  SeparatorNode* const node = old.node_->CopyWith(arena, index + 1, separators, TailBytes(high));
  if (node != nullptr) return Finish(node, old.tail().pointer, old.version(), old.level(), high);
  separators.Clear();
  old.node_->AppendTo(separators, 0, index + 1);
  append_children();
  old.node_->AppendTo(separators, index + 1, old.count());
  return Make(arena, separators, old.tail().pointer, old.version(), old.level(), high);
}

CachedNode CachedNode::Make(NodeArena& arena, const SeparatorList& separators, uint64_t pointer,
                            NodeVersion version, uint32_t level, const HighFence& high) {
  const SeparatorNode::Shape shape{static_cast<uint8_t>(level == 1 ? 2 : 1), 0, TailBytes(high),
                                   KeyOf(high)};
  return Finish(SeparatorNode::Make(arena, separators, 0, separators.size(), shape), pointer,
                version, level, high);
}

uint32_t CachedNode::TailBytes(const HighFence& high) {
  return static_cast<uint32_t>(sizeof(Tail) + KeyOf(high).size());
}

CachedNode CachedNode::Finish(SeparatorNode* node, uint64_t pointer, NodeVersion version,
                              uint32_t level, const HighFence& high) {
  const CachedNode cached(node);
  Tail& tail = *::new (node->tail()) Tail{};
  tail.pointer = pointer;
  tail.version = version;
  tail.level = static_cast<uint8_t>(level);
  tail.is_last = high.infinite;
  tail.high_bytes = static_cast<uint16_t>(KeyOf(high).copy(cached.high_key(), kMaxKeyBytes));
  return cached;
}

}  // namespace gossamer
