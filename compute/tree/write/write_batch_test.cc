#include "compute/tree/write/write_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/testing/seed.h"

namespace gossamer {
namespace {

// Sorts batches of keys that `make` gives, and compares the order with that of a stable sort of
// strings.
void ExpectSorted(const std::function<std::string(std::mt19937_64&)>& make) {
  std::mt19937_64 random(TestSeed());
  KeyOrder order;
  for (const size_t size : {1, 2, 7, 128, 129, 1000, 5000}) {
    SCOPED_TRACE(size);
    std::vector<std::string> keys(size);
    for (std::string& key : keys) key = make(random);
    std::vector<size_t> expected(size);
    for (size_t i = 0; i < size; ++i) expected[i] = i;
    std::ranges::stable_sort(expected, {}, [&keys](size_t i) { return keys[i]; });
    std::vector<KeyValueView> pairs;
    pairs.reserve(size);
    for (const std::string& key : keys) pairs.push_back({key, {}});
    WriteBatch batch(WriteMode::kPut, pairs, {});
    batch.Sort(order);
    for (size_t position = 0; position < size; ++position) {
      ASSERT_EQ(batch.IndexOf(position), expected[position]) << position;
    }
  }
}

std::string Bytes(std::mt19937_64& random, size_t count, unsigned char_range, char least) {
  std::string bytes(count, least);
  for (char& one : bytes) one = static_cast<char>(least + static_cast<char>(random() % char_range));
  return bytes;
}

TEST(WriteBatchTest, SortsWords) {
  ExpectSorted([](auto& random) { return Bytes(random, 8, 256, 0); });
  ExpectSorted([](auto& random) { return Bytes(random, 8, 10, '0'); });
}

TEST(WriteBatchTest, KeepsTheOrderOfEqualKeys) {
  ExpectSorted([](auto& random) { return Bytes(random, 1, 7, 'a'); });
  ExpectSorted([](auto& random) { return "key:" + std::to_string(random() % 100); });
  ExpectSorted([](auto&) { return std::string("one"); });
}

TEST(WriteBatchTest, SortsKeysOfAnyLength) {
  ExpectSorted([](auto& random) { return Bytes(random, random() % 251, 256, 0); });
  ExpectSorted([](auto& random) { return std::string(random() % 251, '\0'); });
  ExpectSorted([](auto& random) { return Bytes(random, random() % 20, 2, '\xfe'); });
}

TEST(WriteBatchTest, SortsKeysThatDifferBehindTheirPrefix) {
  ExpectSorted([](auto& random) {
    return std::string(100, 'p') + Bytes(random, 1, 3, 'a') + std::string(10, 'q') +
           Bytes(random, 2, 256, 0);
  });
  // Few differ in the first bytes, many behind those that decide alone.
  ExpectSorted([](auto& random) {
    return (random() % 50 == 0 ? Bytes(random, 1, 256, 0) : std::string("m")) + "middle" +
           Bytes(random, 6, 256, 0);
  });
}

// Keys that differ are sorted another way than some that are equal. Whatever came first, a batch as
// large allocates nothing.
TEST(WriteBatchTest, KeysOfAnotherKindNeedNoMoreMemory) {
  KeyOrder order;
  std::vector<KeyValueView> pairs{{"c", {}}, {"b", {}}, {"a", {}}};
  WriteBatch(WriteMode::kPut, pairs, {}).Sort(order);
  const KeyOrder::Place* const scratch = order.scratch.data();
  ASSERT_NE(scratch, nullptr);
  pairs[1] = {"a", {}};
  WriteBatch(WriteMode::kPut, pairs, {}).Sort(order);
  EXPECT_EQ(order.scratch.size(), pairs.size()) << "another way";
  EXPECT_EQ(order.scratch.data(), scratch);
}

}  // namespace
}  // namespace gossamer
