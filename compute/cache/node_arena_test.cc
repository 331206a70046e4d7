#include "compute/cache/node_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

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

// A large block that grows and shrinks by a line each time, as the root of an index does, uses its own
// memory again. (The search for a free one once walked a list of all sizes.)
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

}  // namespace
}  // namespace gossamer
