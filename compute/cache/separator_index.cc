#include "compute/cache/separator_index.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace gossamer {
namespace {

SeparatorNode* NodeOf(uint64_t word) { return std::bit_cast<SeparatorNode*>(word); }
uint64_t WordOf(const SeparatorNode* node) { return reinterpret_cast<uint64_t>(node); }

// A node with one separator, which no key is below. It is never freed: a store may be destroyed
// after all static objects.
const SeparatorNode* MakeGapNode() {
  static NodeArena& arena = *new NodeArena;
  SeparatorList list;
  list.Append({}, 0);
  return SeparatorNode::Make(arena, list, 0, 1, {2, 0, 0});
}

constexpr SeparatorNode::Shape ShapeAt(uint32_t height) {
  return {1, static_cast<uint8_t>(height), 0};
}

}  // namespace

const SeparatorNode* const SeparatorIndex::kGapNode = MakeGapNode();

SeparatorIndex::~SeparatorIndex() {
  if (root() != nullptr) FreeBelow(root_.load(std::memory_order_relaxed));
}

void SeparatorIndex::FreeBelow(SeparatorNode* node) {
  for (uint32_t i = 0; node->height() > 1 && i < node->count(); ++i) FreeBelow(ChildOf(node, i));
  memory_.Count(0, node->bytes());
  memory_.Discard(node);
}

SeparatorNode* SeparatorIndex::ChildOf(const SeparatorNode* node, uint32_t index) {
  return NodeOf(node->payload(index).load(std::memory_order_acquire));
}

template <typename Choose>
SeparatorIndex::Path SeparatorIndex::Descend(Choose&& choose) const {
  Path path;
  SeparatorNode* node = root_.load(std::memory_order_acquire);
  while (node != nullptr) {
    assert(path.length < kMaxHeight);
    const uint32_t index = choose(*node);
    path.frames[path.length++] = {node, index};
    node = node->height() > 1 ? ChildOf(node, index) : nullptr;
  }
  return path;
}

SeparatorIndex::Entry SeparatorIndex::EntryAt(const Path& path) {
  if (path.length == 0) return {};
  const Frame& bottom = path.frames[path.length - 1];
  return {bottom.node->separator(bottom.index),
          bottom.node->payload(bottom.index).load(std::memory_order_acquire)};
}

SeparatorIndex::Entry SeparatorIndex::Covering(KeyView key) const {
  return EntryAt(Descend([key](const SeparatorNode& node) { return node.ChildIndex(key); }));
}

SeparatorIndex::Entry SeparatorIndex::Below(const HighFence& bound) const {
  assert(bound.infinite || !bound.key.view().empty());
  return EntryAt(Descend([&bound](const SeparatorNode& node) {
    return bound.infinite ? node.count() - 1 : node.ChildIndexBelow(bound.key);
  }));
}

std::optional<SeparatorIndex::Entry> SeparatorIndex::Above(KeyView key) const {
  Path path = Descend([key](const SeparatorNode& node) { return node.ChildIndex(key); });
  if (!StepRight(path)) return std::nullopt;
  return EntryAt(path);
}

// Up to the lowest node with an entry further right, and down its left edge.
bool SeparatorIndex::StepRight(Path& path) {
  while (path.length != 0 && path.bottom().index + 1 == path.bottom().node->count()) --path.length;
  if (path.length == 0) return false;
  ++path.bottom().index;
  while (path.bottom().node->height() > 1) {
    path.frames[path.length] = {ChildOf(path.bottom().node, path.bottom().index), 0};
    ++path.length;
  }
  return true;
}

SeparatorIndex::Holding SeparatorIndex::At(KeyView low, const HighFence& high) const {
  Path path = Descend([low](const SeparatorNode& node) { return node.ChildIndex(low); });
  if (path.length == 0) return {kGap, low.empty(), high.infinite};
  Holding holding;
  const Frame at = path.bottom();
  holding.word = at.node->payload(at.index).load(std::memory_order_acquire);
  holding.starts_there = at.node->CompareSeparator(at.index, low) == 0;
  if (!StepRight(path)) {
    holding.ends_there = high.infinite;
  } else if (!high.infinite) {
    const Frame& next = path.bottom();
    holding.ends_there = next.node->CompareSeparator(next.index, high.key) == 0;
  }
  return holding;
}

bool SeparatorIndex::Set(KeyView separator, uint64_t word, uint64_t most_bytes) {
  list_.Clear();
  Path path =
      Descend([separator](const SeparatorNode& node) { return node.ChildIndex(separator); });
  if (path.length == 0) {
    if (!separator.empty()) list_.Append({}, kGap);
    list_.Append(separator, word);
    return Replace(path, Change::kAdd, most_bytes);
  }
  const Frame& bottom = path.bottom();
  if (bottom.node->CompareSeparator(bottom.index, separator) == 0) {
    bottom.node->payload(bottom.index).store(word, std::memory_order_release);
    return true;
  }
  bottom.node->AppendTo(list_, 0, bottom.node->count());
  list_.InsertAt(bottom.index + size_t{1}, separator, word);
  return Replace(path, Change::kAdd, most_bytes);
}

void SeparatorIndex::Remove(KeyView separator) {
  Path path =
      Descend([separator](const SeparatorNode& node) { return node.ChildIndex(separator); });
  const Frame& bottom = path.bottom();
  const bool is_first = bottom.index == 0;
  const bool is_alone = bottom.node->count() == 1;
  const bool may_go = path.length > 1 && path.frames[path.length - 2].index != 0;
  if (is_first && !(is_alone && may_go)) {
    const uint64_t below = separator.empty() ? kGap : Below(HighFence::At(separator)).word;
    bottom.node->payload(0).store(below, std::memory_order_release);
  } else {
    list_.Clear();
    bottom.node->AppendTo(list_, 0, bottom.node->count());
    list_.EraseAt(bottom.index);
    Replace(path, Change::kRemove, 0);
  }
  SeparatorNode* const top = root_.load(std::memory_order_relaxed);
  if (top->height() == 1 && top->count() == 1 &&
      top->payload(0).load(std::memory_order_relaxed) == kGap) {
    root_.store(nullptr, std::memory_order_release);
    memory_.Count(0, top->bytes());
    memory_.Retire(top);
  }
}

void SeparatorIndex::MakeParts(const SeparatorList& entries, size_t parts, uint32_t height) {
  const size_t count = entries.size();
  for (size_t part = 0; part < parts; ++part) {
    fresh_.push_back(SeparatorNode::Make(memory_.arena(), entries, part * count / parts,
                                         (part + 1) * count / parts, ShapeAt(height)));
  }
}

// The first separator of `node` is that of the node above it: the least entry never goes alone.
void SeparatorIndex::AppendParts(SeparatorList& above, std::span<SeparatorNode* const> parts) {
  for (const SeparatorNode* part : parts) above.Append(part->separator(0), WordOf(part));
}

size_t SeparatorIndex::PartsFor(size_t count, size_t depth, uint32_t height, Change change) const {
  // What has lost an entry needs no parts, even if it is wider than it would be made now.
  if (change == Change::kRemove) return count == 0 ? 0 : 1;
  const bool may_be_wide = depth == 0 && (height > 1 || !expects_changes_);
  if (count <= (may_be_wide ? kMaxRootCount : kMaxCount)) return 1;
  constexpr size_t kUsualCount = kMaxCount * 3 / 4;
  return depth == 0 ? std::max<size_t>(2, count / kUsualCount) : 2;
}

bool SeparatorIndex::Replace(const Path& path, Change change, uint64_t most_bytes) {
  fresh_.clear();
  size_t depth = path.length;  // frames[depth] and below are replaced
  uint32_t height = 1;
  uint64_t removed = 0;
  for (;;) {
    if (depth != 0) {
      --depth;
      height = path.frames[depth].node->height();
      removed += path.frames[depth].node->bytes();
    }
    const size_t first = fresh_.size();
    const size_t parts = PartsFor(list_.size(), depth, height, change);
    MakeParts(list_, parts, height);
    if (parts == 1) break;
    // The node above gets other separators, too.
    const std::span<SeparatorNode* const> made(fresh_.begin() + static_cast<ptrdiff_t>(first),
                                               fresh_.end());
    above_.Clear();
    if (depth == 0) {
      AppendParts(above_, made);
      fresh_.push_back(
          SeparatorNode::Make(memory_.arena(), above_, 0, above_.size(), ShapeAt(height + 1)));
      break;
    }
    const Frame& parent = path.frames[depth - 1];
    parent.node->AppendTo(above_, 0, parent.index);
    AppendParts(above_, made);
    parent.node->AppendTo(above_, parent.index + 1, parent.node->count());
    std::swap(list_, above_);
  }
  uint64_t added = 0;
  for (const SeparatorNode* node : fresh_) added += node->bytes();
  if (added > removed + most_bytes) {
    for (SeparatorNode* node : fresh_) memory_.Discard(node);
    return false;
  }
  memory_.Count(added, removed);
  SeparatorNode* const top = fresh_.back();
  if (depth == 0) {
    root_.store(top, std::memory_order_release);
  } else {
    const Frame& parent = path.frames[depth - 1];
    parent.node->payload(parent.index).store(WordOf(top), std::memory_order_release);
  }
  for (size_t i = depth; i < path.length; ++i) memory_.Retire(path.frames[i].node);
  return true;
}

}  // namespace gossamer
