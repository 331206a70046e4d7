#include "common/asymmetric_fence.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

namespace gossamer {
namespace {

struct alignas(64) Word {
  std::atomic<uint32_t> value{0};
};

// The store buffering litmus test, again and again: each of two threads stores to its own word,
// fences, and loads the other's.
// Returns in how many rounds neither saw the other's store.
template <typename Light, typename Heavy>
uint32_t RoundsThatSeeNothing(const Light& fence_lightly, const Heavy& fence_heavily) {
  constexpr uint32_t kRounds = 10'000;
  std::array<Word, 2> words;
  Word round_of_light;
  Word seen_by_light;  // twice the round, plus 1 if it saw the store
  std::thread thread([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (round_of_light.value.load(std::memory_order_acquire) != round)
        std::this_thread::yield();
      words[0].value.store(round, std::memory_order_relaxed);
      fence_lightly();
      const bool saw = words[1].value.load(std::memory_order_relaxed) == round;
      seen_by_light.value.store(round * 2 + (saw ? 1 : 0), std::memory_order_release);
    }
  });
  uint32_t neither = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    round_of_light.value.store(round, std::memory_order_release);
    // The delay moves the two stores against each other.
    for (uint32_t i = 0; i < round % 64; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    words[1].value.store(round, std::memory_order_relaxed);
    fence_heavily();
    const bool saw = words[0].value.load(std::memory_order_relaxed) == round;
    uint32_t answer = 0;
    while ((answer = seen_by_light.value.load(std::memory_order_acquire)) / 2 != round)
      std::this_thread::yield();
    if (!saw && answer % 2 == 0) ++neither;
  }
  thread.join();
  return neither;
}

TEST(AsymmetricFence, OneOfTwoThreadsSeesTheOthersStore) {
  EXPECT_EQ(RoundsThatSeeNothing([] { LightFence(); }, [] { HeavyFence(); }), 0U);
}

TEST(AsymmetricFence, SoItIsWithTheFencesOfAllProcesses) {
  EXPECT_EQ(
      RoundsThatSeeNothing([] { FenceLightlyIf(HasHeavyFenceOfAll()); }, [] { HeavyFenceOfAll(); }),
      0U);
}

}  // namespace
}  // namespace gossamer
