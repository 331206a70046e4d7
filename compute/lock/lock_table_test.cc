#include "compute/lock/lock_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "compute/session/testing/scripted_endpoint.h"

namespace gossamer {
namespace {

using Answer = LockTable::Answer;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr RemotePtr kLeaf(ServerId{0}, 8192, 0);
constexpr RemotePtr kOtherNode(ServerId{0}, 16384, 0);
constexpr LockPlace kPlace{ServerId{0}, 64};
// Has the queue of kPlace.
constexpr LockPlace kSharing{ServerId{0}, 64 + LockTable::kQueues * sizeof(uint64_t)};

class LockTableTest : public ::testing::Test {
 protected:
  struct Waiting {
    explicit Waiting(Scheduler& scheduler) : waiter(scheduler) {}

    LockTable::Waiter waiter;
    LockTable::Wish wish;
    LockTable::Turn turn;
  };
  // Starts to wait; what comes of it is appended to answers_, with the waiter's number.
  Waiting& Wait(int number, const LockPlace& place, const RemotePtr* node = nullptr) {
    Waiting& waiting = waiting_.emplace_back(scheduler_);
    waiting.waiter.place = place;
    if (node != nullptr) {
      waiting.wish.node = *node;
      waiting.waiter.wish = &waiting.wish;
    }
    scheduler_.Spawn([](LockTableTest& test, Waiting& one, int id) -> Task<void> {
      co_await test.table_.Wait(one.waiter, one.turn);
      test.answers_.emplace_back(id, one.waiter.answer);
    }(*this, waiting, number));
    return waiting;
  }
  using Answers = std::vector<std::pair<int, Answer>>;
  Answers TakeAnswers() {
    for (int i = 0; i < 10; ++i) scheduler_.RunOnce();
    return std::exchange(answers_, {});
  }

  ScriptedEndpoint endpoint_{1, 64, 64};
  Scheduler scheduler_{endpoint_};
  LockTable table_;
  std::deque<Waiting> waiting_;
  Answers answers_;
};

TEST_F(LockTableTest, ASharedTurnEndsWithItsLastShare) {
  LockTable::Turn turn = table_.TryTake(kPlace, scheduler_);
  EXPECT_FALSE(table_.Share(turn, LockPlace{ServerId{0}, 128})) << "another queue";
  LockTable::Turn share = table_.Share(turn, kSharing);
  ASSERT_TRUE(share);
  EXPECT_EQ(table_.CountTurns(), 2u);
  Wait(1, kPlace);
  Wait(2, kSharing);
  EXPECT_THAT(TakeAnswers(), IsEmpty());
  EXPECT_EQ(turn.NextAt(kPlace), nullptr) << "nothing is handed over while the turn is shared";
  turn.GiveUp();
  EXPECT_THAT(TakeAnswers(), IsEmpty());
  EXPECT_NE(share.NextAt(kSharing), nullptr);
  {
    const LockTable::ClosedPlace closed = share.Close(kSharing);
    EXPECT_THAT(TakeAnswers(),
                ElementsAre(std::pair(2, Answer::kClosed), std::pair(1, Answer::kTurn)));
    LockTable::Turn& held = waiting_.front().turn;
    EXPECT_FALSE(table_.Share(held, kSharing)) << "closed";
    held.GiveUp();
  }
  EXPECT_EQ(table_.CountTurns(), 0u);
}

TEST_F(LockTableTest, GivesTurnsInTheOrderAsked) {
  Waiting& first = Wait(1, kPlace);
  Waiting& second = Wait(2, kPlace);
  Wait(3, kPlace);
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(1, Answer::kTurn)));
  EXPECT_FALSE(table_.TryTake(kPlace, scheduler_)) << "others wait";
  first.turn.GiveUp();
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(2, Answer::kTurn)));
  second.turn.GiveUp();
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(3, Answer::kTurn)));
  waiting_.clear();
  EXPECT_EQ(table_.CountTurns(), 0U);
  EXPECT_TRUE(table_.TryTake(kPlace, scheduler_));
}

TEST_F(LockTableTest, AHeldLockGoesOnlyToAWaiterOfItsPlace) {
  Waiting& first = Wait(1, kPlace);
  Wait(2, kSharing);
  Waiting& third = Wait(3, kPlace);
  TakeAnswers();
  LockTable::Waiter* next = first.turn.NextAt(kPlace);
  ASSERT_EQ(next, &third.waiter);
  const HeldLock held{LockWord(Lease{ComputeId{7}, 1}, kLeaf), 3};
  first.turn.HandOver(*next, held);
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(3, Answer::kTurn)));
  EXPECT_EQ(third.waiter.held.word, held.word);
  EXPECT_EQ(third.waiter.held.handovers, 3U);
  third.turn.GiveUp();
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(2, Answer::kTurn)));
  EXPECT_TRUE(waiting_[1].waiter.held.word.is_free());
}

TEST_F(LockTableTest, WishesAreTakenUpToTheFirstOfAnotherKind) {
  Waiting& holder = Wait(1, kPlace);
  Wait(2, kPlace, &kLeaf);
  Wait(3, kPlace, &kLeaf);
  Wait(4, kPlace, &kOtherNode);
  Wait(5, kPlace, &kLeaf);
  TakeAnswers();
  LockTable::WaiterList taken = holder.turn.TakeWishes(kLeaf, 10);
  EXPECT_EQ(&taken.Pop(), &waiting_[1].waiter);
  EXPECT_EQ(taken.first(), &waiting_[2].waiter);
  holder.turn.Resume(waiting_[1].waiter, Answer::kDone);
  // What is put back comes first again.
  holder.turn.PutBack(taken);
  EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(2, Answer::kDone)));
  holder.turn.Disband();
  EXPECT_THAT(TakeAnswers(),
              ElementsAre(std::pair(3, Answer::kLookUp), std::pair(4, Answer::kLookUp),
                          std::pair(5, Answer::kLookUp)));
  EXPECT_EQ(table_.CountTurns(), 0U);
}

TEST_F(LockTableTest, AClosedPlaceGivesNoTurnAndItsNeighbourDoes) {
  Waiting& holder = Wait(1, kPlace);
  Wait(2, kPlace);
  Wait(3, kSharing);
  TakeAnswers();
  {
    const LockTable::ClosedPlace closed = holder.turn.Close(kPlace);
    EXPECT_THAT(TakeAnswers(),
                ElementsAre(std::pair(2, Answer::kClosed), std::pair(3, Answer::kTurn)));
    Wait(4, kPlace);
    EXPECT_THAT(TakeAnswers(), ElementsAre(std::pair(4, Answer::kClosed)));
    waiting_[2].turn.GiveUp();
    EXPECT_FALSE(table_.TryTake(kPlace, scheduler_));
    EXPECT_TRUE(table_.TryTake(kSharing, scheduler_));
    EXPECT_TRUE(table_.IsClosed(kPlace));
  }
  EXPECT_THAT(TakeAnswers(), IsEmpty());
  EXPECT_TRUE(table_.TryTake(kPlace, scheduler_));
}

}  // namespace
}  // namespace gossamer
