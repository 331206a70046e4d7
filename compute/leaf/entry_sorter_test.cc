#include "compute/leaf/entry_sorter.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "common/testing/seed.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

constexpr uint32_t kNodeBytes = 1024;
const RemotePtr kLeaf(ServerId{0}, 4096, 0);

class EntrySorterTest : public testing::Test {
 protected:
  // Fills a leaf with keys of `make_key` until it is full, and expects them in order.
  template <typename MakeKey>
  void ExpectSorted(MakeKey make_key) {
    std::map<std::string, std::string> model;
    std::vector<std::byte> image(kNodeBytes);
    for (;;) {
      std::map<std::string, std::string> larger = model;
      larger.emplace(make_key(), std::string(random_() % 9, 'v'));
      if (!Encode(larger, image)) break;
      model = std::move(larger);
      if (random_() % 60 == 0) break;
    }
    ASSERT_TRUE(Encode(model, image));
    const std::optional<LeafView> leaf = LeafView::Parse(image, kLeaf, geometry_, low_);
    ASSERT_TRUE(leaf);
    std::vector<ScanEntry> sorted(3);  // what was there stays
    ASSERT_EQ(sorter_.AppendSorted(*leaf, arena_, sorted), model.size());
    ASSERT_EQ(sorted.size(), 3 + model.size());
    auto expected = model.begin();
    for (size_t i = 3; i < sorted.size(); ++i, ++expected) {
      const ScanEntry& entry = sorted[i];
      ASSERT_EQ(entry.key(), expected->first);
      ASSERT_EQ(std::string_view(entry.bytes + entry.key_bytes, entry.length), expected->second);
    }
  }
  bool Encode(const std::map<std::string, std::string>& model, std::span<std::byte> image) const {
    std::vector<Entry> entries;
    for (const auto& [key, value] : model) entries.push_back({key, value});
    std::shuffle(entries.begin(), entries.end(), std::minstd_rand(1));
    LeafContent content;
    content.version = NodeVersion{1};
    content.entries = entries;
    content.low = low_;
    content.high = high_;
    return EncodeLeaf(image, kLeaf, geometry_, content);
  }
  std::string RandomBytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  std::mt19937_64 random_{TestSeed()};
  const LeafGeometry geometry_{kNodeBytes};
  // The range of the leaves.
  std::string low_;
  HighFence high_;
  KeyArena arena_;
  EntrySorter sorter_;
};

TEST_F(EntrySorterTest, SortsKeysOfOneWord) {
  for (int i = 0; i < Rounds(200); ++i) ExpectSorted([this] { return RandomBytes(8); });
}

TEST_F(EntrySorterTest, SortsKeysThatAgreeInTheirFirstBytes) {
  for (int i = 0; i < Rounds(100); ++i) {
    ExpectSorted([this] { return "a prefix of 16 B" + RandomBytes(8); });
    ExpectSorted([this] { return std::string(7, 'k') + RandomBytes(1); });
  }
}

TEST_F(EntrySorterTest, CompletesKeysThatTheLeafHasWithoutTheirPrefix) {
  for (const size_t prefix_bytes : {1, 5, 8, 9, 23}) {
    low_ = RandomBytes(prefix_bytes);
    high_ = HighFence::At(low_ + "\xff\xff");
    for (int i = 0; i < Rounds(40); ++i) {
      ExpectSorted([this] { return low_ + 'a' + RandomBytes(7); });
      ExpectSorted([this] { return low_ + 'a' + std::string(random_() % 8, 'a'); });
      ExpectSorted([this] { return low_.substr(0, 23) + 'a' + RandomBytes(random_() % 6); });
    }
  }
}

TEST_F(EntrySorterTest, SortsKeysThatNoWordTellsApart) {
  for (int i = 0; i < Rounds(100); ++i) {
    // Of any length, so that zeros behind them mislead.
    ExpectSorted([this] { return std::string(random_() % 20, '\0'); });
    ExpectSorted([this] { return RandomBytes(random_() % 3) + std::string(random_() % 20, '\0'); });
    // Some far apart, others neighbours.
    ExpectSorted([this] { return RandomBytes(1) + std::string(20, 'x') + RandomBytes(1); });
  }
}

// R6: an entry that moved from one group to the overflow group while the leaf was read.
TEST_F(EntrySorterTest, DropsTheSecondOfTwoEntriesOfOneKey) {
  std::vector<std::byte> image(kNodeBytes);
  std::map<std::string, std::string> model;
  const auto draw = [&] {
    model.clear();
    while (model.size() < 20) model[RandomBytes(8)] = "12345678";
    return Encode(model, image) && LeafView::Parse(image, kLeaf, geometry_, low_)
                                           ->unit(geometry_.overflow_unit())
                                           .count() == 0;
  };
  // Now and then so many keys have one home group that some are in the overflow group already.
  while (!draw()) {
  }
  const std::string twice = model.begin()->first;
  const Entry entry{twice, "abcdefgh"};
  ASSERT_TRUE(EncodeGroup(std::span(image).subspan(geometry_.unit_offset(geometry_.overflow_unit()),
                                                   geometry_.unit_bytes()),
                          kLeaf, geometry_.overflow_unit(), NodeVersion{1}, false, {}, {&entry, 1},
                          Keys::kWhole));
  const std::optional<LeafView> leaf = LeafView::Parse(image, kLeaf, geometry_, low_);
  ASSERT_TRUE(leaf);
  ASSERT_EQ(leaf->count(), 21u);
  std::vector<ScanEntry> sorted;
  EXPECT_EQ(sorter_.AppendSorted(*leaf, arena_, sorted), 20u);
  EXPECT_EQ(sorted.size(), 20u);
  EXPECT_EQ(sorted[0].key(), twice);
}

}  // namespace
}  // namespace gossamer
