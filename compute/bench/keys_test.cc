#include "compute/bench/keys.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compute/bench/key_list_test_support.h"
#include "compute/bench/record_order.h"

namespace gossamer::bench {
namespace {

TEST(KeyCodecTest, MixingIsABijection) {
  for (const uint32_t bits : {1u, 2u, 3u, 7u, 16u, 17u, 20u}) {
    std::vector<bool> seen(size_t{1} << bits);
    for (uint64_t id = 0; id < seen.size(); ++id) {
      const uint64_t mixed = MixBits(id, bits);
      ASSERT_LT(mixed, seen.size());
      ASSERT_FALSE(seen[mixed]) << "two ids of " << bits << " bits become " << mixed;
      seen[mixed] = true;
    }
  }
}

// The id that MixBits has mixed, step by step backwards.
uint64_t UnmixBits(uint64_t mixed, uint32_t bits) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint32_t half = (bits + 1) / 2;
  uint64_t inverse = 1;  // of the multiplier, by Newton's method
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0xd6e8feb86659fd93 * inverse;
  mixed ^= mixed >> half;
  for (int round = 0; round < 2; ++round) {
    mixed = (mixed * inverse) & mask;
    mixed ^= mixed >> half;
  }
  return (mixed - 0x9e3779b97f4a7c15) & mask;
}

// A proof that it is a bijection at widths too large to enumerate.
TEST(KeyCodecTest, MixingCanBeUndone) {
  Random random(11);
  for (const uint32_t bits : {32u, 33u, 40u, 56u, 63u, 64u}) {
    for (int i = 0; i < 10'000; ++i) {
      const uint64_t id = random.Next() >> (64 - bits);
      ASSERT_EQ(UnmixBits(MixBits(id, bits), bits), id) << bits << " bits";
    }
  }
}

// A store of this build may take shorter ones only.
constexpr uint32_t kLongest = 250;
using LongBuffer = std::array<char, kLongest>;

TEST(KeyCodecTest, EveryLengthHasDistinctKeysOfThatLength) {
  for (uint32_t key_bytes = kMinBenchKeyBytes; key_bytes <= kLongest; ++key_bytes) {
    const KeyCodec codec(key_bytes);
    EXPECT_EQ(codec.max_key_bytes(), key_bytes);
    const uint64_t records = std::min<uint64_t>(1'000, uint64_t{1} << codec.bits() % 64);
    ASSERT_TRUE(codec.HasKeysFor(records));
    std::unordered_set<std::string> keys;
    LongBuffer buffer;
    for (uint64_t id = 0; id < records; ++id) {
      const std::string_view key = codec.Encode(id, buffer);
      ASSERT_EQ(key.size(), key_bytes);
      ASSERT_EQ(key.starts_with("user"), key_bytes > 8);
      ASSERT_TRUE(keys.emplace(key).second) << "key of id " << id << ", " << key_bytes << " bytes";
    }
  }
}

// The forms that runs of older versions had.
TEST(KeyCodecTest, KeysOfNumbersStayAsTheyWere) {
  LongBuffer buffer;
  EXPECT_EQ(KeyCodec(8).Encode(1, buffer), "\x68\xcb\x58\xc5\x8e\x88\x56\x1b");
  EXPECT_EQ(KeyCodec(24).Encode(1, buffer), "user02595569241856374576");
  EXPECT_EQ(KeyCodec(32).Encode(0, buffer), "user0000000002126278113272360606");
}

TEST(KeyCodecTest, EveryKeyStartsWithThePrefix) {
  for (const uint32_t prefix_bytes : {1u, 9u, 100u, kLongest - kMinNumberBytes}) {
    const std::string prefix(prefix_bytes, 'p');
    for (uint32_t key_bytes = prefix_bytes + kMinNumberBytes; key_bytes <= kLongest; ++key_bytes) {
      const KeyCodec codec(
          KeyChoice{.form = KeyForm::kNumbers, .key_bytes = key_bytes, .prefix = prefix});
      EXPECT_TRUE(codec.HasKeysFor(67'108'864));
      std::unordered_set<std::string> keys;
      LongBuffer buffer;
      for (uint64_t id = 0; id < 100; ++id) {
        const std::string key(codec.Encode(id, buffer));
        ASSERT_EQ(key.size(), key_bytes);
        ASSERT_EQ(key.substr(0, prefix_bytes), prefix);
        ASSERT_EQ(key.find_first_not_of("0123456789", prefix_bytes), std::string::npos);
        ASSERT_TRUE(keys.insert(key).second);
      }
    }
  }
}

TEST(KeyCodecTest, ThePrefixUserIsThatOfLongKeys) {
  const KeyCodec without(24);
  const KeyCodec with(KeyChoice{.form = KeyForm::kNumbers, .key_bytes = 24, .prefix = "user"});
  LongBuffer a;
  LongBuffer b;
  for (uint64_t id = 0; id < 100; ++id) ASSERT_EQ(without.Encode(id, a), with.Encode(id, b));
}

// The first is also that of YCSB; the others are FNV-1a of the number, big-endian, without its
// sign.
TEST(KeyCodecTest, YcsbKeysAreThoseOfGoYcsb) {
  const KeyCodec codec(KeyChoice{.form = KeyForm::kYcsb});
  LongBuffer buffer;
  EXPECT_EQ(codec.max_key_bytes(), 33u);
  EXPECT_EQ(codec.Encode(0, buffer), "usertable/user6284781860667377211");
  EXPECT_EQ(codec.Encode(1, buffer), "usertable/user6284782960179005422");
  EXPECT_EQ(codec.Encode(999'999, buffer), "usertable/user2740161311476233147");
  // The first with fewer digits.
  EXPECT_EQ(codec.Encode(1'376'256, buffer), "usertable/user581036036513213214");
  EXPECT_EQ(codec.Encode(1'463'107, buffer), "usertable/user9679351804799");
  EXPECT_TRUE(codec.HasKeysFor(~uint64_t{0}));
  const KeyCodec with_prefix(
      KeyChoice{.form = KeyForm::kYcsb, .key_bytes = 8, .prefix = std::string(217, 'p')});
  EXPECT_EQ(with_prefix.max_key_bytes(), 250u);
  EXPECT_EQ(with_prefix.Encode(0, buffer),
            std::string(217, 'p') + "usertable/user6284781860667377211");
}

TEST(KeyCodecTest, LinesComeBehindThePrefix) {
  const KeyFile file("b\nlonger\na\n");
  const auto list = std::make_shared<const KeyList>(KeyList::Read(file.options()).value());
  const KeyCodec codec(
      KeyChoice{.form = KeyForm::kLines, .key_bytes = 8, .prefix = "x/", .list = list});
  LongBuffer buffer;
  EXPECT_EQ(codec.max_key_bytes(), 8u);
  EXPECT_EQ(codec.Encode(0, buffer), "x/b");
  EXPECT_EQ(codec.Encode(1, buffer), "x/longer");
  EXPECT_EQ(codec.Encode(2, buffer), "x/a");
  EXPECT_TRUE(codec.HasKeysFor(3));
  EXPECT_FALSE(codec.HasKeysFor(4));
}

TEST(KeyCodecTest, EveryFormCanBeSorted) {
  const KeyFile file("b\nlonger\na\naa\n\xff\nlong\n");
  const auto list = std::make_shared<const KeyList>(KeyList::Read(file.options()).value());
  const std::pair<KeyChoice, uint64_t> cases[] = {
      {{.form = KeyForm::kNumbers, .key_bytes = 40, .prefix = "p"}, 50'000},
      {{.form = KeyForm::kYcsb}, 1'470'000},
      {{.form = KeyForm::kLines, .key_bytes = 8, .prefix = "p", .list = list}, 6},
  };
  for (const auto& [choice, records] : cases) {
    const KeyCodec codec(choice);
    const std::vector<uint64_t> order = OrderOfIds(LoadOrder::kSorted, codec, records, 1, 1);
    ASSERT_EQ(order.size(), records);
    LongBuffer a;
    LongBuffer b;
    for (size_t i = 1; i < order.size(); ++i) {
      ASSERT_LT(codec.Encode(order[i - 1], a), codec.Encode(order[i], b))
          << KeyFormName(choice.form) << " " << i;
    }
  }
}

TEST(KeyCodecTest, TellsWhenIdsRunOut) {
  EXPECT_TRUE(KeyCodec(8).HasKeysFor(~uint64_t{0}));
  EXPECT_TRUE(KeyCodec(4).HasKeysFor(uint64_t{1} << 32));
  EXPECT_FALSE(KeyCodec(4).HasKeysFor((uint64_t{1} << 32) + 1));
  EXPECT_TRUE(KeyCodec(9).HasKeysFor(65'536));  // five digits
  EXPECT_FALSE(KeyCodec(9).HasKeysFor(65'537));
  EXPECT_TRUE(KeyCodec(32).HasKeysFor(uint64_t{1} << 63));
  EXPECT_TRUE(KeyCodec(250).HasKeysFor(uint64_t{1} << 63));
}

// Loads are in random order: the next key of a run of ids is as often below the previous one as
// above.
TEST(KeyCodecTest, KeysAreInRandomOrder) {
  for (const uint32_t key_bytes : {4u, 8u, 12u, 24u, 32u, 250u}) {
    const KeyCodec codec(key_bytes);
    LongBuffer buffer;
    std::string last;
    uint64_t ascents = 0;
    for (uint64_t id = 0; id < 10'000; ++id) {
      std::string key(codec.Encode(id, buffer));
      ascents += key > last;
      last = std::move(key);
    }
    EXPECT_NEAR(static_cast<double>(ascents), 5'000, 300) << key_bytes << " bytes";
  }
}

TEST(FillValueTest, DependsOnRecordAndSeedOnly) {
  std::string first(100, '\0');
  std::string again(100, '\0');
  std::string other_record(100, '\0');
  std::string other_seed(100, '\0');
  FillValue(5, 1, first);
  FillValue(5, 1, again);
  FillValue(6, 1, other_record);
  FillValue(5, 2, other_seed);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other_record);
  EXPECT_NE(first, other_seed);
  std::string shorter(13, '\0');
  FillValue(5, 1, shorter);
  EXPECT_EQ(shorter, first.substr(0, 13));
  FillValue(5, 1, {});
}

}  // namespace
}  // namespace gossamer::bench
