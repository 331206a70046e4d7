#include "common/ring_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>

#include "common/testing/seed.h"

namespace gossamer {
namespace {

TEST(RingQueueTest, IsEmptyAtFirst) {
  const RingQueue<int> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0U);
}

// Wraps around and grows at every position.
TEST(RingQueueTest, GivesWhatADequeGives) {
  std::mt19937_64 random(TestSeed());
  for (int run = 0; run < 200; ++run) {
    RingQueue<uint64_t> queue;
    std::deque<uint64_t> model;
    const uint64_t most = 1 + random() % 100;
    for (int step = 0; step < 1000; ++step) {
      if (!model.empty() && (model.size() == most || random() % 2 == 0)) {
        ASSERT_EQ(queue.PopFront(), model.front());
        model.pop_front();
      } else {
        model.push_back(random());
        queue.PushBack(model.back());
      }
      ASSERT_EQ(queue.size(), model.size());
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

}  // namespace
}  // namespace gossamer
