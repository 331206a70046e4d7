// The journal of a queue pair: the WRITE that a dead client was in the middle of.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include "common/fabric/shm/memory.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/shm/test_fixture.h"

namespace gossamer::shm {
namespace {

class Journal : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = SharedMemory::Create(SmallMemory()).value();
    page_ = std::make_unique<QueuePairPage>();
    page_->journal.payload.fill(std::byte{7});
  }
  // The journal of a client that dies between `valid` and its last byte.
  void LeaveBehind(uint32_t space, uint64_t offset, uint32_t length) {
    page_->journal.space = space;
    page_->journal.offset = offset;
    page_->journal.length = length;
    page_->journal.valid = 1;
  }
  std::span<std::byte> region() { return {memory_->view(Space::kRegion).data, 65536}; }
  auto Sevens() { return std::count(region().begin(), region().end(), std::byte{7}); }

  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<QueuePairPage> page_;
};

TEST_F(Journal, FinishesTheWriteInProgress) {
  LeaveBehind(0, 65536 - 4096, 4096);
  EXPECT_TRUE(FinishWrite(page_->journal, *memory_));
  EXPECT_EQ(Sevens(), 4096);
  EXPECT_EQ(region().back(), std::byte{7});
}

TEST_F(Journal, NothingInProgressIsNothingToFinish) {
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  JournalledWrite(page_->journal, memory_->view(Space::kRegion), Space::kRegion, 100, 3,
                  page_->journal.payload.data() + 64);
  EXPECT_EQ(Sevens(), 3);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
}

TEST_F(Journal, IsNotTrusted) {
  LeaveBehind(0, 65536 - 4095, 4096);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, ~uint64_t{0} - 10, 64);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, 0, kPathMtu + 1);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(2, 0, 64);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  LeaveBehind(0, 0, 0);
  EXPECT_FALSE(FinishWrite(page_->journal, *memory_));
  EXPECT_EQ(Sevens(), 0);
}

}  // namespace
}  // namespace gossamer::shm
