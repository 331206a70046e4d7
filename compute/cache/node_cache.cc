// Read side: no allocation, no lock, no virtual call.
#include "compute/cache/node_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gossamer {
namespace {

// A 1 KB node takes about this many bytes here; one bucket for each.
constexpr uint64_t kBytesPerBucket = 1024;
constexpr uint64_t kMinBuckets = 64;
// Most chances of a node: more than a tree has levels.
constexpr size_t kMostChances = 8;

bool IsNewer(NodeVersion a, NodeVersion b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)) > 0;
}

}  // namespace

NodeCache::NodeCache(uint64_t max_bytes)
    : max_bytes_(max_bytes),
      bucket_mask_(std::bit_ceil(std::max(max_bytes / kBytesPerBucket, kMinBuckets)) - 1),
      buckets_(new std::atomic<CachedNode*>[bucket_mask_ + 1]()) {}

NodeCache::~NodeCache() {
  for (; count_ != 0; --count_) CachedNode::Free(std::exchange(hand_, hand_->clock_behind));
}

std::atomic<CachedNode*>& NodeCache::Bucket(RemotePtr pointer) const {
  const uint64_t hash = (pointer.word() / kNodeAlignment) * 0x9e3779b97f4a7c15u;
  return buckets_[(hash >> 32) & bucket_mask_];
}

// Sequentially consistent, as the stores of Link and Unlink are: a reader that looked idle when a
// node was retired must not find that node afterwards. On x86-64 such a load costs nothing extra.
const CachedNode* NodeCache::LookupAny(RemotePtr pointer) const {
  const CachedNode* node = Bucket(pointer).load(std::memory_order_seq_cst);
  while (node != nullptr && node->pointer() != pointer) {
    node = node->next.load(std::memory_order_seq_cst);
  }
  return node;
}

const CachedNode* NodeCache::Lookup(RemotePtr pointer) const {
  const CachedNode* node = LookupAny(pointer);
  if (node == nullptr || node->is_forgotten.load(std::memory_order_relaxed)) return nullptr;
  if (node->chances.load(std::memory_order_relaxed) != node->level()) {
    node->chances.store(node->level(), std::memory_order_relaxed);
  }
  return node;
}

NodeCache::Step NodeCache::FindFrom(Reader& reader, const Step& from, const SearchGoal& goal,
                                    uint32_t level) const {
  Step step = from;
  const EpochReader::Guard guard(reader);
  const CachedNode* parent = nullptr;
  uint32_t index = 0;
  while (step.level > level) {
    const CachedNode* node = Lookup(step.node);
    // The range has shrunk since the parent was read: read the node again.
    if (node == nullptr || goal.IsBefore(node->low()) || goal.IsBeyond(node->high())) break;
    index = goal.Choose(*node, node->count());
    step.node = node->child(index);
    --step.level;
    parent = node;
  }
  if (parent != nullptr) {
    step.parent = parent->pointer();
    step.low = Key(parent->separator(index));
    step.hint = step.level == 0 ? parent->hint(index).load(std::memory_order_relaxed) : 0;
  }
  return step;
}

std::optional<NodeCache::Step> NodeCache::Find(Reader& reader, const SearchGoal& goal,
                                               uint32_t level) const {
  const RootWord root = this->root();
  if (root.word() == 0) return std::nullopt;
  return FindFrom(reader, Step{root.pointer(), root.level(), RemotePtr(), 0, Key()}, goal, level);
}

template <typename Visit>
bool NodeCache::VisitParent(Reader& reader, const SearchGoal& goal, Visit&& visit) const {
  const std::optional<Step> step = Find(reader, goal, 1);
  if (!step || step->level != 1) return false;
  const EpochReader::Guard guard(reader);
  const CachedNode* node = Lookup(step->node);
  if (node == nullptr || goal.IsBefore(node->low()) || goal.IsBeyond(node->high())) return false;
  visit(*node);
  return true;
}

size_t NodeCache::CollectRight(Reader& reader, KeyView key, size_t limit,
                               std::vector<LeafRef>& leaves) const {
  size_t found = 0;
  HighFence from = HighFence::At(key);
  while (found < limit && !from.infinite) {
    const SearchGoal goal = SearchGoal::Covering(from.key);
    const bool cached = VisitParent(reader, goal, [&](const CachedNode& node) {
      for (uint32_t i = goal.Choose(node, node.count()); i < node.count() && found < limit; ++i) {
        leaves.push_back({node.child(i), node.pointer(), Key(node.separator(i))});
        ++found;
      }
      from = node.high();
    });
    if (!cached) break;
  }
  return found;
}

size_t NodeCache::CollectLeft(Reader& reader, const HighFence& bound, size_t limit,
                              std::vector<LeafRef>& leaves) const {
  size_t found = 0;
  HighFence below = bound;
  while (found < limit && (below.infinite || !below.key.view().empty())) {
    const SearchGoal goal = SearchGoal::Below(below);
    const bool cached = VisitParent(reader, goal, [&](const CachedNode& node) {
      for (uint32_t i = goal.Choose(node, node.count()) + 1; i-- > 0 && found < limit;) {
        leaves.push_back({node.child(i), node.pointer(), Key(node.separator(i))});
        ++found;
      }
      below = HighFence::At(node.low());
    });
    if (!cached) break;
  }
  return found;
}

std::atomic<uint64_t>* NodeCache::FindHint(RemotePtr parent, KeyView key, RemotePtr leaf) const {
  const CachedNode* node = Lookup(parent);
  if (node == nullptr || node->level() != 1 || node->low() > key || !node->high().Admits(key)) {
    return nullptr;
  }
  const uint32_t index = node->ChildIndex(key);
  return node->child(index) == leaf ? &node->hint(index) : nullptr;
}

void NodeCache::PatchHint(Reader& reader, RemotePtr parent, KeyView key, RemotePtr leaf,
                          const HintPatch& patch) {
  const EpochReader::Guard guard(reader);
  std::atomic<uint64_t>* hint = FindHint(parent, key, leaf);
  if (hint == nullptr) return;
  uint64_t word = hint->load(std::memory_order_relaxed);
  while (!hint->compare_exchange_weak(word, patch.AppliedTo(word), std::memory_order_relaxed)) {
  }
}

bool NodeCache::IsOlder(const CachedNode& fresh, const CachedNode* old) {
  return old != nullptr && IsNewer(old->version(), fresh.version());
}

uint32_t NodeCache::Insert(RemotePtr pointer, const InternalNode& node) {
  CachedNode* fresh = CachedNode::Make(pointer, node);
  const std::lock_guard lock(mutex_);
  if (IsOlder(*fresh, Lookup(pointer))) {
    CachedNode::Free(fresh);
    return 0;
  }
  const CachedNode* old = LookupAny(pointer);
  if (old != nullptr) KeepHints(*old, *fresh);
  return Put(fresh);
}

uint32_t NodeCache::InsertSplit(RemotePtr left_pointer, const InternalNode& left,
                                RemotePtr right_pointer, const InternalNode& right) {
  uint32_t evictions = 0;
  {
    CachedNode* fresh = CachedNode::Make(right_pointer, right);
    const std::lock_guard lock(mutex_);
    const CachedNode* whole = LookupAny(left_pointer);
    if (IsOlder(*fresh, Lookup(right_pointer))) {
      CachedNode::Free(fresh);
    } else {
      if (whole != nullptr) KeepHints(*whole, *fresh);
      evictions = Put(fresh);
    }
  }
  return evictions + Insert(left_pointer, left);
}

uint32_t NodeCache::InsertChild(RemotePtr parent, const Key& separator, RemotePtr leaf) {
  const std::lock_guard lock(mutex_);
  const CachedNode* old = Lookup(parent);
  if (old == nullptr || old->level() != 1 || separator.view() <= old->low() ||
      !old->high().Admits(separator)) {
    return 0;
  }
  InternalNode node;
  node.version = old->version();
  node.high = old->high();
  node.children.reserve(old->count() + size_t{1});
  const uint32_t index = old->ChildIndex(separator);
  if (old->separator(index) == separator.view()) return 0;
  for (uint32_t i = 0; i < old->count(); ++i) {
    node.children.push_back({Key(old->separator(i)), old->child(i)});
    if (i == index) node.children.push_back({separator, leaf});
  }
  CachedNode* fresh = CachedNode::Make(parent, node);
  KeepHints(*old, *fresh);
  return Put(fresh);
}

void NodeCache::KeepHints(const CachedNode& old, const CachedNode& fresh) {
  if (fresh.level() != 1) return;
  // Both are sorted by separator, and children only move right: one pass finds the children that stay.
  for (uint32_t i = 0, j = 0; i < fresh.count() && j < old.count(); ++j) {
    while (i < fresh.count() && fresh.separator(i) < old.separator(j)) ++i;
    if (i < fresh.count() && fresh.child(i) == old.child(j)) {
      fresh.hint(i).store(old.hint(j).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
}

uint32_t NodeCache::Put(CachedNode* fresh) {
  const CachedNode* root = LookupAny(this->root().pointer());
  const bool stays = root != nullptr && fresh->pointer() != root->pointer() &&
                     !root->is_forgotten.load(std::memory_order_relaxed);
  const bool fits = fresh->bytes() + (stays ? root->bytes() : 0) <= max_bytes_;
  // The cached version of the node counts as well, and may itself be evicted.
  const uint32_t evictions =
      fits ? EvictDownTo(max_bytes_ - fresh->bytes(), stays ? root : nullptr) : 0;
  auto* old = const_cast<CachedNode*>(LookupAny(fresh->pointer()));
  if (old != nullptr) Unlink(old);
  if (fits) {
    Link(fresh);
  } else {
    CachedNode::Free(fresh);
  }
  return evictions;
}

void NodeCache::Invalidate(RemotePtr pointer) {
  const std::lock_guard lock(mutex_);
  auto* node = const_cast<CachedNode*>(LookupAny(pointer));
  if (node == nullptr) return;
  if (node->level() == 1) {
    node->is_forgotten.store(true, std::memory_order_relaxed);
    node->chances.store(0, std::memory_order_relaxed);
  } else {
    Unlink(node);
  }
}

void NodeCache::Link(CachedNode* node) {
  std::atomic<CachedNode*>& bucket = Bucket(node->pointer());
  node->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  bucket.store(node, std::memory_order_seq_cst);
  if (count_++ == 0) {
    hand_ = node->clock_before = node->clock_behind = node;
  } else {
    node->clock_behind = hand_;
    node->clock_before = std::exchange(hand_->clock_before, node);
    node->clock_before->clock_behind = node;
  }
  bytes_.fetch_add(node->bytes(), std::memory_order_relaxed);
}

// Readers that stand on the node follow its `next`, which does not change.
void NodeCache::Unlink(CachedNode* node) {
  std::atomic<CachedNode*>* link = &Bucket(node->pointer());
  while (link->load(std::memory_order_relaxed) != node) {
    link = &link->load(std::memory_order_relaxed)->next;
  }
  link->store(node->next.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  if (hand_ == node) hand_ = node->clock_behind;
  node->clock_before->clock_behind = node->clock_behind;
  node->clock_behind->clock_before = node->clock_before;
  --count_;
  bytes_.fetch_sub(node->bytes(), std::memory_order_relaxed);
  epochs_.Retire(node, &CachedNode::Free);
}

uint32_t NodeCache::EvictDownTo(uint64_t max_bytes, const CachedNode* kept) {
  uint32_t evictions = 0;
  // Bounds the rounds, however fast readers renew chances.
  size_t chances = count_ * kMostChances;
  while (bytes() > max_bytes) {
    CachedNode* node = hand_;
    const uint32_t left = node->chances.load(std::memory_order_relaxed);
    if (node == kept) {
      hand_ = node->clock_behind;
      continue;
    }
    if (left != 0 && chances != 0) {
      node->chances.store(left - 1, std::memory_order_relaxed);
      hand_ = node->clock_behind;
      --chances;
      continue;
    }
    Unlink(node);
    ++evictions;
  }
  return evictions;
}

}  // namespace gossamer
