#include "compute/cache/separator_index.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

namespace gossamer {
namespace {

SeparatorNode* NodeOf(uint64_t word) { return std::bit_cast<SeparatorNode*>(word); }
uint64_t WordOf(const SeparatorNode* node) { return reinterpret_cast<uint64_t>(node); }

// At most 1/kTieFraction of a run of separators have the digest of the one before. Digests tell
// keys apart that differ in the first kDigestBytes behind a common prefix: they have 31 bits.
constexpr size_t kTieFraction = 8;
constexpr int kDigestBytes = 4;
// Separators of a part that is cut between prefixes, on average. Smaller ones make many levels.
constexpr size_t kLeastRun = 32;

constexpr SeparatorNode::Shape ShapeAt(uint32_t height) {
  return {1, static_cast<uint8_t>(height), 0};
}

}  // namespace

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
  if (path.length == 0) return {SeparatorNode::kGap, low.empty(), high.infinite};
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
    if (!separator.empty()) list_.Append({}, SeparatorNode::kGap);
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
    const uint64_t below =
        separator.empty() ? SeparatorNode::kGap : Below(HighFence::At(separator)).word;
    bottom.node->payload(0).store(below, std::memory_order_release);
  } else {
    list_.Clear();
    bottom.node->AppendTo(list_, 0, bottom.node->count());
    list_.EraseAt(bottom.index);
    Replace(path, Change::kRemove, 0);
  }
  SeparatorNode* const top = root_.load(std::memory_order_relaxed);
  if (top->height() == 1 && top->count() == 1 &&
      top->payload(0).load(std::memory_order_relaxed) == SeparatorNode::kGap) {
    root_.store(nullptr, std::memory_order_release);
    memory_.Count(0, top->bytes());
    memory_.Retire(top);
  }
}

void SeparatorIndex::MakeParts(const SeparatorList& entries, uint32_t height) {
  for (size_t part = 0; part < begins_.size(); ++part) {
    const size_t end = part + 1 == begins_.size() ? entries.size() : begins_[part + 1];
    fresh_.push_back(
        SeparatorNode::Make(memory_.arena(), entries, begins_[part], end, ShapeAt(height)));
  }
}

// The first separator of `node` is that of the node above it: the least entry never goes alone.
void SeparatorIndex::AppendParts(SeparatorList& above, std::span<SeparatorNode* const> parts) {
  for (const SeparatorNode* part : parts) above.Append(part->separator(0), WordOf(part));
}

void SeparatorIndex::Cut(const SeparatorList& entries, size_t depth, uint32_t height,
                         Change change) {
  begins_.clear();
  const size_t count = entries.size();
  // What has lost an entry needs no parts, even if it is wider than it would be made now.
  if (change == Change::kRemove) {
    if (count != 0) begins_.push_back(0);
    return;
  }
  CutBetweenPrefixes(entries);
  const bool may_be_wide = depth == 0 && (height > 1 || !expects_changes_);
  if (begins_.size() == 1 && count <= (may_be_wide ? kMaxRootCount : kMaxCount)) return;
  constexpr size_t kUsualCount = kMaxCount * 3 / 4;
  std::swap(begins_, runs_);
  begins_.clear();
  runs_.push_back(count);
  for (size_t run = 0; run + 1 < runs_.size(); ++run) {
    const size_t begin = runs_[run];
    const size_t size = runs_[run + 1] - begin;
    const size_t parts = size <= kMaxCount ? 1 : std::max<size_t>(2, size / kUsualCount);
    for (size_t part = 0; part < parts; ++part) begins_.push_back(begin + part * size / parts);
  }
  runs_.clear();
}

// From left to right: a run ends where one separator more would make too many of its digests equal.
// It is cut at the separator that has least in common with the one before it.
void SeparatorIndex::CutBetweenPrefixes(const SeparatorList& entries) {
  const size_t count = entries.size();
  common_.resize(count);
  for (size_t i = 1; i < count; ++i) {
    common_[i] = static_cast<uint8_t>(CommonBytes(entries.separator(i - 1), entries.separator(i)));
  }
  const auto at = [this](size_t i) { return common_.begin() + static_cast<ptrdiff_t>(i); };
  begins_.push_back(0);
  while (begins_.size() * kLeastRun < count) {
    const size_t begin = begins_.back();
    const size_t first = begin + 2;  // the least separator takes no part in the choice of digests
    int least = std::numeric_limits<int>::max();
    size_t ties = 0;
    size_t end = first;
    for (; end < count; ++end) {
      if (common_[end] < least) {
        least = common_[end];
        ties = static_cast<size_t>(std::count_if(
            at(first), at(end), [&](int bytes) { return bytes >= least + kDigestBytes; }));
      } else if (common_[end] >= least + kDigestBytes) {
        ++ties;
      }
      const size_t size = end + 1 - begin;
      if (size > kLeastRun && ties * kTieFraction > size) break;
    }
    if (end >= count) return;
    begins_.push_back(static_cast<size_t>(std::min_element(at(first), at(end + 1)) - at(0)));
  }
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
    Cut(list_, depth, height, change);
    MakeParts(list_, height);
    if (begins_.size() == 1) break;
    // The node above gets other separators, too.
    const std::span<SeparatorNode* const> made(fresh_.begin() + static_cast<ptrdiff_t>(first),
                                               fresh_.end());
    above_.Clear();
    if (depth == 0) {
      AppendParts(above_, made);
      std::swap(list_, above_);
      ++height;
      continue;
    }
    const Frame& parent = path.frames[depth - 1];
    parent.node->AppendTo(above_, 0, parent.index);
    AppendParts(above_, made);
    parent.node->AppendTo(above_, parent.index + 1, parent.node->count());
    std::swap(list_, above_);
  }
  uint64_t added = 0;
  for (const SeparatorNode* node : fresh_) added += node->bytes();
  if (added > removed + most_bytes || fresh_.back()->height() > kMaxHeight) {
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
