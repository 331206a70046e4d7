// SeparatorTest: draws keys and indexes, for tests of separators and of what goes through them.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/node_memory.h"
#include "compute/cache/separator_index.h"
#include "compute/cache/separator_node.h"
#include "compute/cache/traversal.h"

namespace gossamer {

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
      case 5: {
        static constexpr std::array<std::string_view, 5> kTables = {
            "account:", "order:", "order_item:", "user:", "u"};
        return std::string(kTables[random_.Below(kTables.size())]) + "0000" + letters(5, 5, '0');
      }
      default: {
        std::string number(8, '\0');
        number[7] = static_cast<char>(random_.Below(256));
        number[6] = static_cast<char>(random_.Below(4));
        return number;
      }
    }
  }

  // Fills `index` with nodes and gaps. The nodes are the caller's.
  std::vector<SeparatorNode*> FillIndex(NodeMemory& memory, SeparatorIndex& index) {
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
      index.Set(first, is_gap ? SeparatorNode::kGap : reinterpret_cast<uint64_t>(images.back()),
                uint64_t{1} << 40);
    }
    return images;
  }
  // Keys for such an index.
  std::vector<std::string> DrawGroup() {
    std::vector<std::string> keys;
    for (size_t i = 0; i < kMaxGroup; ++i) keys.push_back((Draw() + Draw()).substr(0, 32));
    return keys;
  }
  static void ExpectPlace(const SeparatorIndex& index, const std::string& key, const Place& place,
                          int64_t target) {
    const uint64_t word = index.Covering(key).word;
    ASSERT_EQ(place.image, SeparatorNode::At(word)) << hwy::TargetName(target);
    ASSERT_EQ(place.index, place.image->ChildIndex(key));
  }

  Random random_{TestSeed()};
};

}  // namespace gossamer
