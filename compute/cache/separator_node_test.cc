#include "compute/cache/separator_node.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <map>
#include <optional>
#include <set>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/separator_index.h"
#include "compute/cache/traversal.h"

namespace gossamer {
namespace {

// Keys of several shapes, close enough to each other to make digests tie.
class SeparatorTest : public testing::TestWithParam<size_t> {
 protected:
  std::string Draw() {
    const auto letters = [this](size_t count, uint64_t kinds, char first) {
      std::string text;
      for (size_t i = 0; i < count; ++i) {
        text.push_back(static_cast<char>(static_cast<uint64_t>(first) + random_.Below(kinds)));
      }
      return text;
    };
    switch (GetParam()) {
      case 0: return letters(8, 256, 0);
      case 1: return letters(random_.Below(9), 3, 0);
      case 2: return "a long prefix that all " + letters(random_.Below(9), 3, '\0');
      case 3:
        return letters(random_.Below(2), 4, 'a') + std::string(random_.Below(16), 'k') +
               letters(random_.Below(15), 3, '\0');
      case 4: return letters(4, 256, 0).substr(0, 1 + random_.Below(4));
      default: {
        std::string number(8, '\0');
        number[7] = static_cast<char>(random_.Below(256));
        number[6] = static_cast<char>(random_.Below(4));
        return number;
      }
    }
  }

  Random random_{TestSeed()};
};

INSTANTIATE_TEST_SUITE_P(Shapes, SeparatorTest, testing::Range(size_t{0}, size_t{6}));

TEST_P(SeparatorTest, ASearchFindsTheLastSeparatorThatIsNotAbove) {
  NodeArena arena;
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> separators;
    const size_t wanted = 1 + random_.Below(round % 10 == 0 ? 400 : 70);
    for (size_t i = 0; i < 2 * wanted && separators.size() < wanted; ++i) separators.insert(Draw());
    SeparatorList list;
    for (const std::string& separator : separators) list.Append(separator, 0);
    SeparatorNode* const node = SeparatorNode::Make(arena, list, 0, list.size(), {});
    for (size_t i = 0; i < list.size(); ++i) {
      ASSERT_EQ(node->separator(static_cast<uint32_t>(i)).view(), list.separator(i));
    }
    for (int i = 0; i < 200; ++i) {
      const std::string key =
          random_.Below(2) == 0 ? Draw() : std::string(list.separator(random_.Below(list.size())));
      if (key < *separators.begin()) continue;
      const auto expected = std::distance(separators.begin(), separators.upper_bound(key)) - 1;
      ASSERT_EQ(node->ChildIndex(key), expected) << testing::PrintToString(key);
    }
    SeparatorNode::Free(arena, node);
  }
}

// The leftmost node of each level begins with the empty key. Its other separators are told apart by their digests all the
// same, and a key below them all is found without a comparison with them.
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

// Grows a node: by copies with one or more items in one place, and from the list where CopyWith returns null.
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
      map_[key] = SeparatorIndex::kGap;
    } else {
      map_.erase(key);
    }
  }
  const std::map<std::string, uint64_t>& map() const { return map_; }

 private:
  std::map<std::string, uint64_t> map_{{"", SeparatorIndex::kGap}};
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
        const uint64_t word = random_.Below(4) == 0 ? SeparatorIndex::kGap : 8 * random_.Next();
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

// For a group of keys, each prefetch strategy and each vector target finds the places that one key
// at a time finds.
TEST_P(SeparatorTest, ATraversalFindsWhatASearchFinds) {
  NodeMemory memory;
  SeparatorIndex index(memory);
  std::set<std::string> lows{""};
  while (lows.size() < 1500) {
    const std::string low = Draw() + Draw();
    lows.insert(low.substr(0, kMaxKeyBytes));
  }
  std::vector<SeparatorNode*> images;
  for (auto low = lows.begin(); low != lows.end();) {
    SeparatorList list;
    const std::string first = *low;
    for (size_t count = 1 + random_.Below(20); low != lows.end() && count != 0; --count, ++low) {
      list.Append(*low, random_.Next(), random_.Next());
    }
    images.push_back(SeparatorNode::Make(memory.arena(), list, 0, list.size(), {2, 0, 0}));
    const bool is_gap = random_.Below(10) == 0;
    index.Set(first, is_gap ? SeparatorIndex::kGap : reinterpret_cast<uint64_t>(images.back()),
              uint64_t{1} << 40);
  }
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (size_t prefetch = 0; prefetch < std::size(kPrefetchNames); ++prefetch) {
      std::vector<std::string> keys;
      for (size_t i = 0; i < kMaxGroup; ++i) keys.push_back((Draw() + Draw()).substr(0, 32));
      const std::vector<KeyView> views(keys.begin(), keys.end());
      std::vector<Place> places(keys.size());
      FindPlaces(index.root(), views, static_cast<Prefetch>(prefetch), places);
      for (size_t i = 0; i < keys.size(); ++i) {
        const uint64_t word = index.Covering(keys[i]).word;
        ASSERT_EQ(places[i].image, SeparatorIndex::NodeAt(word)) << hwy::TargetName(target);
        ASSERT_EQ(places[i].index, places[i].image->ChildIndex(keys[i]));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  for (SeparatorNode* image : images) SeparatorNode::Free(memory.arena(), image);
}

// Keys are drawn close together and far apart, so that many digests of a node tie, or none.
TEST(PairNodeTest, ATraversalFindsTheLastPairThatIsNotAbove) {
  Random random(TestSeed());
  for (const uint32_t bits : {14, 40, 64}) {
    NodeMemory memory;
    SeparatorIndex index(memory);
    const auto draw = [&] { return random.Next() >> (64 - bits); };
    std::set<uint64_t> keys{0, ~uint64_t{0}};
    while (keys.size() < 3000) keys.insert(draw());
    const auto view_of = [](const uint64_t& big_endian) {
      return KeyView(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
    };
    for (auto key = keys.begin(); key != keys.end();) {
      std::vector<SeparatorNode::Pair> pairs;
      for (size_t count = 1 + random.Below(random.Below(10) == 0 ? 400 : 128);
           key != keys.end() && count != 0; --count, ++key) {
        pairs.push_back({*key, ~*key});
      }
      // A node may begin below its first pair, but not at or below the one before.
      const uint64_t first = pairs[0].key;
      const uint64_t before = first == 0 ? 0 : *std::prev(keys.find(first));
      const uint64_t low = first == 0 ? 0 : first - random.Below(first - before);
      const SeparatorNode* const node = SeparatorNode::MakeOfPairs(memory.arena(), low, pairs);
      ASSERT_EQ(node->low(), low);
      const uint64_t big_endian = __builtin_bswap64(low);
      index.Set(low == 0 ? KeyView() : view_of(big_endian), reinterpret_cast<uint64_t>(node),
                uint64_t{1} << 40);
    }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (size_t prefetch = 0; prefetch < std::size(kPrefetchNames); ++prefetch) {
        std::vector<uint64_t> sought;
        for (size_t i = 0; i < kMaxGroup; ++i) {
          const auto at = keys.lower_bound(draw());
          sought.push_back(random.Below(2) == 0 || at == keys.end() ? draw() : *at);
        }
        sought[0] = ~uint64_t{0};
        std::vector<uint64_t> words;
        for (const uint64_t key : sought) words.push_back(__builtin_bswap64(key));
        std::vector<KeyView> views;
        for (const uint64_t& word : words) views.push_back(view_of(word));
        std::vector<Place> places(sought.size());
        FindDigests(index.root(), views, static_cast<Prefetch>(prefetch), places);
        for (size_t i = 0; i < sought.size(); ++i) {
          const SeparatorNode& node = *places[i].image;
          const uint32_t found = node.ConfirmPair(places[i].index, sought[i]);
          const uint64_t expected = *std::prev(keys.upper_bound(sought[i]));
          if (node.low() <= expected) {
            ASSERT_EQ(node.pair_key(found), expected) << hwy::TargetName(target);
            ASSERT_EQ(node.pair_value(found).load(), ~expected);
          } else {
            ASSERT_EQ(found, 0u) << "the key is below all pairs of its node";
            ASSERT_GT(node.pair_key(0), sought[i]);
          }
        }
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
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
    const SeparatorNode* const node = SeparatorIndex::NodeAt(root->payload(i).load());
    EXPECT_LE(node->count(), SeparatorIndex::kMaxCount);
  }
  for (uint64_t i = 0; i < kSeparators; ++i) EXPECT_EQ(index.Covering(key_of(i)).word, 8 * i);
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
