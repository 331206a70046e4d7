// What PALM promises beyond a tree of the lab: order within a batch, and how work is dealt out.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "common/random.h"
#include "compute/research/lab/palm_tree.h"

namespace gossamer::lab::palm {
namespace {

constexpr Key kMax = std::numeric_limits<Key>::max();

TEST(PalmSearchTest, CountsAsTheStandardLibraryDoes) {
  Random random(1);
  for (uint32_t count = 0; count <= 70; ++count) {
    for (const uint64_t bound : {uint64_t{20}, kMax}) {  // with many equal keys, and with none
      std::vector<Key> keys(count);
      for (Key& key : keys) key = random.Below(bound);
      std::sort(keys.begin(), keys.end());
      std::vector<Key> wanted = {0, kMax, kMax / 2, kMax / 2 + 1, random.Below(bound)};
      for (const Key key : keys) wanted.insert(wanted.end(), {key - 1, key, key + 1});
      for (const Key key : wanted) {
        const auto below = std::lower_bound(keys.begin(), keys.end(), key) - keys.begin();
        const auto not_above = std::upper_bound(keys.begin(), keys.end(), key) - keys.begin();
        ASSERT_EQ(CountBelow<false>(keys.data(), count, key), below) << count << " keys, " << key;
        ASSERT_EQ(CountBelow<true>(keys.data(), count, key), not_above)
            << count << " keys, " << key;
      }
    }
  }
}

TEST(PalmShareTest, EveryRequestHasOneWorkerAndItemsAreInOrder) {
  Random random(2);
  for (const uint64_t keys : {uint64_t{1}, uint64_t{5}, uint64_t{300}, kMax}) {
    for (uint32_t workers = 1; workers <= 5; ++workers) {
      std::vector<Request> requests(500);
      for (Request& request : requests) request = Request::Get(random.Below(keys));
      std::vector<uint32_t> taken(requests.size());
      std::vector<Item> items;
      Item last{0, 0};
      for (uint32_t worker = 0; worker < workers; ++worker) {
        TakeItems(requests, RangeOf(requests, worker, workers), items);
        for (const Item& item : items) {
          ++taken[item.index];
          ASSERT_EQ(item.key, requests[item.index].key);
          ASSERT_LE(std::pair(last.key, last.index), std::pair(item.key, item.index));
          last = item;
        }
      }
      ASSERT_TRUE(std::all_of(taken.begin(), taken.end(), [](uint32_t n) { return n == 1; }))
          << keys << " keys, " << workers << " workers";
    }
  }
}

TEST(PalmShareTest, EachNodeHasOneOwner) {
  // The nodes of five workers' lists: two share a node across an empty list, one has none of its
  // own.
  std::vector<Node> nodes(4);
  const std::vector<std::vector<int>> lists = {{0, 1, 1}, {}, {1, 1}, {1, 2}, {2, 2, 3}};
  std::vector<std::vector<int>> owned(lists.size());
  for (uint32_t worker = 0; worker < lists.size(); ++worker) {
    ForOwned(
        worker, static_cast<uint32_t>(lists.size()), [&](uint32_t w) { return lists[w].size(); },
        [&](uint32_t w, size_t i) { return &nodes[static_cast<size_t>(lists[w][i])]; },
        [&](uint32_t w, size_t i) { owned[worker].push_back(lists[w][i]); });
  }
  EXPECT_EQ(owned[0], (std::vector{0, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(owned[1].empty());
  EXPECT_TRUE(owned[2].empty());
  EXPECT_EQ(owned[3], (std::vector{2, 2, 2}));
  EXPECT_EQ(owned[4], (std::vector{3}));
}

// Each get of a batch finds what the inserts before it in the batch have left.
template <bool kPipelined>
void CheckOrderInABatch() {
  Random random(3);
  PalmTree<4, kPipelined> tree({.workers = 3});
  std::map<Key, Value> reference;
  std::vector<Request> requests(10'000);
  std::vector<std::optional<Value>> expected;
  for (Request& request : requests) {
    const Key key = random.Below(400);
    request = random.Below(2) == 0 ? Request::Get(key) : Request::Insert({key, random.Next()});
    if (request.is_insert) reference[key] = request.value;
    const auto it = reference.find(key);
    expected.push_back(it == reference.end() ? std::nullopt : std::optional(it->second));
  }
  ASSERT_TRUE(tree.Execute(requests, 700));
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].is_insert) {
      ASSERT_EQ(requests[i].Result(), expected[i]) << "request " << i;
    }
  }
}

TEST(PalmTreeTest, ABatchKeepsTheOrderOfOneKey) {
  CheckOrderInABatch<false>();
  CheckOrderInABatch<true>();
}

// One call that makes the tree many levels high: the root is split again and again below a
// pipeline.
TEST(PalmTreeTest, ARootThatIsSplitSendsThePipelineDownAgain) {
  constexpr Key kKeys = 20'000;
  PalmTree<4, true> tree({.workers = 2});
  std::vector<Request> requests;
  for (Key key = 0; key < kKeys; ++key) requests.push_back(Request::Insert({key, ~key}));
  ASSERT_TRUE(tree.Execute(requests, 64));
  std::vector<Entry> found(kKeys + 1);
  ASSERT_EQ(tree.Scan(0, found), kKeys);
  for (Key key = 0; key < kKeys; ++key) {
    ASSERT_EQ(tree.Get(key), ~key);
    ASSERT_EQ(found[key], (Entry{key, ~key}));
  }
}

}  // namespace
}  // namespace gossamer::lab::palm
