#include "compute/cache/reference_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/random.h"

namespace gossamer {
namespace {

constexpr size_t kLineBytes = 64;

uint64_t HashOf(uint64_t number) { return SplitMix64::Mix(number + 1); }
BlockRef BlockOf(uint64_t number, uint32_t length = 100) {
  return {BlockPtr(ServerId{1}, 64 * (number + 1), number % 64).word(), length, 7};
}
bool Finds(const ReferenceCache& cache, uint64_t number, const BlockRef& block) {
  const auto found = cache.Find(HashOf(number));
  return found && found->pointer == block.pointer && found->length == block.length;
}

TEST(ReferenceCacheTest, FindsWhatWasSetLast) {
  ReferenceCache cache(1024 * kLineBytes);
  EXPECT_FALSE(cache.is_used());
  EXPECT_FALSE(cache.Find(HashOf(1)));
  cache.Update(HashOf(1), BlockOf(1));
  cache.Erase(HashOf(1));
  EXPECT_FALSE(cache.is_used()) << "only a Set makes room";
  cache.Set(HashOf(1), BlockOf(1));
  EXPECT_TRUE(cache.is_used());
  EXPECT_TRUE(Finds(cache, 1, BlockOf(1)));
  cache.Set(HashOf(1), BlockOf(2, ReferenceCache::kMaxLength));
  EXPECT_TRUE(Finds(cache, 1, BlockOf(2, ReferenceCache::kMaxLength)));
  cache.Update(HashOf(1), BlockOf(3));
  EXPECT_TRUE(Finds(cache, 1, BlockOf(3)));
  cache.Update(HashOf(4), BlockOf(4));
  EXPECT_FALSE(cache.Find(HashOf(4))) << "there was none";
  cache.Erase(HashOf(1));
  EXPECT_FALSE(cache.Find(HashOf(1)));
}

TEST(ReferenceCacheTest, KeepsNoLongContents) {
  ReferenceCache cache(1024 * kLineBytes);
  const BlockRef longer = BlockOf(1, ReferenceCache::kMaxLength + 1);
  cache.Set(HashOf(1), longer);
  EXPECT_FALSE(cache.Find(HashOf(1)));
  cache.Set(HashOf(1), BlockOf(1));
  cache.Update(HashOf(1), longer);
  EXPECT_FALSE(cache.Find(HashOf(1))) << "what is outdated is forgotten";
  cache.Set(HashOf(1), BlockOf(1));
  cache.Set(HashOf(1), longer);
  EXPECT_FALSE(cache.Find(HashOf(1)));
}

TEST(ReferenceCacheTest, WithoutMemoryThereIsNone) {
  ReferenceCache cache(kLineBytes - 1);
  cache.Set(HashOf(1), BlockOf(1));
  EXPECT_FALSE(cache.is_used());
  EXPECT_FALSE(cache.Find(HashOf(1)));
}

// Five in a line, and seldom another key's: a get that reads the wrong block loses by it.
TEST(ReferenceCacheTest, HoldsMostOfWhatFits) {
  constexpr uint64_t kLines = 10'000;
  ReferenceCache cache(kLines * kLineBytes);
  for (uint64_t i = 0; i < 3 * kLines; ++i) cache.Set(HashOf(i), BlockOf(i));
  uint64_t found = 0;
  for (uint64_t i = 0; i < 3 * kLines; ++i) found += Finds(cache, i, BlockOf(i)) ? 1 : 0;
  EXPECT_GT(found, 3 * kLines * 9 / 10);
  uint64_t others = 0;
  for (uint64_t i = 3 * kLines; i < 6 * kLines; ++i) others += cache.Find(HashOf(i)) ? 1 : 0;
  EXPECT_LT(others, 10u);
  // New ones take the place of old ones.
  for (uint64_t i = 100 * kLines; i < 103 * kLines; ++i) cache.Set(HashOf(i), BlockOf(i));
  found = 0;
  for (uint64_t i = 102 * kLines; i < 103 * kLines; ++i) found += Finds(cache, i, BlockOf(i));
  EXPECT_GT(found, kLines * 9 / 10);
}

// What is found may be made of two references, but of no other bytes.
TEST(ReferenceCacheTest, ManyThreadsUseIt) {
  constexpr uint64_t kKeys = 20;
  ReferenceCache cache(2 * kLineBytes);
  std::vector<std::thread> threads;
  std::atomic<bool> is_wrong = false;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&cache, &is_wrong, thread] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t key = (i * 7 + thread) % kKeys;
        if (i % 3 == 0) cache.Set(HashOf(key), BlockOf(key, 100 + key));
        if (i % 5 == 0) cache.Update(HashOf(key), BlockOf(key, 200 + key));
        if (i % 17 == 0) cache.Erase(HashOf(key));
        const auto found = cache.Find(HashOf(key));
        if (!found) continue;
        const uint64_t block = found->ptr().offset() / 64 - 1;
        const uint64_t length = found->length % 100;
        if (block >= kKeys || length >= kKeys || found->length / 100 > 2) is_wrong = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(is_wrong);
}

}  // namespace
}  // namespace gossamer
