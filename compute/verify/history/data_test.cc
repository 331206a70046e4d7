// Keys keep their order, values their name, and any change to their bytes is detected.
#include "compute/verify/history/data.h"

#include <gtest/gtest.h>

#include <set>

namespace gossamer::history {
namespace {

TEST(DataTest, KeysAreInOrderAndFound) {
  for (const uint32_t max_key_bytes : {8u, 20u, 32u, 33u, 250u}) {
    const KeySpace keys(1000, max_key_bytes);
    uint32_t stable = 0;
    std::string last;
    for (uint32_t key = 0; key < keys.size(); ++key) {
      const std::string text = keys.Text(key);
      EXPECT_LT(last, text);
      EXPECT_LE(text.size(), max_key_bytes);
      EXPECT_EQ(keys.Number(text), key);
      stable += KeySpace::IsStable(key) ? 1 : 0;
      last = text;
    }
    EXPECT_EQ(stable, keys.stable_keys());
    EXPECT_EQ(keys.Number(last + "x"), std::nullopt);
    EXPECT_EQ(keys.Number(last.substr(0, 3)), std::nullopt);
    EXPECT_EQ(keys.Number(keys.Text(keys.size())), std::nullopt);
  }
}

// Runs of the simulator by seed depend on them.
TEST(DataTest, LooseKeysDependOnNoSeed) {
  for (const uint32_t max_key_bytes : {8u, 20u, 32u}) {
    const KeySpace keys(100, max_key_bytes, 1);
    const KeySpace others(1000, max_key_bytes, 2);
    for (uint32_t key = 0; key < keys.size(); ++key) EXPECT_EQ(keys.Text(key), others.Text(key));
  }
  EXPECT_EQ(KeySpace(1, 8).Text(0x01020304), std::string("\x01\x02\x03\x04\xf8\xca\x6d\xef"));
  EXPECT_EQ(KeySpace(1, 32).Text(1).size(), 13u);
}

TEST(DataTest, KeysWithAPrefixAreARange) {
  for (const uint32_t max_key_bytes : {8u, 20u, 33u, 250u}) {
    const KeySpace keys(1000, max_key_bytes, max_key_bytes);
    for (uint32_t of = 0; of < keys.size(); of += 97) {
      const std::string text = keys.Text(of);
      for (size_t bytes = 0; bytes <= text.size(); bytes += 1 + text.size() / 9) {
        const std::string prefix = text.substr(0, bytes);
        const KeySpace::Range range = keys.WithPrefix(prefix);
        for (uint32_t key = 0; key < keys.size(); ++key) {
          ASSERT_EQ(keys.Text(key).starts_with(prefix), key >= range.first && key < range.last);
        }
      }
    }
    const KeySpace::Range none = keys.WithPrefix(keys.Text(5) + "x");
    EXPECT_EQ(none.first, none.last);
    EXPECT_EQ(keys.WithPrefix("").last, keys.size());
  }
}

TEST(DataTest, HotAndStableKeysAreApart) {
  for (const uint32_t hot_keys : {1u, 2u, 3u, 4u, 1000u}) {
    const KeySpace keys(hot_keys, 20);
    std::set<uint32_t> hot;
    for (uint32_t i = 0; i < hot_keys; ++i) {
      const uint32_t key = KeySpace::HotKey(i);
      EXPECT_FALSE(KeySpace::IsStable(key));
      EXPECT_LT(key, keys.size());
      EXPECT_TRUE(hot.insert(key).second);
    }
    for (uint32_t key = 0; key < keys.size(); ++key) {
      EXPECT_EQ(keys.IsUsed(key), KeySpace::IsStable(key) || hot.contains(key));
    }
  }
}

TEST(DataTest, EveryByteOfAValueCounts) {
  const ValueSpace values(30);
  bool is_long = false;
  bool is_short = false;
  for (uint32_t sequence = 1; sequence < 40; ++sequence) {
    const ValueId id = MakeValueId(kMaxKeys - 1, kPreloader, sequence);
    EXPECT_EQ(KeyOf(id), kMaxKeys - 1);
    std::string bytes = values.Bytes(id);
    EXPECT_EQ(values.Id(bytes), id);
    is_long = is_long || bytes.size() > 16;
    is_short = is_short || bytes.size() == 8;
    EXPECT_EQ(values.Id(bytes + "x"), std::nullopt);
    if (bytes.size() > 8) {
      EXPECT_EQ(values.Id(bytes.substr(0, bytes.size() - 1)), std::nullopt);
    }
    for (char& byte : bytes) {
      byte = static_cast<char>(byte ^ 1);
      EXPECT_NE(values.Id(bytes), id);
      byte = static_cast<char>(byte ^ 1);
    }
  }
  EXPECT_TRUE(is_long && is_short);
  EXPECT_EQ(values.Id(std::string(8, '\0')), std::nullopt);
  EXPECT_EQ(values.Id(""), std::nullopt);
}

}  // namespace
}  // namespace gossamer::history
