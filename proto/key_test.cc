#include "proto/key.h"

#include <set>

#include "proto/test_support.h"

namespace gossamer {
namespace {

using std::string_literals::operator""s;

TEST(Key, HoldsAnyBytes) {
  for (const std::string& text : {""s, "\0"s, "a\0b"s, std::string(kMaxKeyBytes, '\xff')}) {
    const Key key{text};
    EXPECT_EQ(key.view(), text);
    EXPECT_EQ(key.size(), text.size());
    EXPECT_TRUE(key == Key{text});
    EXPECT_FALSE(key == Key{"other"});
  }
  EXPECT_EQ(Key().view(), "");
}

// An empty view may have a null pointer, which memcpy forbids even for 0 bytes.
TEST(Key, TakesAViewOfNothing) {
  EXPECT_EQ(Key(KeyView()), Key(""));
  EXPECT_EQ(KeyPrefix(KeyView()), 0u);
  EXPECT_EQ(KeyHash(KeyView()), KeyHash(""));
}

TEST(KeyPrefix, IsOfBytesInOrderPaddedWithZeros) {
  const std::string bytes = "\x81\x02\xf3\x04\x85\x06\xf7\x08\x99";
  for (size_t size = 0; size <= bytes.size(); ++size) {
    uint64_t expected = 0;
    for (size_t i = 0; i < sizeof expected; ++i) {
      expected = expected << 8 | (i < size ? static_cast<unsigned char>(bytes[i]) : 0);
    }
    // Of its own allocation: a byte read behind the key is found by AddressSanitizer.
    const std::vector<char> key(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(KeyPrefix(KeyView(key.data(), size)), expected) << size;
    EXPECT_EQ(Key(KeyView(key.data(), size)).view(), bytes.substr(0, size));
    Key longer("a key that was there before");
    longer.Assign(KeyView(key.data(), size));
    EXPECT_EQ(longer, Key(bytes.substr(0, size)));
  }
}

TEST(PrefixedKey, OrderIsThatOfBytes) {
  using namespace std::string_view_literals;
  const KeyView keys[] = {""sv,          "\0"sv,       "\0\0"sv,
                          "a"sv,         "a\0"sv,      "a\0b"sv,
                          "ab"sv,        "abcdefgh"sv, "abcdefgh\0"sv,
                          "abcdefghi"sv, "\xff"sv,     "\xff\xff\xff\xff\xff\xff\xff\xff"sv};
  for (const KeyView a : keys) {
    for (const KeyView b : keys) EXPECT_EQ(PrefixedKey(a) < PrefixedKey(b), a < b) << a << " " << b;
  }
}

TEST(HighFence, AdmitsWhatLiesBelow) {
  const HighFence fence = HighFence::At("m");
  EXPECT_TRUE(fence.Admits(""));
  EXPECT_TRUE(fence.Admits("lzz"));
  EXPECT_FALSE(fence.Admits("m"));
  EXPECT_FALSE(fence.Admits("m\0"s));
  EXPECT_FALSE(fence.Admits("\xff"));  // bytes are unsigned
  EXPECT_TRUE(HighFence().Admits(std::string(kMaxKeyBytes, '\xff')));
  EXPECT_FALSE(HighFence::At("").Admits(""));
}

TEST(HighFence, InfiniteOnesAreEqualWhateverTheirKey) {
  HighFence infinite = HighFence::At("m");
  infinite.infinite = true;
  EXPECT_EQ(infinite, HighFence());
  EXPECT_FALSE(HighFence::At("") == HighFence());
  EXPECT_EQ(HighFence::At("m"), HighFence::At("m"));
  EXPECT_FALSE(HighFence::At("m") == HighFence::At("n"));
}

class KeyTest : public test::SeededTest {
 protected:
  // Two keys that often share a prefix.
  std::pair<std::string, std::string> RandomPair() {
    const std::string common = random.String(random.Below(16));
    return {common + random.String(random.Below(17)), common + random.String(random.Below(17))};
  }
};

TEST_F(KeyTest, ComparisonsWithoutACallAreThoseOfBytes) {
  for (int i = 0; i < 20000; ++i) {
    auto [a, b] = RandomPair();
    if (i % 2 == 0) b = a.substr(0, random.Below(a.size() + 1));
    if (i % 8 == 0 && !b.empty()) ++b[random.Below(b.size())];
    ASSERT_EQ(AreEqual(a, b), a == b) << a << " " << b;
    ASSERT_TRUE(AreEqual(a, std::string(a)));
    ASSERT_EQ(StartsWith(a, b), KeyView(a).starts_with(b)) << a << " " << b;
    const size_t count = random.Below(a.size() + 1);
    ASSERT_EQ(KeyPrefixBehind(a, count), KeyPrefix(KeyView(a).substr(count)));
  }
}

// Whether a string s of `size` bytes exists with left < s <= right. The greatest candidate is a
// prefix of right.
bool SeparatorOfSizeExists(KeyView left, KeyView right, size_t size) {
  return left < right.substr(0, size);
}

TEST_F(KeyTest, SeparatorIsTheShortest) {
  for (int i = 0; i < 20000; ++i) {
    auto [left, right] = RandomPair();
    if (left == right) continue;
    if (right < left) std::swap(left, right);
    const KeyView separator = Separator(left, right);
    ASSERT_LT(KeyView(left), separator);
    ASSERT_LE(separator, KeyView(right));
    for (size_t size = 0; size < separator.size(); ++size) {
      ASSERT_FALSE(SeparatorOfSizeExists(left, right, size));
    }
  }
}

TEST(Separator, OfKeysWherePrefixOrNulDecides) {
  EXPECT_EQ(Separator("", "abc"), "a");
  EXPECT_EQ(Separator("ab", "abc"), "abc");
  EXPECT_EQ(Separator("ab", "ab\0"s), "ab\0"s);
  EXPECT_EQ(Separator("abc", "abd"), "abd");
  EXPECT_EQ(Separator("a9zz", "b1"), "b");
}

TEST_F(KeyTest, PrefixOrdersAsKeysDo) {
  for (int i = 0; i < 20000; ++i) {
    const auto [a, b] = RandomPair();
    ASSERT_TRUE(KeyPrefix(a) >= KeyPrefix(b) || a < b);
    ASSERT_TRUE(a.substr(0, 8) != b.substr(0, 8) || KeyPrefix(a) == KeyPrefix(b));
  }
  EXPECT_EQ(KeyPrefix("abcdefghi"), 0x6162636465666768u);
  EXPECT_EQ(KeyPrefix("a"), 0x6100000000000000u);
  EXPECT_EQ(KeyPrefix("\xff"), 0xff00000000000000u);
}

// The hash places keys in groups: other values would be another format.
TEST_F(KeyTest, TwoPartsMakeTheKey) {
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = random.String(random.Below(kMaxKeyBytes + 1));
    const KeyView key = bytes;
    const size_t cut = random.Below(static_cast<uint32_t>(bytes.size()) + 1);
    const Key joined(key.substr(0, cut), key.substr(cut));
    ASSERT_EQ(joined.view(), key);
    ASSERT_EQ(joined, Key(key)) << "also what is behind the key";
    ASSERT_EQ(KeyHash(key.substr(0, cut), key.substr(cut)), KeyHash(key));
  }
}

TEST_F(KeyTest, CommonBytesAreAllThatAreAlike) {
  for (int i = 0; i < 2000; ++i) {
    const std::string a = random.String(random.Below(kMaxKeyBytes + 1));
    std::string b = a.substr(0, random.Below(static_cast<uint32_t>(a.size()) + 1));
    b += random.String(random.Below(9));
    size_t common = 0;
    while (common < std::min(a.size(), b.size()) && a[common] == b[common]) ++common;
    ASSERT_EQ(CommonBytes(a, b), common);
    ASSERT_EQ(CommonBytes(b, a), common);
  }
}

TEST_F(KeyTest, FirstBytesOfParts) {
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = random.String(random.Below(20));
    const KeyView key = bytes;
    const size_t cut = random.Below(static_cast<uint32_t>(bytes.size()) + 1);
    ASSERT_EQ(FirstBytesOf(key, cut), FirstBytes(key.substr(0, cut)));
    ASSERT_EQ(FirstBytesBehind(key, cut), FirstBytes(key.substr(cut)));
  }
}

TEST(FirstBytesMask, LeavesSoManyBytes) {
  EXPECT_EQ(FirstBytesMask(0), 0u);
  EXPECT_EQ(FirstBytesMask(3), 0xffffffu);
  EXPECT_EQ(FirstBytesMask(8), ~uint64_t{0});
  EXPECT_EQ(FirstBytesMask(9), ~uint64_t{0});
}

TEST(KeyHash, GoldenValues) {
  EXPECT_EQ(KeyHash(""), 0x9e3779b97f4a7c15u);
  EXPECT_EQ(KeyHash("\0"s), 0x25b775faeca8f520u);
  EXPECT_EQ(KeyHash("a"), 0x97956212fcbbd79au);
  EXPECT_EQ(KeyHash("abcdefgh"), 0x0cde3d5780c92708u);
  EXPECT_EQ(KeyHash("abcdefghi"), 0x2f7f43affe6a8031u);
  EXPECT_EQ(KeyHash(std::string(8, '\0')), 0xecc3d462bf4e9f2bu);
  EXPECT_EQ(KeyHash(std::string(32, 'x')), 0x6c52ffc3cf34a776u);
}

TEST(KeyHash, ConsecutiveIntegersNeverCollide) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 20000; ++i) {
    const uint64_t big_endian = __builtin_bswap64(i);
    seen.insert(KeyHash({reinterpret_cast<const char*>(&big_endian), 8}));
  }
  EXPECT_EQ(seen.size(), 20000u);
}

}  // namespace
}  // namespace gossamer
