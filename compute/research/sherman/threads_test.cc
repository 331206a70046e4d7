// Threads of one compute server over shared memory.
//
// Writers alone run at a time. A get that runs beside writes relies on READs in the order of
// addresses (tree.h), which this fabric does not promise: it could be wrong, though rarely.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/testing/need.h"
#include "common/testing/seed.h"
#include "compute/research/sherman/store.h"

namespace gossamer::sherman {
namespace {

constexpr uint64_t kThreads = 4;
constexpr uint64_t kCoroutines = 4;
constexpr uint64_t kWriters = kThreads * kCoroutines;
constexpr uint64_t kKeys = 400;  // of each writer, among the others'

std::string Bytes(uint64_t number) {
  const uint64_t word = __builtin_bswap64(number);
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

// Inserts the writer's keys in random order, and updates and deletes some.
Task<void> Write(Session& session, uint64_t writer, uint64_t seed) {
  std::vector<uint64_t> order(kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) order[i] = i * kWriters + writer;
  Random random(seed, writer);
  Shuffle(std::span(order), random);
  for (const uint64_t number : order) {
    const std::string key = Bytes(number);
    const std::string first = Bytes(number + 1);
    const std::string second = Bytes(number + 2);
    EXPECT_TRUE(co_await session.AsyncInsert(key, first)) << number;
    if (number % 2 == 0) {
      EXPECT_TRUE(co_await session.AsyncUpdate(key, second)) << number;
    }
    if (number % 3 == 0) {
      EXPECT_TRUE(co_await session.AsyncDelete(key)) << number;
    }
  }
}

class ShermanThreadsTest : public ::testing::TestWithParam<NamedDesign> {};
INSTANTIATE_TEST_SUITE_P(Ladder, ShermanThreadsTest, ::testing::ValuesIn(kLadder),
                         [](const auto& design) { return std::string(design.param.name); });

TEST_P(ShermanThreadsTest, EachKeyIsAsItsWriterLeftIt) {
  const auto store = Need(ShermanStore::OpenLocal(
      {.memory_bytes = 64 << 20, .parameters = {}, .cache_bytes = 16 << 10}, GetParam().design));
  const uint64_t seed = TestSeed();
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&store, thread, seed] {
      const std::unique_ptr<Session> session = Need(store->NewSession());
      for (uint64_t i = 0; i < kCoroutines; ++i) {
        session->Spawn(Write(*session, thread * kCoroutines + i, seed));
      }
      session->WaitAll();
    });
  }
  for (std::thread& thread : threads) thread.join();

  const std::unique_ptr<Session> session = Need(store->NewSession());
  const auto cursor = session->Scan({});
  uint64_t deleted = 0;
  for (uint64_t number = 0; number < kKeys * kWriters; ++number) {
    if (number % 3 == 0) {
      EXPECT_EQ(session->Get(Bytes(number)).error().code, Code::kNotFound);
      ++deleted;
      continue;
    }
    ASSERT_TRUE(cursor->Next());
    EXPECT_EQ(cursor->key(), Bytes(number));
    EXPECT_EQ(cursor->value(), Bytes(number + (number % 2 == 0 ? 2 : 1)));
    EXPECT_EQ(session->Get(Bytes(number)).value(), cursor->value());
  }
  EXPECT_FALSE(cursor->Next());
  EXPECT_TRUE(cursor->status());
  EXPECT_GT(deleted, 0u);
}

}  // namespace
}  // namespace gossamer::sherman
