// Tests LAYOUT.md, "Why a split always leaves room", step by step.
#include <algorithm>
#include <set>

#include "proto/leaf_test_support.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::Content;
using test::EntriesOf;
using test::LeafImage;
using test::LeafTest;
using test::Shape;

// Any two entries fit, whatever the fences.
TEST_F(LeafTest, AnyTwoEntriesFit) {
  for (int i = 0; i < Rounds(5000); ++i) {
    const StoreParameters p = RandomParameters();
    LeafImage leaf = RandomLeaf(p.node_bytes);
    leaf.range = {"", HighFence::At(random.String(test::LongestFence(p)))};  // no prefix
    Content content;
    while (content.size() < 2) {
      const uint32_t longest = test::LongestKey(p);
      if (longest < p.max_key_bytes && random.OneIn(3)) {
        const std::string key = random.String(random.Between(longest + 1, p.max_key_bytes));
        content[key] = test::StoredLong(random.Word(), 1, 2, key);
        continue;
      }
      content[random.String(longest)] =
          random.OneIn(4) ? test::StoredBlock(random.Word(), 1, 2)
                          : test::Stored{random.String(random.OneIn(2) ? p.inline_value_bytes : 0)};
    }
    ASSERT_TRUE(leaf.TryEncode(EntriesOf(content)).has_value())
        << p.node_bytes << " " << p.max_key_bytes << " " << p.inline_value_bytes;
  }
}

// After a removal of entries the rest fits again, if passed in the order of LeafView::AppendTo:
// those of the home groups before those of the overflow group.
TEST_F(LeafTest, PartsOfALeafFitInTheOrderOfItsUnits) {
  for (int i = 0; i < Rounds(500); ++i) {
    const StoreParameters p = RandomParameters();
    LeafImage leaf = RandomLeaf(p.node_bytes);
    Shape shape = Shape::Any(random, p);
    if (random.OneIn(2)) shape.longs_one_in = random.Between(1, 6);
    const Content content = Fill(leaf, shape);
    std::vector<Entry> shuffled = EntriesOf(content);
    for (size_t j = shuffled.size(); j > 1; --j) {
      std::swap(shuffled[j - 1], shuffled[random.Below(static_cast<uint32_t>(j))]);
    }
    const auto image = leaf.TryEncode(shuffled);
    if (!image) continue;  // does not fit in this order: nothing to remove entries from
    std::vector<Entry> entries;
    KeyArena arena;
    const auto view = leaf.Parse(*image);
    view->AppendTo(entries, arena);
    for (int j = 0; j < 50; ++j) {
      std::vector<Entry> part;
      const uint32_t rarity = random.Between(2, 30);
      for (const Entry& entry : entries) {
        if (!random.OneIn(rarity)) part.push_back(entry);
      }
      ASSERT_TRUE(leaf.TryEncode(part).has_value());
    }
  }
}

struct Halves {
  std::string separator;
  Bytes left;
  Bytes right;
};

std::optional<Halves> CutAt(const LeafImage& leaf, std::span<const Entry> stored,
                            const std::string& separator) {
  if (!IsShortFence(leaf.range.low, separator)) return std::nullopt;
  std::vector<Entry> left;
  std::vector<Entry> right;
  for (const Entry& entry : stored) (entry.key < separator ? left : right).push_back(entry);
  LeafImage left_leaf = leaf;
  left_leaf.range.high = HighFence::At(separator);
  LeafImage right_leaf = leaf;
  right_leaf.range.low = separator;
  const auto left_image = left_leaf.TryEncode(left);
  const auto right_image = right_leaf.TryEncode(right);
  if (!left_image || !right_image) return std::nullopt;
  return Halves{separator, *left_image, *right_image};
}

// Whole keys in the place of the first bytes of long ones, which are those of `known`.
void CompleteLongKeys(std::vector<Entry>& stored, const std::set<std::string>& known) {
  for (Entry& entry : stored) {
    if (!entry.is_long()) continue;
    const auto whole = std::ranges::find_if(
        known, [&](const std::string& key) { return KeyHash(key) == entry.key_hash(); });
    entry.key = *whole;
  }
}

// Splits as the tree does: at the key nearest the median for which both halves fit and the fence
// between them is short; if there is none, in front of all keys.
std::optional<Halves> Split(const LeafImage& leaf, const Bytes& image,
                            const std::set<std::string>& known) {
  std::vector<Entry> stored;
  KeyArena arena;
  const auto view = leaf.Parse(image);
  view->AppendTo(stored, arena);
  CompleteLongKeys(stored, known);
  std::vector<KeyView> keys;
  for (const Entry& entry : stored) keys.push_back(entry.key);
  std::ranges::sort(keys);
  std::vector<size_t> cuts;
  for (size_t cut = 1; cut < keys.size(); ++cut) cuts.push_back(cut);
  const auto distance = [&](size_t cut) {
    return std::max(2 * cut, keys.size()) - std::min(2 * cut, keys.size());
  };
  std::ranges::sort(cuts, {}, distance);
  for (const size_t cut : cuts) {
    const std::optional<Halves> halves =
        CutAt(leaf, stored, std::string(Separator(keys[cut - 1], keys[cut])));
    if (halves) return halves;
  }
  return CutAt(leaf, stored, std::string(SeparatorBelow(leaf.range.low, keys.front())));
}

// Inserts an entry into a full leaf by splitting until it fits. Returns the number of splits, or
// -1.
int SplitUntilItFits(LeafImage leaf, Bytes image, const Content& content, const std::string& key,
                     const test::Stored& value) {
  std::set<std::string> known;
  for (const auto& [other, stored] : content) known.insert(other);
  for (int splits = 0;; ++splits) {
    std::vector<Entry> entries;
    KeyArena arena;
    const auto view = leaf.Parse(image);
    view->AppendTo(entries, arena);
    CompleteLongKeys(entries, known);
    entries.push_back(value.For(key));
    if (leaf.TryEncode(entries)) return splits;
    const auto halves = Split(leaf, image, known);
    if (!halves) return -1;
    if (key < halves->separator) {
      leaf.range.high = HighFence::At(halves->separator);
      image = halves->left;
    } else {
      leaf.range.low = halves->separator;
      image = halves->right;
    }
  }
}

TEST_F(LeafTest, LeavesOfGreatestEntriesSplitUntilTheNewEntryFits) {
  for (int i = 0; i < Rounds(2000); ++i) {
    const StoreParameters p = RandomParameters();
    LeafImage leaf = RandomLeaf(p.node_bytes);
    leaf.range = {};
    if (random.OneIn(2)) {
      leaf.range.high = HighFence::At(std::string(test::LongestFence(p), '\xff'));
    }
    // Whole, or long keys, which all have the same first bytes.
    const bool are_long = test::LongestKey(p) < p.max_key_bytes && random.OneIn(2);
    const uint32_t key_bytes = are_long ? p.max_key_bytes : test::LongestKey(p);
    Shape shape{.max_key = key_bytes, .max_value = p.inline_value_bytes};
    shape.uniform_keys = shape.uniform_values = true;
    // Equal but for their last bytes: separators as long as the keys.
    const std::string common = random.String(key_bytes - 1u);
    Content content;
    test::Stored value = shape.Value(random);
    std::string rejected;
    for (int j = 0; j < 256; ++j) {
      const std::string key = common + static_cast<char>(random.Below(256));
      if (are_long) value = test::StoredLong(random.Word(), 1, 2, key);
      Content larger = content;
      larger[key] = value;
      if (!leaf.TryEncode(EntriesOf(larger))) {
        rejected = key;
        break;
      }
      content = std::move(larger);
    }
    if (rejected.empty()) continue;
    const int splits =
        SplitUntilItFits(leaf, *leaf.TryEncode(EntriesOf(content)), content, rejected, value);
    ASSERT_GE(splits, 1) << p.node_bytes << " " << p.max_key_bytes << " " << p.inline_value_bytes;
    // Each in front of all keys adds a short fence to what is known of them.
    ASSERT_LE(splits, 6 + key_bytes / kMaxFenceBytes);
  }
}

TEST_F(LeafTest, LeavesOfAnyEntriesSplitUntilTheNewEntryFits) {
  int most = 0;
  for (int i = 0; i < Rounds(2000); ++i) {
    const StoreParameters p = RandomParameters();
    LeafImage leaf = RandomLeaf(p.node_bytes);
    leaf.range = {};
    if (random.OneIn(2))
      leaf.range.high = HighFence::At('\x40' + random.String(test::LongestFence(p) - 1u));
    Shape shape = Shape::Any(random, p);
    if (random.OneIn(2)) shape.longs_one_in = random.Between(1, 6);
    const Content content = Fill(leaf, shape);
    // The worst case: an entry of the greatest size.
    std::string key = random.String(test::LongestKey(p));
    if (content.contains(key) || !leaf.range.Has(key)) continue;
    const auto image = leaf.TryEncode(EntriesOf(content));
    const int splits = SplitUntilItFits(leaf, *image, content, key,
                                        test::Stored{random.String(p.inline_value_bytes)});
    ASSERT_GE(splits, 0) << p.node_bytes << " " << p.max_key_bytes << " " << p.inline_value_bytes;
    most = std::max(most, splits);
  }
  RecordProperty("most_splits", most);
  EXPECT_LE(most, 8);
}

}  // namespace
}  // namespace gossamer
