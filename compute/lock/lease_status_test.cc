#include "compute/lock/lease_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "common/fabric/open/open_port.h"
#include "compute/session/testing/fake_lease_server.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{3};
constexpr Lease kLease{ComputeId{7}, 5};

class LeaseStatusTest : public ::testing::Test {
 protected:
  struct Thread {
    explicit Thread(ComputePort& port)
        : endpoint(port.NewEndpoint().value()), scheduler(endpoint) {}
    ClockedEndpoint endpoint;
    Scheduler scheduler;
  };

  LeaseStatusTest() {
    ComputePortOptions options;
    options.client_uuid = 1;
    port_ = OpenComputePort(FabricKind::kShm, options).value();
    EXPECT_TRUE(port_->Connect(kServer, server_.port().address()));
  }
  Result<LeaseState> Ask(Thread& thread, Lease lease = kLease) {
    return thread.scheduler.Run(status_.Ask(thread.scheduler, kServer, lease));
  }

  FakeLeaseServer server_{0};
  std::unique_ptr<ComputePort> port_;
  LeaseStatus status_;
};

TEST_F(LeaseStatusTest, RemembersWhatHasEndedAndNothingElse) {
  Thread thread(*port_);
  EXPECT_EQ(Ask(thread).value(), LeaseState::kInForce);
  server_.Allow(false);
  thread.endpoint.Pass(LeaseStatus::kAskInterval);
  EXPECT_EQ(Ask(thread).value(), LeaseState::kEnded);
  server_.Allow(true);
  EXPECT_EQ(Ask(thread).value(), LeaseState::kEnded);
  EXPECT_EQ(server_.queries(), 2) << "an ended lease is not asked about";
  EXPECT_EQ(Ask(thread, {kLease.compute, 6}).value(), LeaseState::kInForce) << "its next lease";
  EXPECT_EQ(Ask(thread, {ComputeId{8}, 5}).value(), LeaseState::kInForce);
  EXPECT_EQ(server_.queries(), 4);
  EXPECT_FALSE(thread.scheduler.Run(status_.Ask(thread.scheduler, ServerId{4}, kLease)))
      << "another server, which does not answer";
}

TEST_F(LeaseStatusTest, AsksNoMoreThanNowAndThen) {
  Thread one(*port_);
  Thread other(*port_);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(Ask(i % 2 == 0 ? one : other).value(), LeaseState::kInForce);
  EXPECT_EQ(server_.queries(), 1);
  EXPECT_EQ(Ask(one, {ComputeId{9}, 1}).value(), LeaseState::kInForce);
  EXPECT_EQ(server_.queries(), 2) << "about another lease";
  for (int i = 0; i < 10; ++i) {
    one.endpoint.Pass(LeaseStatus::kAskInterval);
    EXPECT_EQ(Ask(one).value(), LeaseState::kInForce);
    EXPECT_EQ(Ask(one).value(), LeaseState::kInForce);
  }
  EXPECT_EQ(server_.queries(), 12);
}

TEST_F(LeaseStatusTest, OneAtATime) {
  Thread thread(*port_);
  std::vector<LeaseState> answers;
  const auto ask = [&]() -> Task<void> {
    answers.push_back((co_await status_.Ask(thread.scheduler, kServer, kLease)).value());
  };
  server_.Allow(false);
  for (int i = 0; i < 3; ++i) thread.scheduler.Spawn(ask());
  thread.scheduler.RunUntil(0);
  EXPECT_THAT(answers,
              testing::ElementsAre(LeaseState::kInForce, LeaseState::kInForce, LeaseState::kEnded))
      << "the first to ask waits for the server";
  EXPECT_EQ(server_.queries(), 1);
}

TEST_F(LeaseStatusTest, AServerThatDoesNotAnswerIsAnError) {
  Thread thread(*port_);
  server_.port().Stop();
  const Result<LeaseState> ended = Ask(thread);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kNodeUnreachable);
}

TEST_F(LeaseStatusTest, ManyLeasesPushOutOthersAndNoneIsInvented) {
  Thread thread(*port_);
  server_.Allow(false);
  constexpr uint32_t kFew = 4000;
  constexpr uint32_t kMany = 5000;
  for (uint32_t i = 1; i <= kFew; ++i) {
    EXPECT_EQ(Ask(thread, {ComputeId{1}, i}).value(), LeaseState::kEnded);
    EXPECT_EQ(Ask(thread, {ComputeId{1}, i}).value(), LeaseState::kEnded);
    EXPECT_EQ(server_.queries(), i) << "known";
  }
  for (uint32_t i = kFew + 1; i <= kMany; ++i) {
    EXPECT_EQ(Ask(thread, {ComputeId{1}, i}).value(), LeaseState::kEnded);
  }
  EXPECT_EQ(server_.queries(), kMany);
  EXPECT_EQ(Ask(thread, {ComputeId{1}, 1}).value(), LeaseState::kEnded);
  EXPECT_EQ(server_.queries(), kMany + 1) << "forgotten";
  server_.Allow(true);
  EXPECT_EQ(Ask(thread, {ComputeId{1}, kMany + 1}).value(), LeaseState::kInForce);
}

TEST_F(LeaseStatusTest, ThreadsAskAndLook) {
  server_.Allow(false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this] {
      Thread thread(*port_);
      for (uint32_t i = 1; i <= 300; ++i) {
        while (Ask(thread, {ComputeId{1}, i}).value() == LeaseState::kInForce) {
          thread.endpoint.Pass(LeaseStatus::kAskInterval);
        }
        EXPECT_EQ(Ask(thread, {ComputeId{1}, i}).value(), LeaseState::kEnded);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gossamer
