// Links: how often an operation starts again, and for how long a server is waited for.
#include "compute/session/links.h"

#include <gtest/gtest.h>

#include <chrono>

#include "compute/lock/testing/lock_session.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;

constexpr ServerId kReturning{1};
constexpr ServerId kUnknown{5};
constexpr milliseconds kPatience{300};
constexpr uint32_t kMostRestarts = 16;

class LinksTest : public ::testing::Test {
 protected:
  // After a loss that left no queue pair to replace.
  bool MayStartAgain() {
    op_.needs_other_memory = true;
    Error error = MakeError(Code::kNodeUnreachable, "lost");
    return session_.Run(session_.links.RecoverFrom(op_, error));
  }
  // Searches of the server find nothing, the first `in_vain` times.
  void FindsAfter(uint32_t in_vain) {
    session_.find_server = [this, in_vain](ServerSearch& search) {
      EXPECT_EQ(search.server, kUnknown);
      EXPECT_EQ(search.gone, 0u);
      if (++searches_ <= in_vain) {
        search.found = MakeError(Code::kNodeUnreachable, "it is away");
      } else {
        ServerInfo info;
        info.id = kUnknown;
        info.incarnation = 7;
        info.region_bytes = 1 << 20;
        sharing_.servers.Add(info);
        session_.endpoint.lease[kUnknown] = {ComputeId{7}, 1};
      }
      return SearchState::kEnded;
    };
  }
  // As an operation does that meets a pointer to the server.
  Status Reach() {
    const RemotePtr pointer(kUnknown, kFirstLeafOffset, 0);
    Status reached = session_.links.CheckReaches(op_, pointer, 256);
    if (reached) return reached;
    Error error = reached.error();
    const bool again = session_.Run(session_.links.RecoverFrom(op_, error));
    return again ? Ok() : Status(error);
  }

  LockSharing sharing_;
  LockSession session_{sharing_, kPatience};
  Op op_;
  uint32_t searches_ = 0;
};

TEST_F(LinksTest, AnOperationStartsAgainSixteenTimes) {
  for (uint32_t i = 0; i < kMostRestarts; ++i) EXPECT_TRUE(MayStartAgain()) << i;
  EXPECT_FALSE(MayStartAgain());
}

TEST_F(LinksTest, WhereServersComeBackItStartsAgainUntilThePatienceIsOver) {
  sharing_.servers.NoteComesBack(kReturning);
  for (uint32_t i = 0; i < 4 * kMostRestarts; ++i) EXPECT_TRUE(MayStartAgain()) << i;
  session_.endpoint.Pass(kPatience);
  EXPECT_FALSE(MayStartAgain());
}

TEST_F(LinksTest, SixteenTimesAlsoWhenThePatienceIsOver) {
  sharing_.servers.NoteComesBack(kReturning);
  EXPECT_TRUE(MayStartAgain());
  session_.endpoint.Pass(2 * kPatience);
  for (uint32_t i = 1; i < kMostRestarts; ++i) EXPECT_TRUE(MayStartAgain()) << i;
  EXPECT_FALSE(MayStartAgain());
}

TEST_F(LinksTest, NothingMakesLossesEndless) {
  sharing_.servers.NoteComesBack(kReturning);
  uint32_t restarts = 0;
  while (MayStartAgain()) ++restarts;
  EXPECT_GT(restarts, kMostRestarts);
}

// Registering with a server is no restart that counts, unless it fails and the operation goes on
// with the memory of others.
TEST_F(LinksTest, NorDoesAServerThatCannotBeRegisteredWith) {
  ServerInfo other;
  other.id = kReturning;
  sharing_.servers.Add(other);
  FindsAfter(1'000'000);
  const auto may_go_on = [this] {
    op_.NoteLoss({kUnknown});
    op_.is_of_the_past = true;
    return MayStartAgain();
  };
  uint32_t restarts = 0;
  while (restarts < 1000 && may_go_on()) ++restarts;
  EXPECT_EQ(restarts, kMostRestarts);
}

TEST_F(LinksTest, AnUnknownServerIsLookedForAndRegisteredWith) {
  FindsAfter(0);
  const Status reached = Reach();
  EXPECT_TRUE(reached) << reached.error().ToString();
  EXPECT_EQ(searches_, 1u);
  EXPECT_EQ(op_.retries, 0u);
  EXPECT_TRUE(session_.links.IsRegistered(kUnknown));
}

TEST_F(LinksTest, AnUnknownServerThatIsToComeBackIsWaitedFor) {
  sharing_.servers.NoteComesBack(kUnknown);
  FindsAfter(5);
  const Status reached = Reach();
  EXPECT_TRUE(reached) << reached.error().ToString();
  EXPECT_EQ(searches_, 6u);
  EXPECT_TRUE(session_.links.IsRegistered(kUnknown));
}

TEST_F(LinksTest, AnUnknownServerThatDoesNotComeBackIsNotWaitedFor) {
  FindsAfter(1);
  const Status reached = Reach();
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().message, "it is away");
  EXPECT_EQ(searches_, 1u);
}

TEST_F(LinksTest, AServerIsNotWaitedForForEver) {
  sharing_.servers.NoteComesBack(kUnknown);
  FindsAfter(1'000'000);
  const auto began = session_.scheduler.Now();
  EXPECT_FALSE(Reach());
  EXPECT_GE(session_.scheduler.Now() - began, kPatience);
  EXPECT_GT(searches_, 5u);
}

}  // namespace
}  // namespace gossamer
