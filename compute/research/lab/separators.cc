#include "compute/research/lab/separators.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/random.h"
#include "compute/cache/node_cache.h"
#include "compute/research/lab/index_traversal.h"
#include "proto/internal_node.h"

namespace gossamer::lab {
namespace {

using Clock = std::chrono::steady_clock;

// Of leaves that random inserts of 8 + 8 B have filled (leaf_fill_test), and of the nodes above
// them.
constexpr uint64_t kRecordsPerLeaf = 34;
constexpr size_t kChildrenPerNode = 42;
constexpr uint64_t kNodeBytes = 1024;
// Twice what is needed, so that the cache evicts nothing and counts no uses.
constexpr uint64_t kCacheBytesPerLeaf = 2 * 64;

KeyView ViewOf(const uint64_t& big_endian) {
  return {reinterpret_cast<const char*>(&big_endian), sizeof big_endian};
}
RemotePtr LeafAt(size_t number) { return RemotePtr(ServerId{0}, (number + 1) * kNodeBytes, 0); }
RemotePtr ParentAt(size_t number) { return RemotePtr(ServerId{1}, (number + 1) * kNodeBytes, 0); }

// A full cache, and what its leaves contain.
class CacheOfStore {
 public:
  CacheOfStore(uint64_t records, uint64_t seed)
      : lows_(std::max<uint64_t>(records / kRecordsPerLeaf, 1)),
        cache_(std::max<uint64_t>(lows_.size() * kCacheBytesPerLeaf, uint64_t{1} << 20)),
        reader_(cache_) {
    Random random(seed);
    std::ranges::generate(lows_, [&random] { return random.Next(); });
    std::ranges::sort(lows_);
    lows_[0] = 0;
    cache_.SetRoot(RootWord(ParentAt(0), 1));
    for (size_t first = 0; first < lows_.size(); first += kChildrenPerNode) InsertParent(first);
  }

  RemotePtr Find(KeyView key) { return reader_.Find(SearchGoal::Covering(key), 0)->node; }
  void FindMany(std::span<const KeyView> keys, size_t batch, std::span<NodeCache::LeafSpot> spots,
                PlaceFinder find) {
    reader_.FindLeaves(keys, batch, spots, find);
  }
  bool IsRight(RemotePtr leaf, KeyView key) const {
    const uint64_t word = KeyPrefix(key);
    const auto number = std::ranges::upper_bound(lows_, word) - lows_.begin() - 1;
    return leaf == LeafAt(static_cast<size_t>(number));
  }
  double bytes() const { return static_cast<double>(cache_.bytes()); }

 private:
  gossamer::Key SeparatorOf(size_t leaf) const {
    const uint64_t big_endian = __builtin_bswap64(lows_[leaf]);
    return leaf == 0 ? gossamer::Key() : gossamer::Key(ViewOf(big_endian));
  }
  void InsertParent(size_t first) {
    const size_t past = std::min(first + kChildrenPerNode, lows_.size());
    InternalNode node;
    node.version = NodeVersion{1};
    node.level = 1;
    if (past != lows_.size()) node.high = HighFence::At(SeparatorOf(past).view());
    for (size_t leaf = first; leaf < past; ++leaf) {
      node.children.push_back({SeparatorOf(leaf), LeafAt(leaf)});
    }
    cache_.Insert(ParentAt(first / kChildrenPerNode), node);
  }

  std::vector<uint64_t> lows_;
  NodeCache cache_;
  NodeCache::Reader reader_;
};

// Keys as the store gets them.
struct Sought {
  explicit Sought(std::span<const Step> steps) : words(steps.size()) {
    std::ranges::transform(steps, words.begin(),
                           [](const Step& step) { return __builtin_bswap64(step.key); });
    for (const uint64_t& word : words) keys.push_back(ViewOf(word));
  }
  std::vector<uint64_t> words;
  std::vector<KeyView> keys;
};

// Without a way to prefetch, the store's.
PlaceFinder FinderOf(const RunOptions& options) {
  const auto* const name = std::ranges::find(kPrefetchNames, options.prefetch);
  if (name == std::end(kPrefetchNames)) return FindPlaces;
  return FinderBy(static_cast<Prefetch>(name - kPrefetchNames));
}

// Looks all keys up. `check(leaf, i)` gets what was found.
template <typename Check>
void Run(CacheOfStore& cache, std::span<const KeyView> keys, const RunOptions& options,
         const Check& check) {
  if (options.batch == 1 && options.prefetch.empty()) {
    for (size_t i = 0; i < keys.size(); ++i) check(cache.Find(keys[i]), i);
    return;
  }
  const size_t batch = std::min<size_t>(options.batch, kMaxGroup);
  const PlaceFinder find = FinderOf(options);
  const size_t per_call = std::max(options.steps_per_call, options.batch);
  std::vector<NodeCache::LeafSpot> spots(per_call);
  for (size_t first = 0; first < keys.size(); first += per_call) {
    const auto some = keys.subspan(first, std::min(per_call, keys.size() - first));
    cache.FindMany(some, batch, std::span(spots).first(some.size()), find);
    for (size_t i = 0; i < some.size(); ++i) check(spots[i].leaf, first + i);
  }
}

}  // namespace

Status MeasureSeparators(std::span<const RunOptions> runs,
                         const std::function<void(const Measurement&)>& take) {
  const RunOptions& shared = runs.front();
  CacheOfStore cache(shared.records, shared.seed);
  const std::vector<ThreadSteps> steps = DrawSteps(shared);
  const Sought warm_up(steps[0].warm_up);
  const Sought measured(steps[0].measured);
  for (const RunOptions& options : runs) {
    uint64_t wrong = 0;
    Run(cache, warm_up.keys, options,
        [&](RemotePtr leaf, size_t i) { wrong += cache.IsRight(leaf, warm_up.keys[i]) ? 0 : 1; });
    uint64_t missing = 0;
    const double processor_before = ProcessorSeconds();
    const Clock::time_point start = Clock::now();
    Run(cache, measured.keys, options,
        [&](RemotePtr leaf, size_t /*i*/) { missing += leaf.is_null() ? 1 : 0; });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    const double processor_seconds = ProcessorSeconds() - processor_before;
    if (wrong + missing != 0) {
      return MakeError(Code::kCorruption,
                       fmt::format("{} of {} lookups found a wrong leaf, {} of {} found none",
                                   wrong, warm_up.keys.size(), missing, measured.keys.size()));
    }
    take({options.operations, seconds.count(), processor_seconds,
          cache.bytes() / static_cast<double>(options.records)});
  }
  return Ok();
}

const TreeEntry& Separators() {
  static constexpr TreeEntry kEntry = {.name = "separators",
                                       .what = "the cache of a store, without the store",
                                       .fanout = 0,
                                       .many_threads = false,
                                       .parallel = false,
                                       .partitioned = false,
                                       .prefetches = kPrefetchNames,
                                       .measure = &MeasureSeparators,
                                       .make = nullptr,
                                       .check_mix = nullptr,
                                       .check_hints = nullptr};
  return kEntry;
}

}  // namespace gossamer::lab
