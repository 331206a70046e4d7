#include "memory/chunk_allocator.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "proto/region.h"

namespace gossamer {
namespace {

using control::ExtentKind;
using ::testing::HasSubstr;

constexpr uint64_t kChunk = 64 << 10;
constexpr Lease kAnt{ComputeId{1}, 1};
constexpr Lease kBee{ComputeId{2}, 1};

// Memory that was used under generation 0, or never.
control::Range Used(uint64_t offset, uint64_t bytes) { return {offset, bytes, 1, 1, {}}; }
control::Range Unused(uint64_t offset, uint64_t bytes) { return {offset, bytes, 0, 0, {}}; }

bool IsInForce(Lease) { return true; }
bool HasEnded(Lease) { return false; }

// Every byte of the heap is in one extent or free, and the sums agree.
void ExpectConserved(const ChunkAllocator& allocator, uint64_t region_bytes) {
  uint64_t used = 0;
  uint64_t end = kHeapOffset;
  for (const auto& [offset, extent] : allocator.extents()) {
    ASSERT_EQ(offset, extent.offset);
    ASSERT_GE(offset, end);
    ASSERT_GT(extent.bytes, 0u);
    ASSERT_EQ(offset % ChunkAllocator::kGrain, 0u);
    end = offset + extent.bytes;
    used += extent.bytes;
  }
  ASSERT_LE(end, region_bytes);
  ASSERT_EQ(used + allocator.free_bytes(), allocator.heap_bytes());
  ASSERT_EQ(used, allocator.usage().node_bytes + allocator.usage().block_bytes);
}

TEST(ChunkAllocator, HandsOutWholeChunksInOrder) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 4 * kChunk, kChunk);
  EXPECT_EQ(allocator.heap_bytes(), 4 * kChunk);
  const auto first = allocator.Allocate(1, kAnt, ExtentKind::kNodes).value();
  EXPECT_EQ(first.offset, kHeapOffset);
  EXPECT_EQ(first.bytes, kChunk);
  const auto second = allocator.Allocate(kChunk + 1, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(second.offset, kHeapOffset + kChunk);
  EXPECT_EQ(second.bytes, 2 * kChunk);
  EXPECT_EQ(allocator.usage().block_bytes, 2 * kChunk);
  EXPECT_EQ(allocator.free_bytes(), kChunk);
}

TEST(ChunkAllocator, ExhaustionSaysTheNumbers) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  ASSERT_TRUE(allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes));
  const auto extent = allocator.Allocate(kChunk + 1, kAnt, ExtentKind::kNodes);
  ASSERT_FALSE(extent);
  EXPECT_EQ(extent.error().code, Code::kExhausted);
  EXPECT_EQ(extent.error().message,
            "65537 bytes asked for; 1 of 2 chunks of 65536 bytes and 0 smaller rests are free, "
            "65536 of 131072 "
            "bytes in all");
  EXPECT_EQ(allocator.Allocate(~uint64_t{0}, kAnt, ExtentKind::kNodes).error().code,
            Code::kExhausted);
  EXPECT_EQ(allocator.Allocate(0, kAnt, ExtentKind::kNodes).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes));
}

TEST(ChunkAllocator, ReturnedTailGoesToTheNextAsker) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 4 * kChunk, kChunk);
  const auto extent = allocator.Allocate(1, kAnt, ExtentKind::kNodes).value();
  ASSERT_TRUE(allocator.Release(Unused(extent.offset + 1024, kChunk - 1024), kAnt, HasEnded));
  const auto tail = allocator.Allocate(2048, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(tail.offset, extent.offset + 1024);
  EXPECT_EQ(tail.bytes, kChunk - 1024);
  EXPECT_EQ(tail.owner, kBee);
}

TEST(ChunkAllocator, TailThatIsTooSmallWaits) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const auto extent = allocator.Allocate(1, kAnt, ExtentKind::kNodes).value();
  ASSERT_TRUE(allocator.Release(Unused(extent.offset + kChunk - 512, 512), kAnt, HasEnded));
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).value().offset,
            kHeapOffset + kChunk);
  EXPECT_EQ(allocator.Allocate(512, kAnt, ExtentKind::kNodes).value().bytes, 512u);
}

TEST(ChunkAllocator, WholeExtentReturnedIsFreeChunksAgain) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 3 * kChunk, kChunk);
  const auto extent = allocator.Allocate(3 * kChunk, kAnt, ExtentKind::kBlocks).value();
  ASSERT_TRUE(allocator.Release(Unused(extent.offset + kChunk / 2, 3 * kChunk - kChunk / 2), kAnt,
                                HasEnded));
  ASSERT_TRUE(allocator.Release(Unused(extent.offset, kChunk / 2), kAnt, HasEnded));
  EXPECT_TRUE(allocator.extents().empty());
  EXPECT_EQ(allocator.Allocate(3 * kChunk, kBee, ExtentKind::kNodes).value().bytes, 3 * kChunk);
}

TEST(ChunkAllocator, RestBehindTheLastChunkIsUsed) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk + 4096 + 100, kChunk);
  EXPECT_EQ(allocator.heap_bytes(), kChunk + 4096);
  EXPECT_EQ(allocator.Allocate(4096, kAnt, ExtentKind::kNodes).value().offset,
            kHeapOffset + kChunk);
  EXPECT_EQ(allocator.Allocate(4096, kAnt, ExtentKind::kNodes).value().bytes, kChunk);
  EXPECT_FALSE(allocator.Allocate(1, kAnt, ExtentKind::kNodes));
}

TEST(ChunkAllocator, RegionWithoutAHeapIsExhausted) {
  ChunkAllocator allocator(kHeapOffset, 4096, kChunk);
  EXPECT_EQ(allocator.Allocate(1, kAnt, ExtentKind::kNodes).error().code, Code::kExhausted);
}

TEST(ChunkAllocator, TakesBackWhatWasHandedOut) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 4 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(2 * kChunk, kAnt, ExtentKind::kNodes).value().offset;
  const auto refused = [&](const control::Range& range, Lease by) {
    const Status status = allocator.Release(range, by, HasEnded);
    return status ? std::string("taken back") : status.error().message;
  };
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), kBee), HasSubstr("another compute server"));
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), Lease{kAnt.compute, 2}),
              HasSubstr("another compute server"));
  EXPECT_THAT(refused(Unused(offset + kChunk, 2 * kChunk), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 2 * kChunk, kChunk), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(0, 256), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 1, 256), kAnt), HasSubstr("multiple of 64"));
  EXPECT_THAT(refused(Used(offset, 0), kAnt), HasSubstr("multiple of 64"));
  EXPECT_THAT(refused(Used(offset + 256, ~uint64_t{63}), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused({offset, 256, 64, 1, {}}, kAnt), HasSubstr("does not exist"));
  EXPECT_EQ(refused(Unused(offset + kChunk, kChunk), kAnt), "taken back");
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), kAnt), HasSubstr("not handed out"));
  // Whoever freed what was used.
  EXPECT_EQ(refused(Used(offset + 1024, 64), kBee), "taken back");
  EXPECT_THAT(refused(Used(offset + 1024, 64), kBee), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 960, 128), kBee), HasSubstr("not handed out"));
  EXPECT_EQ(refused(Used(offset + 960, 64), kBee), "taken back");
  EXPECT_EQ(allocator.free_bytes(), 3 * kChunk + 128);
}

TEST(ChunkAllocator, MemoryIsUsedAgainUnderItsNextGeneration) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const auto first = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(first.generation, 0);
  const control::Range used{first.offset, kChunk, 7, 1, {}};
  ASSERT_TRUE(allocator.Release(used, kBee, HasEnded));
  const auto again = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(again.offset, first.offset);
  EXPECT_EQ(again.generation, 7);
  // The never-used end of it keeps that.
  ASSERT_TRUE(allocator.Release({again.offset + 1024, kChunk - 1024, 7, 0, {}}, kAnt, HasEnded));
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().generation, 7);
}

// The owner thinks that it has it.
TEST(ChunkAllocator, MemoryThatOthersGiveBackWaitsForItsOwner) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  const control::Range first{offset + 512, 512, 3, 1, {}};
  const control::Range second{offset + 2048, 128, 4, 1, {}};
  const control::Range third{offset + 4096, 64, 5, 1, {}};
  ASSERT_TRUE(allocator.Release(first, kBee, IsInForce));
  ASSERT_TRUE(allocator.Release(second, kBee, IsInForce));
  ASSERT_TRUE(allocator.Release(third, kBee, IsInForce));
  EXPECT_FALSE(allocator.Release(first, kAnt, IsInForce)) << "twice";
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).error().code, Code::kExhausted);
  const auto again = allocator.Allocate(100, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(again.offset, second.offset);
  EXPECT_EQ(again.bytes, 128u);
  EXPECT_EQ(again.generation, 4);
  const auto node = allocator.Allocate(512, kAnt, ExtentKind::kNodes).value();
  EXPECT_EQ(node.offset, first.offset);
  EXPECT_EQ(allocator.usage().node_bytes, 512u);
  EXPECT_FALSE(allocator.Allocate(128, kAnt, ExtentKind::kBlocks));
  allocator.Ended(kBee);
  EXPECT_EQ(allocator.free_bytes(), 0u);
  allocator.Ended(kAnt);
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().offset, third.offset);
  EXPECT_EQ(allocator.usage().block_bytes, kChunk - 512);
}

TEST(ChunkAllocator, MergedMemoryHasTheGreatestGeneration) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release({offset, 64, 3, 1, {}}, kBee, HasEnded));
  ASSERT_TRUE(allocator.Release({offset + 128, 64, 9, 1, {}}, kBee, HasEnded));
  ASSERT_TRUE(allocator.Release({offset + 64, 64, 1, 1, {}}, kBee, HasEnded));
  const auto extent = allocator.Allocate(192, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(extent.offset, offset);
  EXPECT_EQ(extent.bytes, 192u);
  EXPECT_EQ(extent.generation, 9);
}

TEST(ChunkAllocator, NodesStartAtMultiplesOfTheirSize) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release(Used(offset + 64, 1984), kAnt, HasEnded));
  EXPECT_FALSE(allocator.Allocate(2048, kBee, ExtentKind::kNodes));
  const auto extent = allocator.Allocate(1024, kBee, ExtentKind::kNodes).value();
  EXPECT_EQ(extent.offset, offset + 1024);
  EXPECT_EQ(extent.bytes, 1024u);
  EXPECT_EQ(allocator.free_bytes(), 960u);
}

TEST(ChunkAllocator, SmallRestsWaitUntilNoChunkIsFree) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release(Used(offset, 64), kAnt, HasEnded));
  ASSERT_TRUE(allocator.Release(Used(offset + 256, 128), kAnt, HasEnded));
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, kChunk);
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, 128u) << "the larger";
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, 64u);
}

TEST(ChunkAllocator, RandomSequencesConserveTheHeap) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    const uint64_t chunk = uint64_t{4096} << random() % 4;
    const uint64_t region = kHeapOffset + random() % (40 * chunk);
    ChunkAllocator allocator(kHeapOffset, region, chunk);
    for (int step = 0; step < 300; ++step) {
      const Lease owner{static_cast<ComputeId>(1 + random() % 3), 1};
      if (random() % 2 == 0 || allocator.extents().empty()) {
        const uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 5 * chunk : chunk / 2);
        const uint64_t free_before = allocator.free_bytes();
        const auto extent = allocator.Allocate(
            bytes, owner, random() % 2 == 0 ? ExtentKind::kNodes : ExtentKind::kBlocks);
        if (extent) {
          ASSERT_GE(extent.value().bytes, bytes);
          ASSERT_EQ(allocator.free_bytes(), free_before - extent.value().bytes);
        }
      } else {
        auto at = allocator.extents().begin();
        std::advance(at, random() % allocator.extents().size());
        const ChunkAllocator::Extent extent = at->second;
        const uint64_t grains = extent.bytes / ChunkAllocator::kGrain;
        const uint64_t first = random() % grains;
        const uint64_t count = 1 + random() % (grains - first);
        const bool is_used = random() % 2 == 0;
        const auto generation = static_cast<uint8_t>(random() % ChunkAllocator::kGenerations);
        const control::Range range{extent.offset + first * ChunkAllocator::kGrain,
                                   count * ChunkAllocator::kGrain,
                                   generation,
                                   static_cast<uint8_t>(is_used ? 1 : 0),
                                   {}};
        const Status taken = allocator.Release(range, owner, HasEnded);
        ASSERT_EQ(taken.has_value(), is_used || extent.owner == owner)
            << (taken ? "" : taken.error().message);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectConserved(allocator, region));
    }
    while (!allocator.extents().empty()) {
      const ChunkAllocator::Extent extent = allocator.extents().begin()->second;
      ASSERT_TRUE(allocator.Release({extent.offset, extent.bytes, extent.generation, 0, {}},
                                    extent.owner, HasEnded));
    }
    // No fragments are left: the whole grid can be allocated at once.
    const uint64_t grid = allocator.heap_bytes() / chunk * chunk;
    ASSERT_TRUE(grid == 0 || allocator.Allocate(grid, kAnt, ExtentKind::kNodes));
  }
}

}  // namespace
}  // namespace gossamer
