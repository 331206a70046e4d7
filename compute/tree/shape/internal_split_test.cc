#include "compute/tree/shape/internal_split.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "proto/test_support.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using test::Bytes;

constexpr RemotePtr kSelf(ServerId{3}, 0x12300, 7);

class InternalSplitTest : public test::SeededTest {
 protected:
  // Separators of up to `longest` bytes behind the prefix of the node, that share much, or nothing.
  std::string RandomKey(const std::string& stem, uint32_t longest) {
    std::string key = stem.substr(0, stem.size() - random.Below(3) % (stem.size() + 1));
    const auto room = longest - static_cast<uint32_t>(key.size());
    return key + random.String(random.Between(std::min(room, 1u), room));
  }

  // A node that takes more than `node_bytes`, by `extra` children.
  InternalNode FullNode(uint32_t node_bytes, size_t extra) {
    // Any two separators make a short fence.
    const uint32_t longest = random.Between(4, std::min(kMaxFenceBytes, node_bytes / 8));
    const bool has_prefix = node_bytes > kMinNodeBytes && random.OneIn(3);
    const std::string prefix = random.String(has_prefix ? kMaxKeyBytes - longest : 0);
    const std::string stem = random.OneIn(2) ? "" : random.String(random.Below(longest - 3));
    std::set<std::string> keys;
    for (uint32_t i = 0; i < node_bytes / 4; ++i) keys.insert(prefix + RandomKey(stem, longest));
    InternalNode node;
    node.version = NodeVersion{9};
    node.level = 2;
    node.sibling = RemotePtr(ServerId{1}, 0x45600, 1);
    if (random.OneIn(2)) node.high = HighFence::At(*keys.rbegin());
    keys.erase(std::prev(keys.end()));
    std::vector<std::string> chosen(keys.begin(), keys.end());
    if (random.OneIn(2)) {  // else neighbours
      std::shuffle(chosen.begin(), chosen.end(), std::mt19937_64(random.Word()));
      chosen.resize((chosen.size() + 1) / 2);
      std::ranges::sort(chosen);
    }
    const bool is_first = !has_prefix && random.OneIn(2);
    node.children = {{is_first ? Key() : Key(chosen[0]), RemotePtr::FromWord(1 << 8)}};
    uint32_t bytes = EncodedBytes(node);
    for (size_t i = 1; i < chosen.size() && extra != 0; ++i) {
      const Key separator(chosen[i]);
      bytes += ChildBytes(node.children.back().separator, separator);
      node.children.push_back({separator, RemotePtr::FromWord((i + 1) << 8)});
      if (bytes > node_bytes) --extra;
    }
    return node;
  }
};

TEST_F(InternalSplitTest, PartsFitAndHaveAllChildren) {
  int in_two = 0;
  int by_one_child = 0;
  for (int i = 0; i < Rounds(1000); ++i) {
    const uint32_t node_bytes = kMinNodeBytes << random.Below(5);
    const size_t extra = random.OneIn(2) ? 1 : random.Between(2, 30);
    const InternalNode whole = FullNode(node_bytes, extra);
    if (EncodedBytes(whole) <= node_bytes) continue;
    const bool at_end = random.OneIn(4);
    std::vector<InternalNode> parts{whole};
    auto right = SplitInternal(parts[0], at_end, node_bytes);
    ASSERT_TRUE(right);
    std::ranges::move(*right, std::back_inserter(parts));

    size_t place = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      const InternalNode& node = parts[part];
      const bool is_last = part + 1 == parts.size();
      ASSERT_FALSE(node.children.empty());
      Bytes image(node_bytes);
      ASSERT_TRUE(EncodeInternal(image, kSelf, node)) << EncodedBytes(node);
      ASSERT_TRUE(is_last || IsShortFence(node.low(), node.high.key));
      ASSERT_EQ(node.version, whole.version);
      ASSERT_EQ(node.level, whole.level);
      ASSERT_EQ(node.high, is_last ? whole.high : HighFence::At(parts[part + 1].low()));
      for (const InternalNode::Child& child : node.children) {
        ASSERT_EQ(child.separator, whole.children[place].separator);
        ASSERT_EQ(child.pointer, whole.children[place].pointer);
        ++place;
      }
    }
    ASSERT_EQ(place, whole.children.size());
    ASSERT_EQ(parts.back().sibling, whole.sibling);
    if (extra == 1) {
      ++by_one_child;
      in_two += parts.size() == 2 ? 1 : 0;
    }
  }
  EXPECT_GT(by_one_child, Rounds(200));
  EXPECT_EQ(in_two, by_one_child);
}

// Whether there are cuts that make parts of `node` that fit.
bool CanBeCut(const InternalNode& node, uint32_t node_bytes) {
  const size_t count = node.children.size();
  std::vector<bool> starts(count + 1, false);  // whether the children from there on can be parts
  starts[count] = true;
  for (size_t from = count; from-- > 0;) {
    for (size_t to = from + 1; to <= count; ++to) {
      InternalNode part;
      part.high = to == count ? node.high : HighFence::At(node.children[to].separator);
      part.children.assign(node.children.begin() + static_cast<ptrdiff_t>(from),
                           node.children.begin() + static_cast<ptrdiff_t>(to));
      if (starts[to] && EncodedBytes(part) <= node_bytes) starts[from] = true;
    }
  }
  return starts[0];
}

// While downlinks are missing, separators may have any length behind the one before.
TEST_F(InternalSplitTest, PartsFitIfAnyDoWhileDownlinksAreMissing) {
  int with_long_fence = 0;
  int refused = 0;
  for (int i = 0; i < Rounds(20'000); ++i) {
    const uint32_t node_bytes = 512u << random.Below(2);
    std::set<std::string> keys;
    for (uint32_t more = random.Between(3, 8); more != 0; --more) {
      const auto first = static_cast<char>('a' + random.Below(8));
      const size_t same =
          random.OneIn(4) ? random.Below(20) : random.Between(200, kMaxKeyBytes - 4);
      keys.insert(std::string(same, first) + random.String(random.Between(1, 4)));
    }
    InternalNode node;
    if (random.OneIn(2)) {
      node.high = HighFence::At(*keys.rbegin());
      keys.erase(std::prev(keys.end()));
    }
    for (const std::string& key : keys) {
      const RemotePtr child = RemotePtr::FromWord((node.children.size() + 1) << 8);
      node.children.push_back({Key(key), child});
    }
    if (node.children.empty() || EncodedBytes(node) <= node_bytes) continue;

    const bool can_be_cut = CanBeCut(node, node_bytes);
    const InternalNode whole = node;
    std::vector<InternalNode> parts{std::move(node)};
    auto right = SplitInternal(parts[0], random.OneIn(4), node_bytes);
    ASSERT_EQ(right.has_value(), can_be_cut);
    ASSERT_TRUE(can_be_cut || node_bytes == 512);
    if (!right) {
      ++refused;
      continue;
    }
    std::ranges::move(*right, std::back_inserter(parts));
    size_t place = 0;
    for (const InternalNode& part : parts) {
      ASSERT_LE(EncodedBytes(part), node_bytes);
      for (const InternalNode::Child& child : part.children) {
        ASSERT_EQ(child.separator, whole.children[place++].separator);
      }
      const bool is_last = place == whole.children.size();
      if (!is_last && !IsShortFence(part.low(), part.high.key)) ++with_long_fence;
    }
    ASSERT_EQ(place, whole.children.size());
  }
  EXPECT_GT(with_long_fence, Rounds(100));
  EXPECT_GT(refused, Rounds(100));
}

}  // namespace
}  // namespace gossamer
