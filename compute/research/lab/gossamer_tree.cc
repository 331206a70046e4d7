// Read side: no allocation, no lock, no virtual call.
#include "compute/research/lab/gossamer_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace gossamer::lab {
namespace {

// A tree of the lab has no bound.
constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max() / 2;

uint64_t WordOf(const SeparatorNode* node) { return reinterpret_cast<uint64_t>(node); }

}  // namespace

uint64_t GossamerTree::NextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

EpochReader& GossamerTree::Reader() const {
  thread_local uint64_t tree = 0;
  thread_local EpochReader* reader = nullptr;
  if (tree != id_) {
    const std::lock_guard lock(readers_mutex_);
    reader = &readers_.try_emplace(std::this_thread::get_id(), memory_.epochs()).first->second;
    tree = id_;
  }
  return *reader;
}

Place GossamerTree::FindPlace(const SeparatorNode* root, Key key) {
  const KeyBytes bytes(key);
  const KeyView view = bytes.view();
  Place place;
  FindDigests(root, {&view, 1}, Prefetch::kHeader, {&place, 1});
  place.index = place.image->ConfirmPair(place.index, key);
  return place;
}

std::optional<Value> GossamerTree::ValueAt(const Place& place, Key key) {
  const uint32_t index = place.image->ConfirmPair(place.index, key);
  if (place.image->pair_key(index) != key) return std::nullopt;
  return place.image->pair_value(index).load(std::memory_order_acquire);
}

std::optional<Value> GossamerTree::Get(Key key) const {
  const EpochReader::Guard guard(Reader());
  const SeparatorNode* const root = index_.root();
  if (root == nullptr) return std::nullopt;
  return ValueAt(FindPlace(root, key), key);
}

void GossamerTree::FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values,
                            uint32_t batch, size_t prefetch) const {
  const EpochReader::Guard guard(Reader());
  const SeparatorNode* const root = index_.root();
  if (root == nullptr) {
    std::ranges::fill(values, std::nullopt);
    return;
  }
  const auto find = [prefetch](const SeparatorNode* from, std::span<const KeyView> some,
                               std::span<Place> places) {
    FindDigests(from, some, static_cast<Prefetch>(prefetch), places);
  };
  std::array<uint64_t, kChunk> words;
  std::array<KeyView, kChunk> views;
  for (size_t first = 0; first < keys.size(); first += kChunk) {
    const size_t count = std::min(kChunk, keys.size() - first);
    for (size_t i = 0; i < count; ++i) {
      words[i] = KeyBytes(keys[first + i]).word;
      views[i] = {reinterpret_cast<const char*>(&words[i]), sizeof words[i]};
    }
    TakePlaces(
        find, root, std::span(views).first(count), std::min<size_t>(batch, kMaxGroup),
        [&](size_t i, const Place& place) { values[first + i] = ValueAt(place, keys[first + i]); });
  }
}

size_t GossamerTree::Scan(Key from, std::span<Entry> found) const {
  const EpochReader::Guard guard(Reader());
  const SeparatorNode* const root = index_.root();
  if (root == nullptr) return 0;
  Place place = FindPlace(root, from);
  if (place.image->pair_key(place.index) < from) ++place.index;
  size_t count = 0;
  for (;;) {
    const SeparatorNode& leaf = *place.image;
    for (; place.index < leaf.count() && count < found.size(); ++place.index) {
      found[count++] = {leaf.pair_key(place.index),
                        leaf.pair_value(place.index).load(std::memory_order_acquire)};
    }
    if (count == found.size()) return count;
    // If the leaf was split meanwhile, the next separator above its keys is that of the next leaf
    // still.
    const auto next = index_.Above(KeyBytes(leaf.pair_key(leaf.count() - 1)).view());
    if (!next) return count;
    place = {SeparatorNode::At(next->word), 0};
  }
}

void GossamerTree::Insert(Key key, Value value) {
  const std::lock_guard lock(mutex_);
  InsertLocked(key, value);
}

void GossamerTree::InsertMany(std::span<const Entry> entries) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries) InsertLocked(entry.key, entry.value);
}

void GossamerTree::InsertLocked(Key key, Value value) {
  pairs_.clear();
  const SeparatorNode* const root = index_.root();
  if (root == nullptr) {
    pairs_.push_back({key, value});
    SetLeaf(0, pairs_);
    return;
  }
  const Place place = FindPlace(root, key);
  SeparatorNode& leaf = const_cast<SeparatorNode&>(*place.image);
  const Key found = leaf.pair_key(place.index);
  if (found == key) {
    leaf.pair_value(place.index).store(value, std::memory_order_release);
    return;
  }
  const uint32_t at = found < key ? place.index + 1 : place.index;
  for (uint32_t i = 0; i < leaf.count(); ++i) {
    if (i == at) pairs_.push_back({key, value});
    pairs_.push_back({leaf.pair_key(i), leaf.pair_value(i).load(std::memory_order_relaxed)});
  }
  if (at == leaf.count()) pairs_.push_back({key, value});

  const std::span<const Pair> pairs(pairs_);
  const size_t half = pairs.size() <= kMaxPairs ? pairs.size() : pairs.size() / 2;
  // The upper half first: until it is there, the old leaf has its keys.
  if (half != pairs.size()) SetLeaf(pairs[half].key, pairs.subspan(half));
  SetLeaf(leaf.low(), pairs.first(half));
  memory_.Retire(&leaf);
}

void GossamerTree::SetLeaf(Key low, std::span<const Pair> pairs) {
  const KeyBytes bytes(low);
  index_.Set(low == 0 ? KeyView() : bytes.view(),
             WordOf(SeparatorNode::MakeOfPairs(memory_.arena(), low, pairs)), kAnyBytes);
}

}  // namespace gossamer::lab
