// What partitioned trees are made of.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "compute/research/lab/bloom_filter.h"
#include "compute/research/lab/partitioned_tree.h"
#include "compute/research/lab/steps.h"
#include "compute/research/lab/task_group.h"

namespace gossamer::lab {
namespace {

TEST(BloomFilterTest, DeniesNoKeyThatWasAddedAndMostOthers) {
  constexpr uint64_t kKeys = 100'000;
  BloomFilter filter(kKeys);
  EXPECT_FALSE(filter.MayHave(KeyOfRecord(0)));
  for (uint64_t id = 0; id < kKeys; ++id) filter.Add(KeyOfRecord(id));
  uint64_t wrong = 0;
  for (uint64_t id = 0; id < kKeys; ++id) {
    ASSERT_TRUE(filter.MayHave(KeyOfRecord(id))) << id;
    wrong += filter.MayHave(KeyOfRecord(kKeys + id)) ? 1 : 0;
  }
  EXPECT_LT(wrong, kKeys * 3 / 100);
}

TEST(BloomFilterTest, AKeyMoreThanExpectedIsNotDenied) {
  BloomFilter filter(0);
  for (Key key = 0; key < 10'000; ++key) filter.Add(key);
  for (Key key = 0; key < 10'000; ++key) ASSERT_TRUE(filter.MayHave(key));
}

TEST(TaskGroupTest, WaitsForTasksOfTasks) {
  TaskGroup group(3);
  ASSERT_TRUE(group.Start());
  std::atomic<int> done = 0;
  for (int round = 1; round <= 50; ++round) {
    for (int i = 0; i < 20; ++i) {
      group.Push([&] {
        for (int j = 0; j < 5; ++j) group.Push([&] { ++done; });
      });
    }
    group.Wait();
    ASSERT_EQ(done, round * 100);
  }
}

// Many tasks insert one key at a time. With filters, some may put a new key into different trees.
template <Placement kPlacement>
void CheckLastInsertCounts(uint32_t batch) {
  PartitionedTree<4, kPlacement> tree({.workers = 4, .partitions = 5, .expected_keys = 100});
  Value value = 0;
  for (Key key = 0; key < 30; ++key) {
    std::vector<Request> requests;
    for (int i = 0; i < 400; ++i) requests.push_back(Request::Insert({key, ++value}));
    ASSERT_TRUE(tree.Execute(requests, batch));
    ASSERT_EQ(tree.Get(key), value);
    std::array<Entry, 2> found;
    ASSERT_EQ(tree.Scan(key, found), 1u);
    ASSERT_EQ(found[0], (Entry{key, value}));
    for (const uint32_t of_get : {1u, 2u}) {
      Request get = Request::Get(key);
      ASSERT_TRUE(tree.Execute(std::span(&get, 1), of_get));
      ASSERT_EQ(get.Result(), value);
    }
  }
}

TEST(PartitionedTreeTest, OfInsertsOfOneKeyTheLastCounts) {
  for (const uint32_t batch : {1u, 50u, 400u}) {
    CheckLastInsertCounts<Placement::kRandom>(batch);
    CheckLastInsertCounts<Placement::kFilters>(batch);
    CheckLastInsertCounts<Placement::kHash>(batch);
  }
}

}  // namespace
}  // namespace gossamer::lab
