#include "compute/cache/cached_node.h"

#include <new>

namespace gossamer {

CachedNode CachedNode::Make(NodeArena& arena, SeparatorList& separators, RemotePtr pointer,
                            const InternalNode& node) {
  separators.Clear();
  for (const InternalNode::Child& child : node.children) {
    separators.Append(child.separator, child.pointer.word());
  }
  return Make(arena, separators, pointer.word(), node.version, node.level, node.high);
}

bool CachedNode::HasContentOf(RemotePtr pointer, const InternalNode& node) const {
  if (this->pointer() != pointer || level() != node.level || count() != node.children.size() ||
      !(high() == node.high) || !(low() == node.children.front().separator)) {
    return false;
  }
  for (uint32_t i = 0; i < count(); ++i) {
    if (child(i) != node.children[i].pointer) return false;
  }
  return true;
}

CachedNode CachedNode::MakeWithChild(NodeArena& arena, SeparatorList& separators, CachedNode old,
                                     KeyView separator, RemotePtr child) {
  separators.Clear();
  old.node_->AppendTo(separators, 0, old.count());
  separators.InsertAt(old.ChildIndex(separator) + size_t{1}, separator, child.word());
  return Make(arena, separators, old.tail().pointer, old.version(), old.level(), old.high());
}

CachedNode CachedNode::Make(NodeArena& arena, const SeparatorList& separators, uint64_t pointer,
                            NodeVersion version, uint32_t level, const HighFence& high) {
  const KeyView high_key = high.infinite ? KeyView() : high.key.view();
  const CachedNode cached(
      SeparatorNode::Make(arena, separators, 0, separators.size(),
                          {static_cast<uint8_t>(level == 1 ? 2 : 1), 0,
                           static_cast<uint32_t>(sizeof(Tail) + high_key.size())}));
  Tail& tail = *::new (cached.node_->tail()) Tail{};
  tail.pointer = pointer;
  tail.version = version;
  tail.level = static_cast<uint8_t>(level);
  tail.is_last = high.infinite;
  tail.high_bytes = static_cast<uint16_t>(high_key.copy(cached.high_key(), high_key.size()));
  return cached;
}

}  // namespace gossamer
