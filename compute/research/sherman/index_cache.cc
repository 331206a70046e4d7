#include "compute/research/sherman/index_cache.h"

#include <iterator>
#include <mutex>

namespace gossamer::sherman {

const IndexCache::Copy* IndexCache::Covering(uint32_t level, Key key) const {
  const Level& copies = levels_[level];
  const auto behind = copies.upper_bound(key);
  if (behind == copies.begin()) return nullptr;
  const Copy& copy = std::prev(behind)->second;
  return copy.node.header.Covers(key) ? &copy : nullptr;
}

const IndexCache::Copy* IndexCache::Use(uint32_t level, Key key) const {
  const Copy* const copy = Covering(level, key);
  if (copy != nullptr) {
    copy->used_at.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  return copy;
}

std::optional<RemotePtr> IndexCache::Find(uint32_t level, Key key) const {
  const std::shared_lock lock(mutex_);
  const Copy* const copy = Use(level, key);
  if (copy == nullptr) return std::nullopt;
  return copy->node.child(copy->node.ChildIndex(key));
}

void IndexCache::FindLeaves(Key key, size_t most, std::vector<RemotePtr>& leaves) const {
  const std::shared_lock lock(mutex_);
  const Copy* const copy = Use(1, key);
  if (copy == nullptr) return;
  for (uint32_t i = copy->node.ChildIndex(key);
       i <= copy->node.header.entries && leaves.size() < most; ++i) {
    leaves.push_back(copy->node.child(i));
  }
}

uint64_t IndexCache::Put(const InternalNode& node, uint32_t root_level) {
  const uint32_t level = node.header.level;
  if (level != 1 && level + 1 < root_level) return 0;
  const std::lock_guard lock(mutex_);
  const auto [copy, is_new] = levels_[level].try_emplace(node.header.low, node);
  if (!is_new) copy->second.node = node;
  copy->second.used_at.store(++clock_, std::memory_order_relaxed);
  if (!is_new) return 0;
  copies_.fetch_add(1, std::memory_order_relaxed);
  if (level != 1) return 0;
  const bool is_full = by_index_.size() == most_copies_;
  if (is_full) EvictOne();
  copy->second.index = by_index_.size();
  by_index_.push_back(copy);
  return is_full ? 1 : 0;
}

void IndexCache::Forget(uint32_t level, Key key) {
  const std::lock_guard lock(mutex_);
  if (const Copy* const copy = Covering(level, key); copy != nullptr) {
    Erase(level, levels_[level].find(copy->node.header.low));
  }
}

void IndexCache::Erase(uint32_t level, Level::iterator copy) {
  if (level == 1) {
    const size_t index = copy->second.index;
    by_index_[index] = by_index_.back();
    by_index_[index]->second.index = index;
    by_index_.pop_back();
  }
  levels_[level].erase(copy);
  copies_.fetch_sub(1, std::memory_order_relaxed);
}

void IndexCache::EvictOne() {
  const Level::iterator one = by_index_[random_.Below(by_index_.size())];
  const Level::iterator other = by_index_[random_.Below(by_index_.size())];
  Erase(1, one->second.used_at < other->second.used_at ? one : other);
}

}  // namespace gossamer::sherman
