// Lookups: no lock, no virtual call. FindSpot, FindLeaves and Find allocate nothing; what collects
// nodes appends to its caller's vector.
#include "compute/cache/node_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <utility>

#include "common/random.h"

namespace gossamer {
namespace {

KeyView KeyOf(const HighFence& high) { return high.infinite ? KeyView() : high.key.view(); }

// A node of 1 KB takes about as much here; one use count for each.
constexpr uint64_t kBytesPerSlot = 1024;
constexpr uint64_t kMinSlots = 8;
constexpr uint64_t kMaxSlots = uint64_t{1} << 20;

// The gap's node has a null child.
NodeCache::LeafSpot SpotAt(const Place& place) {
  return {RemotePtr::FromWord(place.image->payload(place.index).load(std::memory_order_relaxed)),
          place.image->payload(place.index, 1).load(std::memory_order_relaxed)};
}

bool IsNewer(NodeVersion a, NodeVersion b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b)) > 0;
}

// Least bytes of an index: one node with a line of digests and one of payload.
constexpr uint64_t kLeastIndexBytes = 192;

// At most what `node` takes, with its entries in an index that need not split a node.
uint64_t MostBytes(const InternalNode& node) {
  constexpr uint64_t kOfNode = 512;  // headers, tails, and what lines are rounded up by
  constexpr uint64_t kOfChild = 24;  // digest, end and payload, of level 1 with a hint
  uint64_t bytes = kOfNode + node.children.size() * kOfChild;
  for (const InternalNode::Child& child : node.children) bytes += child.separator.view().size();
  return bytes;
}

// More than halve the greatest benefit to nothing.
constexpr size_t kMostRounds = 5;

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

bool CachedNode::HasGrownTo(RemotePtr pointer, const InternalView& node,
                            std::span<const InternalNode::Child> added) const {
  return !added.empty() && this->pointer() == pointer && Next(version()) == node.version() &&
         std::ranges::all_of(added, [this](const InternalNode::Child& one) {
           return child(ChildIndex(one.separator)) == one.pointer;
         });
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
  return CachedNode(std::bit_cast<SeparatorNode*>(word & ~SeparatorNode::kGap));
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
    if (place.image == SeparatorNode::Gap()) return {};
    child = place.index;
    return CachedNode(place.image);
  }
  const uint64_t word = nodes.Below(goal.bound()).word;
  if (SeparatorNode::IsGap(word)) return {};
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

uint32_t NodeCache::Insert(RemotePtr pointer, const InternalNode& node, uint64_t began,
                           Admission admission) {
  const std::lock_guard lock(mutex_);
  const bool is_refused = began < flushes_ || (admission == Admission::kDrawn && IsRefused(node));
  return is_refused ? 0 : Admit(pointer, node);
}

uint32_t NodeCache::Insert(RemotePtr pointer, const InternalView& node, uint64_t began,
                           std::span<const InternalNode::Child> added) {
  const std::lock_guard lock(mutex_);
  if (node.level() > kLevels || began < flushes_) return 0;
  const CachedNode cached = NodeCovering(node.level(), node.low());
  const bool is_same =
      cached && (cached.HasGrownTo(pointer, node, added) || cached.HasContentOf(pointer, node));
  if (!is_same) return Admit(pointer, node.Decode());
  if (IsNewer(node.version(), cached.version())) cached.SetVersion(node.version());
  return 0;
}

uint32_t NodeCache::Admit(RemotePtr pointer, const InternalNode& node) {
  if (node.level > kLevels) return 0;
  const CachedNode cached = NodeCovering(node.level, node.low());
  if (cached && cached.pointer() == pointer) {
    // A cached node with a child added before its parent's write has the old version and more
    // children.
    const bool is_same = cached.version() == node.version && cached.count() == node.children.size();
    if (is_same || IsNewer(cached.version(), node.version)) return 0;
  }
  const CachedNode fresh = CachedNode::Make(memory_.arena(), scratch_, pointer, node);
  KeepHints(fresh);
  return Put(fresh);
}

uint32_t NodeCache::InsertChildren(RemotePtr parent, std::span<const InternalNode::Child> leaves,
                                   uint64_t began) {
  assert(!leaves.empty() && std::ranges::is_sorted(leaves, {}, [](const auto& leaf) {
    return leaf.separator.view();
  }));
  const std::lock_guard lock(mutex_);
  if (began < flushes_) return 0;
  const Key& first = leaves.front().separator;
  uint32_t child = 0;
  const CachedNode old = Lookup(1, SearchGoal::Covering(first), child);
  if (!old || old.pointer() != parent || old.node()->CompareSeparator(child, first) == 0) return 0;
  const KeyView last = leaves.back().separator;
  const bool are_inside = child + 1 == old.count()
                              ? old.high().Admits(last)
                              : old.node()->CompareSeparator(child + 1, last) > 0;
  if (!are_inside) return 0;
  return Put(CachedNode::MakeWithChildren(memory_.arena(), scratch_, old, child, leaves));
}

void NodeCache::Forget(uint32_t level, KeyView key, RemotePtr pointer) {
  if (level == 0 || level > kLevels) return;
  const std::lock_guard lock(mutex_);
  const CachedNode node = NodeOf(index(level).Covering(key).word);
  if (!node || node.pointer() != pointer) return;
  if (level != 1) {
    Remove(node);
    return;
  }
  SeparatorIndex& nodes = index(1);
  const HighFence high = node.high();
  std::optional<SeparatorIndex::Entry> entry = nodes.Covering(node.low());
  while (entry && high.Admits(entry->separator)) {
    if (NodeOf(entry->word) == node) nodes.Set(entry->separator, ForgottenWordOf(node), 0);
    entry = nodes.Above(entry->separator);
  }
  node.upkeep().benefit = 0;
  TakeUses(node);
}

void NodeCache::SetRoot(RootWord root, uint64_t began) {
  const std::lock_guard lock(mutex_);
  if (began >= flushes_) root_.store(root.word(), std::memory_order_release);
}

void NodeCache::Clear() {
  const std::lock_guard lock(mutex_);
  flushes_.fetch_add(1, std::memory_order_release);
  root_.store(RootWord().word(), std::memory_order_release);
  while (count_ != 0) Remove(CachedNode(hand_));
}

CachedNode NodeCache::NodeCovering(uint32_t level, KeyView key) const {
  const uint64_t word = index(level).Covering(key).word;
  return SeparatorNode::IsGap(word) ? CachedNode() : NodeOf(word);
}

bool NodeCache::IsRefused(const InternalNode& node) {
  if (node.level > kLevels || count_ == 0 || room() >= MostBytes(node)) return false;
  // What is cached there is outdated, or was forgotten and has hints.
  if (NodeOf(index(node.level).Covering(node.low()).word)) return false;
  return SplitMix64::Mix(++draws_) % kMissesPerAdmission != 0;
}

void NodeCache::KeepHints(CachedNode fresh) const {
  if (fresh.level() != 1) return;
  const CachedNode old = NodeOf(index(1).Covering(fresh.low()).word);
  if (!old) return;
  // Both are sorted by separator, and children only move right: one pass finds the children that
  // stay.
  uint32_t i = 0;
  for (uint32_t j = 0; i < fresh.count() && j < old.count(); ++j) {
    const Key separator = old.separator(j);
    while (i < fresh.count() && fresh.node()->CompareSeparator(i, separator) < 0) ++i;
    if (i < fresh.count() && fresh.child(i) == old.child(j)) {
      fresh.hint(i).store(old.hint(j).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
  }
}

CachedNode NodeCache::RootNode() const {
  const RootWord root = this->root();
  if (root.word() == 0 || root.level() == 0 || root.level() > kLevels) return {};
  const CachedNode node = NodeCovering(root.level(), KeyView());
  return node && node.pointer() == root.pointer() ? node : CachedNode();
}

uint32_t NodeCache::Put(CachedNode fresh) {
  if (bytes() + fresh.bytes() > max_bytes_ / 2) {
    counts_uses_.store(true, std::memory_order_relaxed);
  }
  if (TryEnter(fresh)) return 0;
  CachedNode kept = RootNode();
  if (kept && kept.pointer() == fresh.pointer()) kept = {};
  const uint64_t least =
      fresh.bytes() + kLeastIndexBytes + (kept ? kept.bytes() + kLeastIndexBytes : 0);
  uint32_t evictions = 0;
  while (least <= max_bytes_ && EvictOne(kept)) {
    if (evictions++ == 0) {
      for (const std::unique_ptr<SeparatorIndex>& index : indexes_) index->ExpectChanges();
    }
    if (TryEnter(fresh)) return evictions;
  }
  // There is no room for it, and what it replaces is outdated.
  const CachedNode old = NodeOf(index(fresh.level()).Covering(fresh.low()).word);
  if (old && old.pointer() == fresh.pointer()) Remove(old);
  memory_.Discard(fresh.node());
  return evictions;
}

bool NodeCache::TryEnter(CachedNode fresh) {
  SeparatorIndex& nodes = index(fresh.level());
  const Key low = fresh.low();
  const HighFence high = fresh.high();
  const SeparatorIndex::Holding before = nodes.At(low, high);
  const CachedNode old = before.starts_there ? NodeOf(before.word) : CachedNode();
  const uint64_t needed = fresh.bytes() - std::min(fresh.bytes(), old ? old.bytes() : 0);
  if (needed > room()) return false;
  const uint64_t room_for_index = room() - needed;
  const uint64_t bytes_before = bytes();
  // Usually a child was added, and the fresh node has the old one's range. `low` must be the old
  // node's own low fence: SeparatorIndex::Remove can leave a second entry inside its range.
  const bool takes_its_place =
      old && before.ends_there && old.high() == high && old.node()->CompareSeparator(0, low) == 0;
  // An end first: what lies behind it is not the fresh node's.
  const bool has_end =
      takes_its_place || high.infinite || nodes.Covering(high.key).separator == high.key;
  if (!has_end) {
    if (!nodes.Set(high.key, SeparatorNode::kGap, room_for_index)) return false;
  }
  const uint64_t grown = bytes() - std::min(bytes(), bytes_before);
  // Readers use the slot as soon as they can find the node.
  const uint32_t slot = TakeSlot();
  fresh.node()->set_slot(slot);
  if (!nodes.Set(low, WordOf(fresh), room_for_index - grown)) {
    free_slots_.push_back(slot);
    return false;
  }
  if (old) Unlink(old);
  Link(fresh);
  if (takes_its_place) {
    memory_.Retire(old.node());
    return true;
  }
  // Whatever else is in the range goes, and where the old node reached further there is a gap now.
  std::optional<SeparatorIndex::Entry> entry = nodes.Above(low);
  while (entry && high.Admits(entry->separator)) {
    const CachedNode displaced = NodeOf(entry->word);
    nodes.Remove(entry->separator);
    if (displaced && displaced != fresh && displaced != old &&
        low.view() < displaced.low().view()) {
      Remove(displaced);
    }
    entry = nodes.Above(entry->separator);
  }
  if (old) {
    ClearEntries(old);
    memory_.Retire(old.node());
  }
  return true;
}

void NodeCache::Remove(CachedNode node) {
  Unlink(node);
  ClearEntries(node);
  memory_.Retire(node.node());
}

void NodeCache::ClearEntries(CachedNode node) {
  SeparatorIndex& nodes = index(node.level());
  const HighFence high = node.high();
  std::optional<SeparatorIndex::Entry> entry = nodes.Covering(node.low());
  while (entry && high.Admits(entry->separator)) {
    const Key separator = entry->separator;
    if (NodeOf(entry->word) == node) {
      nodes.Set(separator, SeparatorNode::kGap, 0);
      // Neighbouring gaps are one.
      if (separator.view().empty() ||
          nodes.Below(HighFence::At(separator)).word == SeparatorNode::kGap) {
        nodes.Remove(separator);
      }
    }
    entry = nodes.Above(separator);
    if (entry && entry->word == SeparatorNode::kGap &&
        nodes.Below(HighFence::At(entry->separator)).word == SeparatorNode::kGap) {
      nodes.Remove(entry->separator);
    }
  }
}

// ---- The ring

uint32_t NodeCache::TakeSlot() {
  // Slot 0 is the gap's: lookups count a use of the node that they found, be it the GapNode.
  if (free_slots_.empty()) return 1 + static_cast<uint32_t>(count_ % last_slot_);
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void NodeCache::Link(CachedNode node) {
  SeparatorNode* const fresh = node.node();
  if (count_++ == 0) {
    hand_ = node.upkeep().before = node.upkeep().behind = fresh;
  } else {
    CachedNode::Upkeep& hand = CachedNode(hand_).upkeep();
    node.upkeep().behind = hand_;
    node.upkeep().before = std::exchange(hand.before, fresh);
    CachedNode(node.upkeep().before).upkeep().behind = fresh;
  }
  memory_.Count(node.bytes(), 0);
}

void NodeCache::Unlink(CachedNode node) {
  const CachedNode::Upkeep& upkeep = node.upkeep();
  if (hand_ == node.node()) hand_ = upkeep.behind;
  CachedNode(upkeep.before).upkeep().behind = upkeep.behind;
  CachedNode(upkeep.behind).upkeep().before = upkeep.before;
  if (--count_ == 0) hand_ = nullptr;
  free_slots_.push_back(node.node()->slot());
  memory_.Count(0, node.bytes());
}

uint32_t NodeCache::TakeUses(CachedNode node) {
  uint32_t uses = 0;
  const uint32_t slot = node.node()->slot();
  for (Reader* reader : readers_) {
    if (reader->uses_[slot].load(std::memory_order_relaxed) == 0) continue;
    uses += reader->uses_[slot].exchange(0, std::memory_order_relaxed);
  }
  return uses;
}

bool NodeCache::EvictOne(CachedNode kept) {
  if (count_ == 0 || (kept && count_ == 1)) return false;
  // However fast readers count uses, this many rounds decide.
  for (size_t left = count_ * kMostRounds;; left -= left != 0 ? 1 : 0) {
    const CachedNode node(hand_);
    hand_ = node.upkeep().behind;
    if (node == kept) continue;
    uint32_t& benefit = node.upkeep().benefit;
    const uint32_t uses = TakeUses(node);
    if ((benefit == 0 && uses == 0) || left == 0) {
      Remove(node);
      return true;
    }
    benefit = std::min(benefit / 2 + uses, kMaxBenefit);
  }
}

}  // namespace gossamer
