#include "compute/cache/separator_node.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/seed.h"
#include "compute/cache/separator_index.h"
#include "compute/cache/separator_test_support.h"
#include "compute/cache/traversal.h"

namespace gossamer {
namespace {

INSTANTIATE_TEST_SUITE_P(Shapes, SeparatorTest, testing::Range(size_t{0}, size_t{7}));

TEST_P(SeparatorTest, ASearchFindsTheLastSeparatorThatIsNotAbove) {
  NodeArena arena;
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> separators;
    const size_t wanted = 1 + random_.Below(round % 10 == 0 ? 400 : 70);
    for (size_t i = 0; i < 2 * wanted && separators.size() < wanted; ++i) separators.insert(Draw());
    SeparatorList list;
    for (const std::string& separator : separators) list.Append(separator, 0);
    SeparatorNode* const node = SeparatorNode::Make(arena, list, 0, list.size(), {});
    // Of keys below a bound, some nodes need not compare the prefix.
    const std::string high = std::string(list.separator(list.size() - 1)) + "2";
    SeparatorNode* const bounded =
        SeparatorNode::Make(arena, list, 0, list.size(), {1, 0, 0, high});
    for (size_t i = 0; i < list.size(); ++i) {
      ASSERT_EQ(node->separator(static_cast<uint32_t>(i)).view(), list.separator(i));
    }
    for (int i = 0; i < 200; ++i) {
      const std::string key =
          random_.Below(2) == 0 ? Draw() : std::string(list.separator(random_.Below(list.size())));
      if (key < *separators.begin()) continue;
      const auto expected = std::distance(separators.begin(), separators.upper_bound(key)) - 1;
      ASSERT_EQ(node->ChildIndex(key), expected) << testing::PrintToString(key);
      if (key < high) {
        ASSERT_EQ(bounded->ChildIndex(key), expected) << testing::PrintToString(key);
      }
    }
    SeparatorNode::Free(arena, node);
    SeparatorNode::Free(arena, bounded);
  }
}

// The leftmost node of each level begins with the empty key. Its other separators are told apart by
// their digests all the same, and a key below them all is found without a comparison with them.
TEST(SeparatorNodeTest, DigestsDoNotTieForTheEmptyKey) {
  NodeArena arena;
  SeparatorList list;
  list.Append("", 0);
  for (int i = 0; i < 1000; ++i) list.Append(fmt::format("a prefix:{:04}:7", 3 * i), 0);
  SeparatorNode* const node = SeparatorNode::Make(arena, list, 0, list.size(), {});
  for (uint32_t i = 1; i < node->count(); ++i) ASSERT_LT(node->digest(i - 1), node->digest(i));
  EXPECT_EQ(node->ChildIndex(""), 0u);
  EXPECT_EQ(node->ChildIndex("a key below them"), 0u);
  EXPECT_EQ(node->ChildIndex("a prefix:0000:6"), 0u);
  EXPECT_EQ(node->ChildIndex("a prefix:0000:7"), 1u);
  EXPECT_EQ(node->ChildIndex("z"), 1000u);
  SeparatorNode::Free(arena, node);
}

// Grows a node: by copies with one or more items in one place, and from the list where CopyWith
// returns null.
TEST_P(SeparatorTest, ACopyWithItemsIsTheNodeOfAllItems) {
  NodeArena arena;
  size_t copies = 0;
  size_t of_several = 0;
  for (int round = 0; round < 60; ++round) {
    const uint8_t words = round % 2 == 0 ? 1 : 2;
    const auto item_of = [](const std::string& key) {
      const uint64_t word = std::hash<std::string>()(key);
      return std::array<uint64_t, 2>{word, ~word};
    };
    std::set<std::string> separators = {Draw()};
    const auto make = [&] {
      SeparatorList list;
      for (const std::string& separator : separators) {
        list.Append({}, separator, item_of(separator)[0], item_of(separator)[1]);
      }
      return SeparatorNode::Make(arena, list, 0, list.size(), {words, 3, 40});
    };
    SeparatorNode* node = make();
    const size_t wanted = 1 + random_.Below(round % 10 < 2 ? 400 : 70);
    for (size_t i = 0; i < wanted; ++i) {
      const std::string separator = Draw();
      if (separator <= *separators.begin() || separators.contains(separator)) continue;
      const uint32_t index = node->ChildIndex(separator) + 1;
      std::set<std::string> in_place = {separator};
      for (uint64_t more = random_.Below(20); more != 0; --more) {
        const std::string other = Draw();
        const bool is_there = other > *separators.begin() && !separators.contains(other) &&
                              node->ChildIndex(other) + 1 == index;
        if (is_there) in_place.insert(other);
      }
      SeparatorList added;
      for (const std::string& other : in_place) {
        added.Append(other, item_of(other)[0], item_of(other)[1]);
      }
      SeparatorNode* fresh = node->CopyWith(arena, index, added, 40);
      separators.merge(in_place);
      copies += fresh != nullptr ? 1 : 0;
      of_several += fresh != nullptr && added.size() > 1 ? 1 : 0;
      if (fresh == nullptr) fresh = make();
      SeparatorNode::Free(arena, node);
      node = fresh;
      ASSERT_EQ(node->count(), separators.size());
      ASSERT_EQ(node->height(), 3);
      ASSERT_EQ(node->bytes(), [&] {
        SeparatorNode* const whole = make();
        const uint32_t bytes = whole->bytes();
        SeparatorNode::Free(arena, whole);
        return bytes;
      }());
    }
    uint32_t at = 0;
    for (const std::string& separator : separators) {
      ASSERT_EQ(node->separator(at).view(), separator);
      for (uint32_t word = 0; word < words; ++word) {
        ASSERT_EQ(node->payload(at, word).load(), item_of(separator)[word]);
      }
      ++at;
    }
    ASSERT_GE(node->tail_bytes(), 40);
    for (uint32_t i = 0; i < node->tail_bytes(); ++i) ASSERT_EQ(node->tail()[i], std::byte{0});
    for (int i = 0; i < 200; ++i) {
      const std::string key = Draw();
      if (key < *separators.begin()) continue;
      const auto expected = std::distance(separators.begin(), separators.upper_bound(key)) - 1;
      ASSERT_EQ(node->ChildIndex(key), expected) << testing::PrintToString(key);
    }
    SeparatorNode::Free(arena, node);
  }
  EXPECT_GT(copies, 100);
  EXPECT_GT(of_several, 30);
}

// What a SeparatorIndex should hold: a total map.
class Model {
 public:
  uint64_t Covering(const std::string& key) const {
    return std::prev(map_.upper_bound(key))->second;
  }
  uint64_t Below(const std::string& key) const { return std::prev(map_.lower_bound(key))->second; }
  void Set(const std::string& key, uint64_t word) { map_[key] = word; }
  void Remove(const std::string& key) {
    if (key.empty()) {
      map_[key] = SeparatorNode::kGap;
    } else {
      map_.erase(key);
    }
  }
  const std::map<std::string, uint64_t>& map() const { return map_; }

 private:
  std::map<std::string, uint64_t> map_{{"", SeparatorNode::kGap}};
};

void ExpectHolding(const SeparatorIndex& index, const std::string& low, const HighFence& high) {
  const SeparatorIndex::Entry covering = index.Covering(low);
  const std::optional<SeparatorIndex::Entry> above = index.Above(low);
  const SeparatorIndex::Holding holding = index.At(low, high);
  EXPECT_EQ(holding.word, covering.word);
  EXPECT_EQ(holding.starts_there, covering.separator.view() == low);
  EXPECT_EQ(holding.ends_there, high.infinite ? !above : above && above->separator == high.key);
}

TEST_P(SeparatorTest, AnIndexIsATotalMap) {
  for (int round = 0; round < 6; ++round) {
    NodeMemory memory;
    SeparatorIndex index(memory);
    Model model;
    const uint64_t kinds = round % 2 == 0 ? 3 : 10;
    for (int i = 0; i < 4000; ++i) {
      // A root that is wide then is split by the next change that adds a separator.
      if (round >= 2 && i == 1000 * (round - 2)) index.ExpectChanges();
      const std::string key = Draw();
      // Grows for a while, then shrinks.
      if (random_.Below(kinds) != 0 && i < 3000) {
        const uint64_t word = random_.Below(4) == 0 ? SeparatorNode::kGap : 8 * random_.Next();
        ASSERT_TRUE(index.Set(key, word, uint64_t{1} << 40));
        model.Set(key, word);
      } else if (const auto entry = index.Covering(key); entry.separator.size() != 0) {
        const uint64_t bytes = memory.bytes();
        const std::string separator(entry.separator.view());
        index.Remove(separator);
        ASSERT_LE(memory.bytes(), bytes);
        // The first separator of a node stays, with what holds below.
        if (index.Covering(separator).separator == entry.separator) {
          model.Set(separator, model.Below(separator));
        } else {
          model.Remove(separator);
        }
      }
      const std::string probe = Draw();
      ASSERT_EQ(index.Covering(probe).word, model.Covering(probe)) << i;
      if (!probe.empty()) {
        ASSERT_EQ(index.Below(HighFence::At(probe)).word, model.Below(probe)) << i;
      }
      ASSERT_EQ(index.Below(HighFence{}).word, model.map().rbegin()->second);
      const std::string low =
          random_.Below(2) == 0 ? probe : std::string(index.Covering(probe).separator);
      ExpectHolding(index, low, HighFence{});
      ExpectHolding(index, low, HighFence::At(Draw()));
      if (const auto above = index.Above(low)) {
        ExpectHolding(index, low, HighFence::At(above->separator));
      }
    }
  }
}

// For a group of keys and for each alone, each vector target finds the places that a search finds.
TEST_P(SeparatorTest, ATraversalFindsWhatASearchFinds) {
  NodeMemory memory;
  SeparatorIndex index(memory);
  const std::vector<SeparatorNode*> images = FillIndex(memory, index);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const std::vector<std::string> keys = DrawGroup();
    const std::vector<KeyView> views(keys.begin(), keys.end());
    std::vector<Place> places(keys.size());
    FindPlaces(index.root(), views, places);
    for (size_t i = 0; i < keys.size(); ++i) {
      ExpectPlace(index, keys[i], places[i], target);
      ExpectPlace(index, keys[i], FindPlace(index.root(), keys[i]), target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  for (SeparatorNode* image : images) SeparatorNode::Free(memory.arena(), image);
}

TEST(SeparatorIndexTest, NodesAreNarrowOnceChangesAreExpected) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  constexpr uint64_t kSeparators = 1000;
  NodeMemory memory;
  SeparatorIndex index(memory);
  const auto key_of = [](uint64_t number) {
    return std::string{static_cast<char>(number >> 8), static_cast<char>(number)};
  };
  for (uint64_t i = 0; i < kSeparators; ++i) index.Set(key_of(i), 8 * i, kMost);
  ASSERT_EQ(index.root()->height(), 1u);
  index.ExpectChanges();
  const uint64_t bytes = memory.bytes();
  index.Remove(key_of(500));
  EXPECT_LE(memory.bytes(), bytes) << "to remove one never makes the nodes grow";
  EXPECT_FALSE(index.Set(key_of(500), 8, 0));
  EXPECT_EQ(index.Covering(key_of(500)).word, 8 * 499u) << "no room for more nodes";
  ASSERT_TRUE(index.Set(key_of(500), 8 * 500, kMost));
  const SeparatorNode* const root = index.root();
  ASSERT_EQ(root->height(), 2u);
  for (uint32_t i = 0; i < root->count(); ++i) {
    const SeparatorNode* const node = SeparatorNode::At(root->payload(i).load());
    EXPECT_LE(node->count(), SeparatorIndex::kMaxCount);
  }
  for (uint64_t i = 0; i < kSeparators; ++i) EXPECT_EQ(index.Covering(key_of(i)).word, 8 * i);
}

struct Ties {
  uint32_t nodes = 0;
  uint32_t separators = 0;
  uint32_t equal = 0;  // to the digest before
};

void CountTies(const SeparatorNode& node, Ties& ties) {
  ++ties.nodes;
  for (uint32_t i = 0; i < node.count(); ++i) {
    ++ties.separators;
    if (i > 1 && node.digest(i - 1) == node.digest(i)) ++ties.equal;
    if (node.height() > 1) CountTies(*SeparatorNode::At(node.payload(i).load()), ties);
  }
}

// One foreign prefix in a node would make the digests of all others equal.
TEST(SeparatorIndexTest, NodesAreCutBetweenPrefixes) {
  std::mt19937_64 random(TestSeed());
  for (const bool expects_changes : {false, true}) {
    std::vector<std::string> keys{"", "ABC-1999", "ABC-1999-5", "zz", "zz-1"};
    for (const std::string_view table : {"account:", "customer:", "invoice:", "item:", "order:",
                                         "order_item:", "user:", "https://www.example.com/shop/"}) {
      for (int i = 0; i < 300; ++i) keys.push_back(fmt::format("{}{:012}", table, 40 * i));
    }
    std::shuffle(keys.begin(), keys.end(), random);
    NodeMemory memory;
    SeparatorIndex index(memory);
    if (expects_changes) index.ExpectChanges();
    const auto word_of = [](const std::string& key) { return 8 * std::hash<std::string>{}(key); };
    for (const std::string& key : keys) {
      ASSERT_TRUE(index.Set(key, word_of(key), uint64_t{1} << 40));
    }
    for (const std::string& key : keys) ASSERT_EQ(index.Covering(key).word, word_of(key)) << key;
    Ties ties;
    CountTies(*index.root(), ties);
    EXPECT_LE(ties.equal * 16, ties.separators);
    EXPECT_LE(ties.nodes * 16, ties.separators);
  }
}

// Fails if a node is freed while a reader may still see it: its memory would serve the next nodes.
TEST(SeparatorIndexTest, AReaderSeesTheNodesOfItsTimeUntouched) {
  NodeMemory memory;
  SeparatorIndex index(memory);
  EpochReader reader(memory.epochs());
  const auto key_of = [](uint64_t number) {
    return std::string{static_cast<char>(number >> 8), static_cast<char>(number)};
  };
  constexpr uint64_t kMost = uint64_t{1} << 40;
  for (uint64_t i = 0; i < 500; ++i) index.Set(key_of(2 * i), 8 * i, kMost);
  {
    const EpochReader::Guard guard(reader);
    const SeparatorNode* const old = index.root();
    std::vector<std::byte> before(old->bytes());
    std::memcpy(before.data(), old, before.size());
    for (uint64_t i = 0; i < 500; ++i) index.Set(key_of(2 * i + 1), 8, kMost);
    ASSERT_NE(index.root(), old);
    EXPECT_EQ(std::memcmp(before.data(), old, before.size()), 0);
  }
  const uint64_t mapped = memory.arena().mapped_bytes();
  for (uint64_t i = 0; i < 500; ++i) index.Remove(key_of(2 * i + 1));
  for (uint64_t i = 0; i < 500; ++i) index.Set(key_of(2 * i + 1), 8, kMost);
  EXPECT_EQ(memory.arena().mapped_bytes(), mapped) << "without a reader, memory is used again";
}

}  // namespace
}  // namespace gossamer
