// Verdicts: an error is explained by a fault that its operation met, and by no other.
#include "compute/verify/sim/verdict.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace gossamer::simulator {
namespace {

using namespace std::chrono_literals;
using Kind = SimFault::Kind;
using Time = SimFault::Clock::time_point;

constexpr uint64_t kClient = 3;
constexpr uint64_t kEndpoint = 7;

Time At(std::chrono::nanoseconds time) { return Time(time); }

SimFault FaultOf(Kind kind, std::chrono::nanoseconds from, std::chrono::nanoseconds until) {
  return {kind, kClient, kEndpoint, 0, true, At(from), At(until)};
}

// An operation from 100 us to 200 us.
bool Explains(const std::vector<SimFault>& faults, Code code) {
  return ExplainsLoss(faults, {"an operation", kClient, kEndpoint, At(100us)}, At(200us), code);
}

TEST(VerdictTest, ALossExplainsTheErrorsOfTheOperationsThatMetIt) {
  for (const Kind kind : {Kind::kLinkDown, Kind::kFenced, Kind::kServer}) {
    for (const Code code : {Code::kNodeUnreachable, Code::kFenced, Code::kMaybeApplied}) {
      EXPECT_TRUE(Explains({FaultOf(kind, 50us, 150us)}, code));
      EXPECT_TRUE(Explains({FaultOf(kind, 150us, 900us)}, code));
      EXPECT_FALSE(Explains({FaultOf(kind, 50us, 99us)}, code)) << "over before it began";
      EXPECT_FALSE(Explains({FaultOf(kind, 201us, 300us)}, code)) << "begun after it had ended";
      EXPECT_FALSE(Explains({}, code));
    }
    EXPECT_FALSE(Explains({FaultOf(kind, 50us, 150us)}, Code::kContended));
    EXPECT_FALSE(Explains({FaultOf(kind, 50us, 150us)}, Code::kCorruption));
  }
}

TEST(VerdictTest, AnotherClientsLossExplainsNothing) {
  SimFault fault = FaultOf(Kind::kLinkDown, 50us, 150us);
  fault.client_uuid = kClient + 1;
  EXPECT_FALSE(Explains({fault}, Code::kNodeUnreachable));
  // Nor does the loss of an endpoint that no operation uses.
  fault.client_uuid = kClient;
  fault.has_owner = false;
  EXPECT_FALSE(Explains({fault}, Code::kNodeUnreachable));
}

TEST(VerdictTest, WhereASessionAskedForAQueuePairInVainItsOperationsFailForAWhile) {
  const auto ended_before = [](std::chrono::nanoseconds by) {
    return FaultOf(Kind::kLinkDown, 100us - by, 100us - by);
  };
  EXPECT_TRUE(Explains({ended_before(499ms)}, Code::kNodeUnreachable));
  EXPECT_FALSE(Explains({ended_before(501ms)}, Code::kNodeUnreachable));
  EXPECT_FALSE(Explains({ended_before(1us)}, Code::kMaybeApplied)) << "it posts nothing";
  SimFault other = ended_before(1us);
  other.endpoint_id = kEndpoint + 1;
  EXPECT_FALSE(Explains({other}, Code::kNodeUnreachable));
}

TEST(VerdictTest, ACallerDoesNotNoticeThatAQueuePairBreaksOrACallIsLost) {
  EXPECT_FALSE(Explains({FaultOf(Kind::kCall, 50us, 150us)}, Code::kNodeUnreachable));
  EXPECT_FALSE(Explains({FaultOf(Kind::kCall, 50us, 150us)}, Code::kMaybeApplied));
  const SimFault one = FaultOf(Kind::kBreak, 50us, 150us);
  for (const Code code : {Code::kNodeUnreachable, Code::kFenced, Code::kMaybeApplied}) {
    EXPECT_FALSE(Explains({one}, code));
  }
  // An operation that has written nothing restarts 16 times.
  EXPECT_FALSE(Explains(std::vector(16, one), Code::kNodeUnreachable));
  EXPECT_TRUE(Explains(std::vector(17, one), Code::kNodeUnreachable));
  EXPECT_FALSE(Explains(std::vector(17, one), Code::kMaybeApplied));
  SimFault other = one;
  other.endpoint_id = kEndpoint + 1;
  EXPECT_FALSE(Explains(std::vector(17, other), Code::kNodeUnreachable));
  std::vector<SimFault> of_two_sessions(16, other);
  of_two_sessions.push_back(one);
  EXPECT_TRUE(Explains(of_two_sessions, Code::kNodeUnreachable));
}

TEST(VerdictTest, AStopExplainsALossOnlyWithWhatWasLostMeanwhile) {
  const SimFault stopped = FaultOf(Kind::kStopped, 50us, 150us);
  for (const Code code : {Code::kNodeUnreachable, Code::kMaybeApplied}) {
    EXPECT_FALSE(Explains({stopped}, code));
    for (const Kind kind : {Kind::kBreak, Kind::kCall}) {
      EXPECT_TRUE(Explains({stopped, FaultOf(kind, 120us, 900us)}, code));
      SimFault others = FaultOf(kind, 120us, 900us);
      others.endpoint_id = kEndpoint + 1;
      EXPECT_FALSE(Explains({stopped, others}, code));
    }
  }
}

TEST(VerdictTest, ALossExplainsSilenceWhileNobodyRan) {
  FailedOperation operation{"an operation", kClient, kEndpoint, At(100us)};
  const std::vector<SimFault> broken = {FaultOf(Kind::kBreak, 120us, 150us)};
  EXPECT_FALSE(ExplainsLoss(broken, operation, At(200us), Code::kNodeUnreachable));
  operation.stood_still_until = At(100us);
  EXPECT_TRUE(ExplainsLoss(broken, operation, At(200us), Code::kNodeUnreachable));
  EXPECT_FALSE(ExplainsLoss({}, operation, At(200us), Code::kNodeUnreachable));
  // The session does not try the memory server again for a while.
  operation.stood_still_until = At(100us) - 499ms;
  EXPECT_TRUE(ExplainsLoss(broken, operation, At(200us), Code::kNodeUnreachable));
  EXPECT_FALSE(ExplainsLoss(broken, operation, At(200us), Code::kMaybeApplied));
  operation.stood_still_until = At(100us) - 501ms;
  EXPECT_FALSE(ExplainsLoss(broken, operation, At(200us), Code::kNodeUnreachable));
}

TEST(VerdictTest, AMemoryServerThatASessionSoughtInVainIsNotTriedAgainForAWhile) {
  const auto faults = [](std::chrono::nanoseconds before) {
    return std::vector{FaultOf(Kind::kStopped, 90us - before, 95us - before),
                       FaultOf(Kind::kCall, 95us - before, 96us - before)};
  };
  EXPECT_TRUE(Explains(faults(499ms), Code::kNodeUnreachable));
  EXPECT_FALSE(Explains(faults(501ms), Code::kNodeUnreachable));
  EXPECT_FALSE(Explains(faults(1ms), Code::kMaybeApplied));
  EXPECT_FALSE(Explains({faults(1ms)[1]}, Code::kNodeUnreachable)) << "it is made again";
}

TEST(VerdictTest, AMemoryServerThatAStoreSoughtInVainIsLeftOutForAWhile) {
  const auto ended_before = [](Kind kind, std::chrono::nanoseconds by) {
    SimFault fault = FaultOf(kind, 100us - by, 100us - by);
    fault.has_owner = false;
    fault.endpoint_id = kEndpoint + 1;
    return fault;
  };
  EXPECT_TRUE(Explains({ended_before(Kind::kLinkDown, 1999ms)}, Code::kNodeUnreachable));
  EXPECT_FALSE(Explains({ended_before(Kind::kLinkDown, 2001ms)}, Code::kNodeUnreachable));
  EXPECT_FALSE(Explains({ended_before(Kind::kLinkDown, 1us)}, Code::kMaybeApplied));
  const SimFault lost_call = ended_before(Kind::kCall, 1ms);
  EXPECT_FALSE(Explains({lost_call}, Code::kNodeUnreachable)) << "it is made again";
  EXPECT_TRUE(Explains({ended_before(Kind::kStopped, 1ms), lost_call}, Code::kNodeUnreachable));
}

// Memory servers that are away and come back, beside a client that waits for them.
class AbsenceTest : public ::testing::Test {
 protected:
  AbsenceTest() {
    plan_.returns = 1;
    plan_.reconnect_ms = 100;
  }
  void Pass(std::chrono::milliseconds time) {
    network_.CallAt(network_.Now() + time, [] {});
    network_.RunOne();
  }
  void IsAwayFor(std::chrono::milliseconds time) {
    verdict_.ServerGoes(0);
    Pass(time);
    verdict_.ServerIsBack(0);
  }
  // Of an operation that began so long ago, and ends now.
  bool IsExplained(std::chrono::milliseconds ago, Code code = Code::kNodeUnreachable) {
    const size_t before = verdict_.problems().size();
    verdict_.Judge({"an operation", kClient, kEndpoint, network_.Now() - ago}, MakeError(code));
    return verdict_.problems().size() == before;
  }

  Plan plan_;
  SimNetwork network_{SimOptions{}};
  Verdict verdict_{plan_, network_};
};

TEST_F(AbsenceTest, OfLessThanThePatienceIsNotNoticed) {
  IsAwayFor(50ms);
  EXPECT_FALSE(IsExplained(50ms));
  EXPECT_FALSE(IsExplained(99ms, Code::kFenced));
}

TEST_F(AbsenceTest, OfMoreThanThePatienceIsRememberedForAWhile) {
  IsAwayFor(101ms);
  EXPECT_TRUE(IsExplained(50ms));
  EXPECT_FALSE(IsExplained(50ms, Code::kFenced));
  Pass(600ms);
  EXPECT_FALSE(IsExplained(10ms));
}

TEST_F(AbsenceTest, AnOperationThatTakesLongerMayHaveMetManyOfThem) {
  IsAwayFor(10ms);
  Pass(90ms);
  EXPECT_TRUE(IsExplained(100ms));
  EXPECT_TRUE(IsExplained(100ms, Code::kFenced));
  EXPECT_FALSE(IsExplained(99ms));
  EXPECT_FALSE(IsExplained(90ms)) << "it was not away meanwhile";
}

TEST_F(AbsenceTest, TwoAreOneToAClientThatStandsStillBetween) {
  for (const bool stands_still : {false, true}) {
    Pass(10'000ms);
    if (stands_still) verdict_.ClientStops(kClient, network_.Now() + 90ms);
    IsAwayFor(10ms);
    Pass(80ms);
    IsAwayFor(20ms);
    EXPECT_EQ(IsExplained(10ms), stands_still);
  }
}

}  // namespace
}  // namespace gossamer::simulator
