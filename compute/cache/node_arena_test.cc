#include "compute/cache/node_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer {
namespace {

constexpr size_t kLine = NodeArena::kLineBytes;

// Blocks of all sizes, which come and go, do not overlap.
TEST(NodeArenaTest, BlocksAreApart) {
  Random random(TestSeed());
  NodeArena arena;
  std::map<std::byte*, size_t> blocks;
  for (int i = 0; i < 20'000; ++i) {
    if (blocks.size() > 60 || (!blocks.empty() && random.Below(2) == 0)) {
      const auto block =
          std::next(blocks.begin(), static_cast<ptrdiff_t>(random.Below(blocks.size())));
      for (size_t at = 0; at < block->second; ++at) {
        ASSERT_EQ(block->first[at], static_cast<std::byte>(block->second)) << block->second;
      }
      arena.Free(block->first, block->second);
      blocks.erase(block);
      continue;
    }
    const size_t bytes = 1 + random.Below(random.Below(4) == 0 ? 300'000 : 3'000);
    auto* const start = static_cast<std::byte*>(arena.Allocate(bytes));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(start) % kLine, 0u);
    std::memset(start, static_cast<int>(bytes & 0xff), bytes);
    blocks[start] = bytes;
  }
}

// A large block that grows and shrinks by a line each time, as the root of an index does, uses its
// own memory again. (The search for a free one once walked a list of all sizes.)
TEST(NodeArenaTest, LargeBlocksOfManySizesShareMemory) {
  NodeArena arena;
  std::byte* block = nullptr;
  size_t lines = 500;
  const auto replace = [&](size_t by) {
    void* const next = arena.Allocate(by * kLine);
    if (block != nullptr) arena.Free(block, lines * kLine);
    block = static_cast<std::byte*>(next);
    lines = by;
  };
  for (size_t i = 0; i < 500; ++i) replace(500 + i % 100);
  const size_t mapped = arena.mapped_bytes();
  for (size_t i = 0; i < 5'000; ++i) replace(500 + i % 100);
  EXPECT_EQ(arena.mapped_bytes(), mapped);
}

// Nodes of many sizes replace each other at random for a long time, under a bound, as in a cache
// that evicts. The memory in use stays near the bound.
TEST(NodeArenaTest, MemoryInUseStaysNearABoundOfTheBlocks) {
  constexpr size_t kBound = 60'000;
  constexpr size_t kFewestLines = 12;
  constexpr size_t kMostLines = 45;
  Random random(TestSeed());
  NodeArena arena;
  std::vector<std::pair<void*, size_t>> blocks;
  size_t total = 0;
  for (int i = 0; i < 300'000; ++i) {
    const size_t lines = kFewestLines + random.Below(kMostLines - kFewestLines + 1);
    while (total + lines > kBound) {
      std::swap(blocks[random.Below(blocks.size())], blocks.back());
      arena.Free(blocks.back().first, blocks.back().second * kLine);
      total -= blocks.back().second;
      blocks.pop_back();
    }
    blocks.emplace_back(arena.Allocate(lines * kLine), lines);
    total += lines;
  }
  EXPECT_LE(arena.used_bytes(), kBound * kLine * 5 / 4);
}

// What was freed piece by piece serves a request for the whole.
TEST(NodeArenaTest, FreeNeighboursJoin) {
  constexpr size_t kLines = 10;
  NodeArena arena;
  const size_t pieces = (size_t{64} << 10) / (kLines * kLine);  // in the first chunk
  std::vector<void*> blocks;
  for (size_t i = 0; i < pieces; ++i) blocks.push_back(arena.Allocate(kLines * kLine));
  const size_t mapped = arena.mapped_bytes();
  for (size_t i = 0; i < pieces; i += 2) arena.Free(blocks[i], kLines * kLine);
  for (size_t i = 1; i < pieces; i += 2) arena.Free(blocks[i], kLines * kLine);
  std::byte* const whole = static_cast<std::byte*>(arena.Allocate(64 * kLines * kLine));
  EXPECT_EQ(arena.mapped_bytes(), mapped);
  EXPECT_EQ(whole, blocks[0]);
}

TEST(NodeArenaTest, ARequestThatFailsChangesNothing) {
  constexpr size_t kBytes = 7 * kLine;
  NodeArena arena;
  std::set<std::byte*> blocks{static_cast<std::byte*>(arena.Allocate(kBytes))};
  const size_t mapped = arena.mapped_bytes();
  EXPECT_THROW(arena.Allocate(size_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(arena.mapped_bytes(), mapped);
  // All of the chunk, and some of the next: no two overlap.
  for (size_t i = 0; i < 500; ++i) blocks.insert(static_cast<std::byte*>(arena.Allocate(kBytes)));
  EXPECT_EQ(blocks.size(), 501u);
  EXPECT_EQ(
      std::ranges::adjacent_find(blocks, [](std::byte* a, std::byte* b) { return b < a + kBytes; }),
      blocks.end());
}

}  // namespace
}  // namespace gossamer
