// Lookups: no lock, no virtual call. FindSpot, FindLeaves and Find allocate nothing; what collects
// nodes appends to its caller's vector.
#include "compute/cache/node_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace gossamer {
namespace {

// A node of 1 KB takes about as much here; one use count for each.
constexpr uint64_t kBytesPerSlot = 1024;
constexpr uint64_t kMinSlots = 8;
constexpr uint64_t kMaxSlots = uint64_t{1} << 20;

// The gap's node has a null child.
NodeCache::LeafSpot SpotAt(const Place& place) {
  return {RemotePtr::FromWord(place.image->payload(place.index).load(std::memory_order_relaxed)),
          place.image->payload(place.index, 1).load(std::memory_order_relaxed)};
}

}  // namespace

NodeCache::Reader::Reader(NodeCache& cache)
    : cache_(cache),
      epoch_(cache.memory_.epochs()),
      uses_(new std::atomic<uint8_t>[cache.last_slot_ + 1]()) {
  const std::lock_guard lock(cache_.mutex_);
  cache_.readers_.push_back(this);
}

NodeCache::Reader::~Reader() {
  const std::lock_guard lock(cache_.mutex_);
  std::erase(cache_.readers_, this);
}

NodeCache::NodeCache(uint64_t max_bytes)
    : max_bytes_(max_bytes),
      last_slot_(static_cast<uint32_t>(
          std::clamp(std::bit_ceil(max_bytes / kBytesPerSlot), kMinSlots, kMaxSlots) - 1)) {
  for (std::unique_ptr<SeparatorIndex>& index : indexes_) {
    index = std::make_unique<SeparatorIndex>(memory_);
  }
}

NodeCache::~NodeCache() {
  while (hand_ != nullptr) {
    const CachedNode node(hand_);
    Unlink(node);
    memory_.Discard(node.node());
  }
}

CachedNode NodeCache::NodeOf(uint64_t word) {
  return CachedNode(std::bit_cast<SeparatorNode*>(word & ~SeparatorIndex::kGap));
}

NodeCache::LeafRef NodeCache::RefOf(CachedNode node, uint32_t child) {
  return {node.child(child), node.pointer(), node.hint(child).load(std::memory_order_relaxed),
          node.separator(child)};
}

void NodeCache::Reader::CountUse(const SeparatorNode* node) {
  if (!cache_.counts_uses_.load(std::memory_order_relaxed)) return;
  std::atomic<uint8_t>& uses = uses_[node->slot()];
  const uint8_t before = uses.load(std::memory_order_relaxed);
  if (before != kMaxBenefit) {
    uses.store(static_cast<uint8_t>(before + 1), std::memory_order_relaxed);
  }
}

CachedNode NodeCache::Lookup(uint32_t level, const SearchGoal& goal, uint32_t& child) const {
  const SeparatorIndex& nodes = index(level);
  if (!goal.is_below()) {
    const SeparatorNode* const root = nodes.root();
    if (root == nullptr) return {};
    const Place place = FindPlace(root, goal.key());
    if (place.image == SeparatorIndex::GapNode()) return {};
    child = place.index;
    return CachedNode(place.image);
  }
  const uint64_t word = nodes.Below(goal.bound()).word;
  if (SeparatorIndex::IsGap(word)) return {};
  const CachedNode node = NodeOf(word);
  child = goal.Choose(node, node.count());
  return node;
}

std::optional<NodeCache::Step> NodeCache::Reader::Find(const SearchGoal& goal, uint32_t level,
                                                       HighFence* high) {
  const RootWord root = this->root();
  if (root.word() == 0) return std::nullopt;
  const EpochReader::Guard guard(epoch_);
  for (uint32_t above = level + 1; above <= std::min(root.level(), kLevels); ++above) {
    uint32_t child = 0;
    const CachedNode node = cache_.Lookup(above, goal, child);
    if (!node) continue;
    CountUse(node.node());
    if (high != nullptr) {
      *high = child + 1 == node.count() ? node.high() : HighFence::At(node.separator(child + 1));
    }
    return Step{node.child(child), above - 1, node.pointer(),
                above == 1 ? node.hint(child).load(std::memory_order_relaxed) : 0,
                node.separator(child)};
  }
  if (high != nullptr) *high = HighFence();
  return Step::To(root);
}

NodeCache::LeafSpot NodeCache::Reader::FindSpot(KeyView key, Counts counts) {
  const EpochReader::Guard guard(epoch_);
  const RootWord root_word = this->root();
  if (root_word.level() == 0) return SpotOf(root_word);
  const SeparatorNode* const root = cache_.index(1).root();
  if (root == nullptr) return {};
  const Place place = FindPlace(root, key);
  if (counts == Counts::kUse) CountUse(place.image);
  return SpotAt(place);
}

void NodeCache::Reader::FindLeaves(std::span<const KeyView> keys, size_t batch,
                                   std::span<LeafSpot> spots, PlaceFinder find) {
  assert(batch != 0 && batch <= kMaxGroup);
  const EpochReader::Guard guard(epoch_);
  const SeparatorNode* const root = cache_.index(1).root();
  const RootWord root_word = this->root();
  if (root == nullptr || root_word.level() == 0) {
    std::ranges::fill(spots, root_word.level() == 0 ? SpotOf(root_word) : LeafSpot{});
    return;
  }
  TakePlaces(find, root, keys, batch, [&](size_t i, const Place& place) {
    spots[i] = SpotAt(place);
    CountUse(place.image);
  });
}

size_t NodeCache::Reader::CollectRight(KeyView key, size_t limit, std::vector<LeafRef>& leaves,
                                       HighFence& end) {
  if (root().level() == 0) return 0;
  size_t found = 0;
  HighFence from = HighFence::At(key);
  const EpochReader::Guard guard(epoch_);
  while (found < limit && !from.infinite) {
    uint32_t child = 0;
    const CachedNode node = cache_.Lookup(1, SearchGoal::Covering(from.key), child);
    if (!node) break;
    CountUse(node.node());
    for (; child < node.count() && found < limit; ++child, ++found) {
      leaves.push_back(RefOf(node, child));
    }
    from = child < node.count() ? HighFence::At(node.separator(child)) : node.high();
  }
  end = from;
  return found;
}

size_t NodeCache::Reader::CollectLeft(const HighFence& bound, size_t limit,
                                      std::vector<LeafRef>& leaves) {
  if (root().level() == 0) return 0;
  size_t found = 0;
  HighFence below = bound;
  const EpochReader::Guard guard(epoch_);
  while (found < limit && (below.infinite || !below.key.view().empty())) {
    uint32_t child = 0;
    const CachedNode node = cache_.Lookup(1, SearchGoal::Below(below), child);
    if (!node) break;
    CountUse(node.node());
    for (++child; child-- > 0 && found < limit; ++found) {
      leaves.push_back(RefOf(node, child));
    }
    below = HighFence::At(node.low());
  }
  return found;
}

uint32_t NodeCache::Reader::FindMissing(KeyView key, uint32_t level, std::vector<NodeRef>& missing,
                                        HighFence& end) {
  if (level == 0 || level >= std::min(root().level(), kLevels)) return 0;
  const EpochReader::Guard guard(epoch_);
  uint32_t child = 0;
  const CachedNode parent = cache_.Lookup(level + 1, SearchGoal::Covering(key), child);
  if (!parent) return 0;
  for (uint32_t i = 0; i < parent.count(); ++i) {
    const Key low = parent.separator(i);
    const CachedNode node = cache_.Lookup(level, SearchGoal::Covering(low), child);
    if (!node || node.pointer() != parent.child(i)) missing.push_back({parent.child(i), low});
  }
  end = parent.high();
  return parent.count();
}

void NodeCache::Reader::PatchHint(KeyView key, RemotePtr leaf, const HintPatch& patch) {
  const EpochReader::Guard guard(epoch_);
  uint32_t child = 0;
  const CachedNode node = cache_.Lookup(1, SearchGoal::Covering(key), child);
  if (!node || node.child(child) != leaf) return;
  std::atomic<uint64_t>& hint = node.hint(child);
  uint64_t word = hint.load(std::memory_order_relaxed);
  while (!hint.compare_exchange_weak(word, patch.AppliedTo(word), std::memory_order_relaxed)) {
  }
}

void NodeCache::Reader::ReplaceHints(std::span<const InternalNode::Child> leaves,
                                     std::span<const uint64_t> hints) {
  assert(leaves.size() == hints.size());
  const EpochReader::Guard guard(epoch_);
  CachedNode node;
  uint32_t child = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    // Usually the next child of the same parent.
    const RemotePtr leaf = leaves[i].pointer;
    const bool is_next = node && child + 1 < node.count() && node.child(child + 1) == leaf;
    if (is_next) {
      ++child;
    } else {
      node = cache_.Lookup(1, SearchGoal::Covering(leaves[i].separator), child);
    }
    if (node && node.child(child) == leaf) {
      node.hint(child).store(hints[i], std::memory_order_relaxed);
    }
  }
}

}  // namespace gossamer
