#include "memory/chunk_allocator.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "common/testing/count_allocations.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using control::ExtentKind;
using control::Past;
using ::testing::HasSubstr;

constexpr uint64_t kChunk = 64 << 10;
constexpr ChunkAllocator::Owner kAnt{{ComputeId{1}, 1}, 11};
constexpr ChunkAllocator::Owner kBee{{ComputeId{2}, 1}, 22};
constexpr uint32_t kEpoch = 1;

// Memory that was used under generation 0, or never.
control::Range Used(uint64_t offset, uint64_t bytes) { return {offset, bytes, 1, Past::kUsed}; }
control::Range Unused(uint64_t offset, uint64_t bytes) { return {offset, bytes, 0, Past::kUnused}; }

std::vector<ChunkAllocator::Extent> ExtentsOf(const ChunkAllocator& allocator) {
  std::vector<ChunkAllocator::Extent> extents;
  uint64_t from = 0;
  while (const auto extent = allocator.NextExtent(from)) {
    extents.push_back(*extent);
    from = extent->offset + extent->bytes;
  }
  return extents;
}

bool IsInForce(Lease) { return true; }
bool HasEnded(Lease) { return false; }

// Every byte of the heap is in one extent or free, and the sums agree.
void ExpectConserved(const ChunkAllocator& allocator, uint64_t region_bytes) {
  uint64_t used = 0;
  uint64_t end = kHeapOffset;
  const std::vector<ChunkAllocator::Extent> extents = ExtentsOf(allocator);
  ASSERT_EQ(allocator.extents(), extents.size());
  for (const ChunkAllocator::Extent& extent : extents) {
    ASSERT_GE(extent.offset, end);
    ASSERT_GT(extent.bytes, 0u);
    ASSERT_EQ(extent.offset % ChunkAllocator::kGrain, 0u);
    end = extent.offset + extent.bytes;
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
  ASSERT_TRUE(
      allocator.Release(Unused(extent.offset + 1024, kChunk - 1024), kAnt.lease, kEpoch, HasEnded));
  const auto tail = allocator.Allocate(2048, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(tail.offset, extent.offset + 1024);
  EXPECT_EQ(tail.bytes, kChunk - 1024);
  EXPECT_EQ(tail.owner.lease, kBee.lease);
}

TEST(ChunkAllocator, TailThatIsTooSmallWaits) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const auto extent = allocator.Allocate(1, kAnt, ExtentKind::kNodes).value();
  ASSERT_TRUE(
      allocator.Release(Unused(extent.offset + kChunk - 512, 512), kAnt.lease, kEpoch, HasEnded));
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).value().offset,
            kHeapOffset + kChunk);
  EXPECT_EQ(allocator.Allocate(512, kAnt, ExtentKind::kNodes).value().bytes, 512u);
}

TEST(ChunkAllocator, WholeExtentReturnedIsFreeChunksAgain) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 3 * kChunk, kChunk);
  const auto extent = allocator.Allocate(3 * kChunk, kAnt, ExtentKind::kBlocks).value();
  ASSERT_TRUE(allocator.Release(Unused(extent.offset + kChunk / 2, 3 * kChunk - kChunk / 2),
                                kAnt.lease, kEpoch, HasEnded));
  ASSERT_TRUE(allocator.Release(Unused(extent.offset, kChunk / 2), kAnt.lease, kEpoch, HasEnded));
  EXPECT_EQ(allocator.extents(), 0u);
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
  const auto refused = [&](const control::Range& range, const ChunkAllocator::Owner& by) {
    const Status status = allocator.Release(range, by.lease, kEpoch, HasEnded);
    return status ? std::string("taken back") : status.error().message;
  };
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), kBee), HasSubstr("another compute server"));
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), {{kAnt.lease.compute, 2}}),
              HasSubstr("another compute server"));
  EXPECT_THAT(refused(Unused(offset + kChunk, 2 * kChunk), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 2 * kChunk, kChunk), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(0, 256), kAnt), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 1, 256), kAnt), HasSubstr("multiple of 64"));
  EXPECT_THAT(refused(Used(offset, 0), kAnt), HasSubstr("multiple of 64"));
  EXPECT_THAT(refused(Used(offset + 256, ~uint64_t{63}), kAnt), HasSubstr("not handed out"));
  EXPECT_EQ(refused(Unused(offset + kChunk, kChunk), kAnt), "taken back");
  EXPECT_THAT(refused(Unused(offset + kChunk, kChunk), kAnt), HasSubstr("not handed out"));
  // Used memory is given back by whoever freed it.
  EXPECT_EQ(refused(Used(offset + 1024, 64), kBee), "taken back");
  EXPECT_THAT(refused(Used(offset + 1024, 64), kBee), HasSubstr("not handed out"));
  EXPECT_THAT(refused(Used(offset + 960, 128), kBee), HasSubstr("not handed out"));
  EXPECT_EQ(refused(Used(offset + 960, 64), kBee), "taken back");
  EXPECT_EQ(allocator.free_bytes(), 3 * kChunk + 128);
}

TEST(ChunkAllocator, MemoryIsUsedAgainUnderItsNextGeneration) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const auto first = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(first.generation(), 0);
  const control::Range used{first.offset, kChunk, 7, Past::kUsed};
  ASSERT_TRUE(allocator.Release(used, kBee.lease, kEpoch, HasEnded));
  const auto again = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(again.offset, first.offset);
  EXPECT_EQ(again.generation(), 8);
  // The never-used end of it keeps that.
  ASSERT_TRUE(allocator.Release({again.offset + 1024, kChunk - 1024, 8, Past::kUnused}, kAnt.lease,
                                kEpoch, HasEnded));
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().generation(), 8);
}

TEST(ChunkAllocator, NodesAndBlocksCountGenerationsApart) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const auto take = [&](ExtentKind kind) { return allocator.Allocate(kChunk, kAnt, kind); };
  const auto give_back = [&](uint8_t generation) {
    return allocator.Release({kHeapOffset, kChunk, generation, Past::kUsed}, kAnt.lease, kEpoch,
                             HasEnded);
  };
  ASSERT_EQ(take(ExtentKind::kNodes).value().generation(), 0);
  ASSERT_TRUE(give_back(100));
  ASSERT_EQ(take(ExtentKind::kBlocks).value().generation(), 0);
  EXPECT_FALSE(give_back(64)) << "blocks have 64";
  ASSERT_TRUE(give_back(63));
  ASSERT_EQ(take(ExtentKind::kNodes).value().generation(), 101);
  ASSERT_TRUE(give_back(255));
  // A pointer to a node of the past may be in some cache still. An entry names its block by a
  // checksum, too.
  EXPECT_EQ(take(ExtentKind::kNodes).error().code, Code::kExhausted);
  EXPECT_EQ(take(ExtentKind::kBlocks).value().generation(), 0);
}

// The owner thinks that it has it.
TEST(ChunkAllocator, MemoryThatOthersGiveBackWaitsForItsOwner) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  const control::Range first{offset + 512, 512, 3, Past::kUsed};
  const control::Range second{offset + 2048, 128, 4, Past::kUsed};
  const control::Range third{offset + 4096, 64, 5, Past::kUsed};
  ASSERT_TRUE(allocator.Release(first, kBee.lease, kEpoch, IsInForce));
  ASSERT_TRUE(allocator.Release(second, kBee.lease, kEpoch, IsInForce));
  ASSERT_TRUE(allocator.Release(third, kBee.lease, kEpoch, IsInForce));
  EXPECT_FALSE(allocator.Release(first, kAnt.lease, kEpoch, IsInForce)) << "twice";
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).error().code, Code::kExhausted);
  const auto node = allocator.Allocate(512, kAnt, ExtentKind::kNodes).value();
  EXPECT_EQ(node.offset, first.offset);
  EXPECT_EQ(allocator.usage().node_bytes, 512u);
  const auto again = allocator.Allocate(100, kAnt, ExtentKind::kBlocks).value();
  EXPECT_EQ(again.offset, second.offset);
  EXPECT_EQ(again.bytes, 128u);
  EXPECT_EQ(again.generation(), 5);
  EXPECT_FALSE(allocator.Allocate(128, kAnt, ExtentKind::kBlocks));
  allocator.Ended(kBee.lease);
  EXPECT_EQ(allocator.free_bytes(), 0u);
  allocator.Ended(kAnt.lease);
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().offset, third.offset);
  EXPECT_EQ(allocator.usage().block_bytes, kChunk - 512);
}

// One answer has many pieces, and neighbours are one piece.
TEST(ChunkAllocator, AnOwnerGetsManyWaitingPiecesAtOnce) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(2 * kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  const auto give_back = [&](uint64_t at, uint64_t bytes) {
    ASSERT_TRUE(
        allocator.Release({offset + at, bytes, 3, Past::kUsed}, kBee.lease, kEpoch, IsInForce));
  };
  // In any order: three pieces in a row, two alone, one too small.
  for (const uint64_t at : {256, 0, 128, 1024, 2048}) give_back(at, 128);
  give_back(4096, 64);
  EXPECT_EQ(allocator.extents(), 8u);
  EXPECT_TRUE(allocator.AllocateWaiting(128, kBee.lease, ExtentKind::kBlocks, 9).empty());
  const auto two = allocator.AllocateWaiting(128, kAnt.lease, ExtentKind::kBlocks, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].offset, offset);
  EXPECT_EQ(two[0].bytes, 384u);
  EXPECT_EQ(two[0].generation(), 4);
  EXPECT_EQ(two[1].offset, offset + 1024);
  const auto rest = allocator.AllocateWaiting(128, kAnt.lease, ExtentKind::kBlocks, 9);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].offset, offset + 2048);
  EXPECT_EQ(allocator.waiting_bytes(), 64u);
  EXPECT_EQ(allocator.extents(), 3u) << "what is handed out again is one with its neighbours";
  // No more than a chunk at once, however much waits.
  give_back(kChunk / 2, kChunk);
  give_back(kChunk / 2 + kChunk + 64, 64);
  const auto chunk = allocator.AllocateWaiting(64, kAnt.lease, ExtentKind::kBlocks, 9);
  EXPECT_LE(chunk.size(), 3u);
  EXPECT_EQ(chunk.back().offset + chunk.back().bytes <= offset + 2 * kChunk, true);
}

TEST(ChunkAllocator, AnOwnerGivesUpWhatWaitsForIt) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release({offset, 64, 3, Past::kUsed}, kBee.lease, kEpoch, IsInForce));
  ASSERT_TRUE(allocator.Release({offset + 64, 64, 3, Past::kUsed}, kBee.lease, kEpoch, IsInForce));
  ASSERT_TRUE(allocator.Release({offset + 512, 64, 3, Past::kUsed}, kBee.lease, kEpoch, IsInForce));
  EXPECT_EQ(allocator.waiting_bytes(), 192u);
  EXPECT_TRUE(allocator.MakeOffer(kBee.lease, 9).ranges.empty());
  const uint32_t before = allocator.MakeOffer(kAnt.lease, 9).number;
  const auto offer = allocator.MakeOffer(kAnt.lease, 1);
  ASSERT_EQ(offer.ranges.size(), 1u);
  EXPECT_EQ(offer.ranges[0].offset, offset);
  EXPECT_EQ(offer.ranges[0].bytes, 128u) << "neighbours wait as one";
  EXPECT_EQ(allocator.GiveUp(kBee.lease, offer.number), 0u) << "it was not offered to the bee";
  EXPECT_EQ(allocator.GiveUp(kAnt.lease, before), 0u) << "another offer was made since";
  EXPECT_EQ(allocator.GiveUp(kAnt.lease, offer.number), 128u);
  EXPECT_EQ(allocator.GiveUp(kAnt.lease, offer.number), 0u) << "twice";
  EXPECT_EQ(allocator.waiting_bytes(), 64u);
  const auto extent = allocator.Allocate(128, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(extent.offset, offset);
  EXPECT_EQ(extent.generation(), 4);
}

// Rule G1: the owner's session gets memory back while the owner's request to give it up is on its
// way.
TEST(ChunkAllocator, WhatHasNotWaitedSinceItWasOfferedIsNotGivenUp) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  const auto give_back = [&](uint64_t at, uint64_t bytes) {
    return allocator.Release({at, bytes, 3, Past::kUsed}, kBee.lease, kEpoch, IsInForce);
  };
  ASSERT_TRUE(give_back(offset, 256));
  ASSERT_TRUE(give_back(offset + 512, 64));
  const uint32_t offer = allocator.MakeOffer(kAnt.lease, 9).number;
  ASSERT_EQ(allocator.Allocate(256, kAnt, ExtentKind::kBlocks).value().offset, offset);
  // However the memory then came to wait once more.
  ASSERT_TRUE(give_back(offset, 256));
  EXPECT_EQ(allocator.GiveUp(kAnt.lease, offer), 64u);
  EXPECT_EQ(allocator.waiting_bytes(), 256u);
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().offset, offset + 512);
  EXPECT_FALSE(allocator.Allocate(64, kBee, ExtentKind::kBlocks));
  // The end of the lease ends the offer.
  const uint32_t last = allocator.MakeOffer(kAnt.lease, 9).number;
  allocator.Ended(kAnt.lease);
  EXPECT_EQ(allocator.free_bytes(), 256u);
  EXPECT_EQ(allocator.GiveUp(kAnt.lease, last), 0u);
}

TEST(ChunkAllocator, OrphanedMemoryIsGivenBackByAnybodyOnce) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes).value().offset;
  const uint64_t other = allocator.Allocate(kChunk, kBee, ExtentKind::kNodes).value().offset;
  const auto sweep = [&](uint64_t at, uint64_t bytes, const auto& is_in_force) {
    return allocator
        .Release({at, bytes, 0, Past::kOrphaned, static_cast<uint16_t>(kAnt.lease.compute),
                  kAnt.lease.incarnation},
                 kBee.lease, kEpoch, is_in_force)
        .has_value();
  };
  EXPECT_FALSE(sweep(offset, 1024, IsInForce)) << "its owner lives";
  EXPECT_FALSE(sweep(other, 1024, HasEnded)) << "it is another's";
  EXPECT_FALSE(sweep(other - 1024, 2048, HasEnded)) << "some of it is another's";
  EXPECT_TRUE(sweep(offset + 1024, 1024, HasEnded));
  EXPECT_FALSE(sweep(offset + 1024, 1024, HasEnded)) << "another sweeper was first";
  const auto again = allocator.Allocate(1024, kBee, ExtentKind::kNodes).value();
  EXPECT_EQ(again.offset, offset + 1024);
  EXPECT_EQ(again.generation(), 0);
  EXPECT_FALSE(sweep(offset + 1024, 1024, HasEnded)) << "it is in use again";
}

TEST(ChunkAllocator, WornMemoryIsAsNewAfterAnEpoch) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const auto wear = [&](uint64_t offset, uint64_t bytes, uint32_t epoch) {
    ASSERT_TRUE(allocator.Release({offset, bytes, 255, Past::kUsed}, kAnt.lease, epoch, HasEnded));
  };
  const uint64_t offset = allocator.Allocate(2 * kChunk, kAnt, ExtentKind::kNodes).value().offset;
  wear(offset + 1024, 1024, 5);
  wear(offset, 1024, 6);
  wear(offset + kChunk, kChunk, 5);
  EXPECT_EQ(allocator.worn_bytes(), kChunk + 2048);
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).error().code, Code::kExhausted);
  // It serves blocks meanwhile.
  const auto blocks = allocator.Allocate(512, kAnt, ExtentKind::kBlocks).value();
  ASSERT_TRUE(
      allocator.Release({blocks.offset, blocks.bytes, 1, Past::kUsed}, kAnt.lease, 6, HasEnded));
  allocator.EndEpochsBefore(5);
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).error().code, Code::kExhausted);
  allocator.EndEpochsBefore(6);
  EXPECT_EQ(allocator.worn_bytes(), 1024u);
  const auto chunk = allocator.Allocate(1024, kAnt, ExtentKind::kNodes).value();
  EXPECT_EQ(chunk.offset, offset + kChunk);
  EXPECT_EQ(chunk.generation(), 0);
  // What was worn in a later epoch stays apart, and so does not hold its neighbour back.
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).value().offset, offset + 1024);
  EXPECT_EQ(allocator.Allocate(1024, kAnt, ExtentKind::kNodes).error().code, Code::kExhausted);
  allocator.EndEpochsBefore(7);
  EXPECT_EQ(allocator.worn_bytes(), 0u);
  const auto rest = allocator.Allocate(1024, kAnt, ExtentKind::kNodes).value();
  EXPECT_EQ(rest.offset, offset);
  EXPECT_EQ(rest.bytes, 1024u);
  EXPECT_EQ(rest.generation(), 0);
}

// Blocks may have both for a while.
TEST(ChunkAllocator, MemoryThatWasWornLaterIsNotRenewedWithItsNeighbour) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(2 * kChunk, kAnt, ExtentKind::kNodes).value().offset;
  const auto give_back = [&](uint64_t at, uint64_t bytes, uint8_t generation, uint32_t epoch) {
    ASSERT_TRUE(
        allocator.Release({at, bytes, generation, Past::kUsed}, kAnt.lease, epoch, HasEnded));
  };
  give_back(offset, kChunk, 255, 5);
  give_back(offset + kChunk, kChunk, 255, 6);
  ASSERT_EQ(allocator.Allocate(2 * kChunk, kAnt, ExtentKind::kBlocks).value().bytes, 2 * kChunk);
  give_back(offset, 2 * kChunk, 3, 6);
  allocator.EndEpochsBefore(6);
  EXPECT_EQ(allocator.worn_bytes(), kChunk);
  EXPECT_EQ(allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes).value().offset, offset);
  EXPECT_EQ(allocator.Allocate(64, kAnt, ExtentKind::kNodes).error().code, Code::kExhausted);
  EXPECT_EQ(allocator.Allocate(64, kAnt, ExtentKind::kBlocks).value().generation(), 4);
}

TEST(ChunkAllocator, MergedMemoryHasTheGreatestGeneration) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release({offset, 64, 3, Past::kUsed}, kBee.lease, kEpoch, HasEnded));
  ASSERT_TRUE(allocator.Release({offset + 128, 64, 9, Past::kUsed}, kBee.lease, kEpoch, HasEnded));
  ASSERT_TRUE(allocator.Release({offset + 64, 64, 1, Past::kUsed}, kBee.lease, kEpoch, HasEnded));
  const auto extent = allocator.Allocate(192, kBee, ExtentKind::kBlocks).value();
  EXPECT_EQ(extent.offset, offset);
  EXPECT_EQ(extent.bytes, 192u);
  EXPECT_EQ(extent.generation(), 10);
}

TEST(ChunkAllocator, NodesStartAtMultiplesOfTheirSize) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release(Used(offset + 64, 1984), kAnt.lease, kEpoch, HasEnded));
  EXPECT_FALSE(allocator.Allocate(2048, kBee, ExtentKind::kNodes));
  const auto extent = allocator.Allocate(1024, kBee, ExtentKind::kNodes).value();
  EXPECT_EQ(extent.offset, offset + 1024);
  EXPECT_EQ(extent.bytes, 1024u);
  EXPECT_EQ(allocator.free_bytes(), 960u);
}

TEST(ChunkAllocator, SmallRestsWaitUntilNoChunkIsFree) {
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + 2 * kChunk, kChunk);
  const uint64_t offset = allocator.Allocate(kChunk, kAnt, ExtentKind::kBlocks).value().offset;
  ASSERT_TRUE(allocator.Release(Used(offset, 64), kAnt.lease, kEpoch, HasEnded));
  ASSERT_TRUE(allocator.Release(Used(offset + 256, 128), kAnt.lease, kEpoch, HasEnded));
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, kChunk);
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, 128u) << "the larger";
  EXPECT_EQ(allocator.Allocate(64, kBee, ExtentKind::kBlocks).value().bytes, 64u);
}

// The worst that can be done: every other block of the smallest size is freed.
TEST(ChunkAllocator, BookkeepingIsBoundedAndCountsAreKept) {
  constexpr uint64_t kHeap = uint64_t{16} << 20;
  constexpr uint64_t kLargeChunk = uint64_t{1} << 20;
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kHeap, kLargeChunk);
  EXPECT_LE(ChunkAllocator::BookkeepingBytes(kHeap, kLargeChunk), kHeap * 49 / 640 + (512 << 10));
  const uint64_t offset = allocator.Allocate(kHeap, kAnt, ExtentKind::kBlocks).value().offset;
  const auto free_every_other = [&](uint64_t first, uint64_t step, const auto& is_in_force) {
    for (uint64_t at = first; at < kHeap; at += step) {
      ASSERT_TRUE(
          allocator.Release({offset + at, 64, static_cast<uint8_t>(at / 64 % 60), Past::kUsed},
                            kBee.lease, kEpoch, is_in_force));
    }
  };
  const uint64_t allocations_before = allocations;
  const uint64_t looks_before = allocator.looks();
  free_every_other(0, 256, HasEnded);
  constexpr uint64_t kPieces = kHeap / 256;
  EXPECT_EQ(allocations, allocations_before) << "a freed piece takes no memory of its own";
  EXPECT_LE(allocator.looks() - looks_before, 8 * kPieces);
  // Nor does one that waits: some for each chunk.
  free_every_other(128, 256, IsInForce);
  EXPECT_LE(allocations - allocations_before, 2 * kHeap / kLargeChunk);
  EXPECT_EQ(allocator.extents(), 3 * kPieces);
  EXPECT_EQ(allocator.waiting_bytes(), kHeap / 4);
  // Counts are kept, and what is asked for is found, or not, within bounds.
  const auto looks_of = [&](const auto& ask) {
    const uint64_t before = allocator.looks();
    ask();
    return allocator.looks() - before;
  };
  EXPECT_EQ(looks_of([&] {
              EXPECT_EQ(allocator.BytesOf(kBee.lease), 0u);
              EXPECT_EQ(allocator.free_bytes(), kHeap / 4);
              EXPECT_EQ(allocator.BytesOf(kAnt.lease), kHeap * 3 / 4);
              EXPECT_EQ(allocator.orphaned_bytes(), 0u);
              EXPECT_EQ(allocator.worn_bytes(), 0u);
              allocator.EndEpochsBefore(kEpoch + 1);
            }),
            0u);
  EXPECT_LE(looks_of([&] { EXPECT_FALSE(allocator.Allocate(128, kBee, ExtentKind::kBlocks)); }),
            ChunkAllocator::kMostLooks);
  EXPECT_LE(looks_of([&] { EXPECT_FALSE(allocator.Allocate(256, kBee, ExtentKind::kNodes)); }),
            ChunkAllocator::kMostLooks);
  EXPECT_LE(looks_of([&] { EXPECT_FALSE(allocator.Allocate(128, kAnt, ExtentKind::kBlocks)); }),
            2 * ChunkAllocator::kMostLooks);
  EXPECT_LE(looks_of([&] { EXPECT_TRUE(allocator.Allocate(64, kBee, ExtentKind::kBlocks)); }), 16u);
  EXPECT_LE(looks_of([&] {
              EXPECT_EQ(allocator.AllocateWaiting(64, kAnt.lease, ExtentKind::kBlocks, 9).size(),
                        9u);
            }),
            100u);
  allocator.Ended(kAnt.lease);
  EXPECT_EQ(allocator.orphaned_bytes(), allocator.BytesOf(kAnt.lease));
  EXPECT_EQ(allocator.waiting_bytes(), 0u);
}

TEST(ChunkAllocator, ManyLeasesMayHoldMemoryAndNoMore) {
  constexpr uint64_t kHeap = uint64_t{4} << 20;
  ChunkAllocator allocator(kHeapOffset, kHeapOffset + kHeap, 256);
  const auto owner = [](uint32_t incarnation) {
    return ChunkAllocator::Owner{{ComputeId{3}, incarnation}, incarnation};
  };
  std::vector<uint64_t> at;
  // Each keeps one block.
  for (uint32_t i = 1; i <= ChunkAllocator::kMostOwners; ++i) {
    const auto extent = allocator.Allocate(64, owner(i), ExtentKind::kBlocks);
    if (!extent) break;
    const uint64_t rest = extent.value().bytes - 64;
    ASSERT_EQ(allocator
                  .Release({extent.value().offset + 64, rest, 0, Past::kUnused}, owner(i).lease,
                           kEpoch, HasEnded)
                  .has_value(),
              rest != 0);
    at.push_back(extent.value().offset);
  }
  ASSERT_EQ(at.size(), ChunkAllocator::kMostOwners);
  const auto refused = allocator.Allocate(64, kBee, ExtentKind::kBlocks);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("gossamer sweep"));
  EXPECT_TRUE(allocator.Allocate(64, owner(1), ExtentKind::kBlocks));
  ASSERT_TRUE(allocator.Release({at[1], 64, 0, Past::kUnused}, owner(2).lease, kEpoch, HasEnded));
  EXPECT_TRUE(allocator.Allocate(64, kBee, ExtentKind::kBlocks));
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
      const ChunkAllocator::Owner owner{{static_cast<ComputeId>(1 + random() % 3), 1}, 7};
      if (random() % 2 == 0 || allocator.extents() == 0) {
        const uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 5 * chunk : chunk / 2);
        const uint64_t free_before = allocator.free_bytes();
        const auto extent = allocator.Allocate(
            bytes, owner, random() % 2 == 0 ? ExtentKind::kNodes : ExtentKind::kBlocks);
        if (extent) {
          ASSERT_GE(extent.value().bytes, bytes);
          ASSERT_EQ(allocator.free_bytes(), free_before - extent.value().bytes);
        }
      } else {
        const ChunkAllocator::Extent extent = ExtentsOf(allocator)[random() % allocator.extents()];
        const uint64_t grains = extent.bytes / ChunkAllocator::kGrain;
        const uint64_t first = random() % grains;
        const uint64_t count = 1 + random() % (grains - first);
        const bool is_used = random() % 2 == 0;
        const auto generation = static_cast<uint8_t>(random() % BlockPtr::kGenerations);
        const control::Range range{extent.offset + first * ChunkAllocator::kGrain,
                                   count * ChunkAllocator::kGrain, generation,
                                   is_used ? Past::kUsed : Past::kUnused};
        const Status taken = allocator.Release(range, owner.lease, kEpoch, HasEnded);
        ASSERT_EQ(taken.has_value(), is_used || extent.owner.lease == owner.lease)
            << (taken ? "" : taken.error().message);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectConserved(allocator, region));
    }
    while (const auto first = allocator.NextExtent(0)) {
      const ChunkAllocator::Extent extent = *first;
      ASSERT_TRUE(
          allocator.Release({extent.offset, extent.bytes, extent.generation(), Past::kUnused},
                            extent.owner.lease, kEpoch, HasEnded));
    }
    // No fragments are left: the whole grid can be allocated at once.
    const uint64_t grid = allocator.heap_bytes() / chunk * chunk;
    ASSERT_TRUE(grid == 0 || allocator.Allocate(grid, kAnt, ExtentKind::kNodes));
  }
}

// Beside a model of single grains: who owns each, and whether it waits.
TEST(ChunkAllocator, RandomSequencesKeepWhoOwnsWhat) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  constexpr uint64_t kSmall = 4096;
  constexpr uint64_t kGrains = 20 * kSmall / 64 + 12;
  for (int round = 0; round < 10; ++round) {
    ChunkAllocator allocator(kHeapOffset, kHeapOffset + kGrains * 64, kSmall);
    struct Grain {
      int owner = 0;
      bool waits = false;
      uint32_t offer = 0;  // the last one that has it
    };
    std::vector<Grain> model(kGrains);
    const auto owner_of = [](int number) {
      return ChunkAllocator::Owner{{static_cast<ComputeId>(number), 1},
                                   70U + static_cast<uint32_t>(number)};
    };
    std::map<int, uint32_t> offers;
    const auto grain = [](uint64_t offset) { return (offset - kHeapOffset) / 64; };
    for (int step = 0; step < 400; ++step) {
      const int who = 1 + static_cast<int>(random() % 3);
      const ChunkAllocator::Owner owner = owner_of(who);
      const auto kind = random() % 2 == 0 ? ExtentKind::kNodes : ExtentKind::kBlocks;
      switch (random() % 8) {
        case 0: {
          const auto extent = allocator.Allocate(256 << random() % 5, owner, kind);
          if (!extent) break;
          const uint64_t first = grain(extent.value().offset);
          const bool waited = model[first].waits;
          for (uint64_t i = first; i < first + extent.value().bytes / 64; ++i) {
            ASSERT_EQ(model[i].owner, waited ? who : 0);
            ASSERT_EQ(model[i].waits, waited);
            model[i] = {who};
          }
          break;
        }
        case 1:
          for (const auto& extent :
               allocator.AllocateWaiting(256, owner.lease, kind, 1 + random() % 5)) {
            for (uint64_t i = grain(extent.offset); i < grain(extent.offset + extent.bytes); ++i) {
              ASSERT_TRUE(model[i].owner == who && model[i].waits);
              model[i] = {who};
            }
          }
          break;
        case 2: {
          const auto offer = allocator.MakeOffer(owner.lease, 1 + random() % 9);
          offers[who] = offer.number;
          for (const auto& [offset, bytes] : offer.ranges) {
            for (uint64_t i = grain(offset); i < grain(offset + bytes); ++i) {
              ASSERT_TRUE(model[i].owner == who && model[i].waits);
              model[i].offer = offer.number;
            }
          }
          break;
        }
        case 3: {
          const uint32_t offer = offers[who] - (random() % 4 == 0 ? 1 : 0);
          uint64_t expected = 0;
          for (Grain& one : model) {
            if (offer == 0 || offer != offers[who] || one.offer != offer || one.owner != who ||
                !one.waits)
              continue;
            expected += 64;
            one = {};
          }
          ASSERT_EQ(allocator.GiveUp(owner.lease, offer), expected);
          break;
        }
        default: {
          const uint64_t first = random() % kGrains;
          const uint64_t count = 1 + random() % std::min<uint64_t>(kGrains - first, 40);
          const bool is_used = random() % 4 != 0;
          bool may = true;
          for (uint64_t i = first; i < first + count; ++i) {
            may =
                may && model[i].owner != 0 && !model[i].waits && (is_used || model[i].owner == who);
          }
          const Status taken = allocator.Release(
              {kHeapOffset + first * 64, count * 64, static_cast<uint8_t>(random() % 64),
               is_used ? Past::kUsed : Past::kUnused},
              owner.lease, kEpoch, IsInForce);
          ASSERT_EQ(taken.has_value(), may);
          for (uint64_t i = first; may && i < first + count; ++i) {
            model[i] = model[i].owner == who ? Grain{} : Grain{model[i].owner, true};
          }
        }
      }
      uint64_t waiting = 0;
      std::map<int, uint64_t> owned;
      for (const Grain& one : model) {
        waiting += one.waits ? 64 : 0;
        owned[one.owner] += 64;
      }
      ASSERT_EQ(allocator.waiting_bytes(), waiting);
      ASSERT_EQ(allocator.free_bytes(), owned[0]);
      for (int i = 1; i <= 3; ++i) ASSERT_EQ(allocator.BytesOf(owner_of(i).lease), owned[i]);
      ASSERT_NO_FATAL_FAILURE(ExpectConserved(allocator, kHeapOffset + kGrains * 64));
      for (const auto& extent : ExtentsOf(allocator)) {
        for (uint64_t i = grain(extent.offset); i < grain(extent.offset + extent.bytes); ++i) {
          ASSERT_EQ(owner_of(model[i].owner).lease, extent.owner.lease);
          ASSERT_EQ(model[i].waits, extent.is_waiting);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gossamer
