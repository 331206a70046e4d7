#include "compute/cache/fill_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "compute/cache/node_cache_test_support.h"

namespace gossamer {
namespace {

constexpr uint64_t kChildren = 10;

// A tree of three levels of internal nodes: 1, 10 and 100 nodes.
class FillPlanTest : public testing::Test {
 protected:
  static uint64_t NodesAt(uint32_t level) { return level == 3 ? 1 : level == 2 ? 10 : 100; }
  // Node `number` of its level, and where it is.
  static RemotePtr PointerOf(uint32_t level, uint64_t number) {
    return NodeAt(1 + level * 1000 + number);
  }
  static InternalNode Make(uint32_t level, uint64_t number) {
    InternalNode node;
    node.level = static_cast<uint8_t>(level);
    node.version = NodeVersion{1};
    for (uint64_t i = 0; i < kChildren; ++i) {
      const uint64_t child = number * kChildren + i;
      node.children.push_back({Key(LowOf(level - 1, child)), PointerOf(level - 1, child)});
    }
    if (number + 1 < NodesAt(level)) node.high = HighFence::At(LowOf(level, number + 1));
    return node;
  }
  // The first node of a level begins at the empty key.
  static std::string LowOf(uint32_t level, uint64_t number) {
    for (; level > 0; --level) number *= kChildren;
    return number == 0 ? "" : KeyOf(number);
  }
  void Start(uint64_t cache_bytes) {
    cache_.emplace(cache_bytes);
    reader_.emplace(*cache_);
    plan_.emplace(*cache_, kNodeBytes);
    cache_->SetRoot(RootWord(PointerOf(3, 0), 3));
    cache_->Insert(PointerOf(3, 0), Make(3, 0));
  }
  void Miss(uint64_t times) {
    for (uint64_t i = 0; i < times; ++i) plan_->NoteMiss();
  }
  // Works on the pass until it ends. Returns how many nodes it named.
  uint64_t Fill() {
    uint64_t count = 0;
    FillPlan::Nodes next;
    while (const FillPlan::Work work = plan_->Next(*reader_, next)) {
      EXPECT_LE(next.nodes.size(), kChildren);
      for (const NodeCache::NodeRef& ref : next.nodes) {
        const uint64_t number = ref.node.offset() / kNodeBytes - next.level * 1000 - 1;
        EXPECT_TRUE(named_.insert(ref.node.word()).second) << number;
        EXPECT_EQ(ref.low, Key(LowOf(next.level, number)));
        cache_->Insert(ref.node, Make(next.level, number));
        ++count;
      }
    }
    return count;
  }

  std::optional<NodeCache> cache_;
  std::optional<NodeCache::Reader> reader_;
  std::optional<FillPlan> plan_;
  std::set<uint64_t> named_;
};

TEST_F(FillPlanTest, NamesEachMissingNodeOnce) {
  Start(uint64_t{1} << 20);
  cache_->Insert(PointerOf(2, 3), Make(2, 3));
  cache_->Insert(PointerOf(1, 55), Make(1, 55));
  Miss(FillPlan::kMisses);
  EXPECT_EQ(Fill(), 108u);
  for (uint64_t key = 0; key < 1000; ++key) {
    const std::string text = KeyOf(key);
    EXPECT_EQ(reader_->Find(SearchGoal::Covering(text), 0)->node, PointerOf(0, key));
  }
}

TEST_F(FillPlanTest, StartsOnlyAfterRepeatedMisses) {
  Start(uint64_t{1} << 20);
  EXPECT_EQ(Fill(), 0u);
  Miss(FillPlan::kMisses - 1);
  EXPECT_EQ(Fill(), 0u);
  EXPECT_TRUE(plan_->NoteMiss());
  EXPECT_EQ(Fill(), 110u);
  // The next pass would look at as many nodes again, for nothing.
  EXPECT_FALSE(plan_->NoteMiss());
  Miss(FillPlan::kMisses);
  EXPECT_EQ(Fill(), 0u);
}

TEST_F(FillPlanTest, StopsAboveALevelThatDoesNotFit) {
  Start(uint64_t{40} << 10);
  Miss(FillPlan::kMisses);
  EXPECT_EQ(Fill(), 10u);  // level 2, but not the 100 nodes of level 1
  EXPECT_EQ(reader_->Find(SearchGoal::Covering(KeyOf(1)), 0)->level, 1u);
  named_.clear();
  Start(4096);
  Miss(FillPlan::kMisses);
  EXPECT_EQ(Fill(), 0u);
}

TEST_F(FillPlanTest, EndsWhereAParentIsForgotten) {
  Start(uint64_t{1} << 20);
  Miss(FillPlan::kMisses);
  FillPlan::Nodes next;
  FillPlan::Nodes other;
  {
    const FillPlan::Work work = plan_->Next(*reader_, next);
    ASSERT_TRUE(work);
    EXPECT_EQ(next.level, 2u);
    EXPECT_EQ(next.nodes.size(), kChildren);
    EXPECT_FALSE(plan_->Next(*reader_, other));
    EXPECT_TRUE(plan_->NoteMiss()) << "the pass goes on once the nodes are there";
  }
  // None was READ: level 2 is not cached.
  EXPECT_FALSE(plan_->Next(*reader_, other));
  EXPECT_FALSE(plan_->NoteMiss());
}

}  // namespace
}  // namespace gossamer
