// The verbs fabric when memory servers and compute servers start, end, or never existed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/fabric/verbs/address.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/test_server.h"
#include "common/random_id.h"

namespace gossamer::verbs {
namespace {

using ::testing::HasSubstr;

TEST(VerbsAbsent, SaysWhatToDo) {
  const Result<std::unique_ptr<ComputePort>> port = OpenComputePort(Client(1));
  if (port) GTEST_SKIP() << "this machine has an RDMA device";
  EXPECT_EQ(port.error().code, Code::kUnsupported);
  EXPECT_THAT(port.error().message, HasSubstr("--fabric=shm"));
  EXPECT_THAT(port.error().message, HasSubstr("scripts/soft_roce"));
  const Result<std::unique_ptr<MemoryPort>> memory = OpenMemoryPort(MemoryOptions());
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::kUnsupported);
}

TEST_F(VerbsTest, AClientIsGoneOnceWithItsLastQueuePair) {
  Result<std::unique_ptr<Endpoint>> second = compute_->NewEndpoint();
  ASSERT_TRUE(second) << second.error().ToString();
  second.value().reset();
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::Read(0, 8, buffer_.address()));
  Run(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
  EXPECT_EQ(handler_.gone(kUuid), 0);
  buffer_ = {};
  endpoint_.reset();
  compute_.reset();
  EXPECT_TRUE(handler_.WaitUntilGone(kUuid));
  usleep(200'000);
  EXPECT_EQ(handler_.gone(kUuid), 1);
}

// A stopped server fails what it is asked, within the bound; a new server in its place is another
// one.
TEST_F(VerbsTest, AStoppedServerIsLost) {
  memory_->Stop();
  InlineBatch<2> batch(kServer);
  batch.Add(Verb::Read(0, 8, buffer_.address()));
  batch.Add(Verb::Read(0, 8, buffer_.address(64)));
  Run(batch);
  EXPECT_EQ(batch.verbs()[0].status, VerbStatus::kUnknown) << VerbStatusName(batch.status());
  EXPECT_NE(batch.verbs()[1].status, VerbStatus::kSuccess);
  Status reconnected = endpoint_->Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable) << reconnected.error().ToString();

  MemoryPortOptions options = MemoryOptions();
  options.listen = memory_->address();
  memory_.reset();
  Result<std::unique_ptr<MemoryPort>> other = OpenMemoryPort(options);
  ASSERT_TRUE(other) << other.error().ToString();
  ASSERT_TRUE(other.value()->Start(handler_, RandomId()));
  reconnected = endpoint_->Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_THAT(reconnected.error().message, HasSubstr("started anew"));
}

TEST_F(VerbsTest, ACallToAStoppedServerIsLost) {
  memory_->Stop();
  ControlCall call;
  call.server = kServer;
  call.request_bytes = 8;
  Run(call);
  EXPECT_EQ(call.status, VerbStatus::kUnknown);
}

// A client killed in the middle of its WRITEs is gone, and none of them lands any more.
TEST_F(VerbsTest, AKilledClientIsGone) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const std::string address = memory_->address();
  const std::string self = "/proc/self/exe";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(ready[1], STDOUT_FILENO);
    setenv("GOSSAMER_TEST_CHILD", address.c_str(), 1);
    execl(self.c_str(), self.c_str(), "--gtest_filter=VerbsChild.*",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(1);
  }
  close(ready[1]);
  std::string output;
  char c;
  while (output.find("connected") == std::string::npos && read(ready[0], &c, 1) == 1) output += c;
  ASSERT_THAT(output, HasSubstr("connected"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  EXPECT_TRUE(handler_.WaitUntilGone(99));
  uint64_t before, after;
  std::memcpy(&before, memory_->region().data(), sizeof before);
  usleep(100'000);
  std::memcpy(&after, memory_->region().data(), sizeof after);
  EXPECT_EQ(before, after);
  EXPECT_GT(before, 0u);
  EXPECT_EQ(handler_.gone(99), 1);
}

TEST(VerbsChild, DISABLED_WritesUntilKilled) {
  const char* address = std::getenv("GOSSAMER_TEST_CHILD");
  if (address == nullptr) GTEST_SKIP();
  std::unique_ptr<ComputePort> port = OpenComputePort(Client(99)).value();
  ASSERT_TRUE(port->Connect(kServer, address));
  std::unique_ptr<Endpoint> endpoint = port->NewEndpoint().value();
  const BufferLease lease = endpoint->buffers().Allocate(64).value();
  for (uint64_t i = 1;; ++i) {
    std::memcpy(lease.data(), &i, sizeof i);
    InlineBatch<1> batch(kServer);
    batch.Add(Verb::Write(0, 8, lease.address()));
    Completion completion{1, {}};
    batch.completion = &completion;
    endpoint->Post(batch);
    while (completion.remaining != 0) endpoint->Poll();
    ASSERT_EQ(batch.status(), VerbStatus::kSuccess);
    if (i == 10) {
      ASSERT_EQ(write(STDOUT_FILENO, "connected\n", 10), 10);
    }
  }
}

// A client whose machine vanished: its queue pair does not answer, and it sends no disconnect.
TEST_F(VerbsTest, ASilentClientIsGone) {
  const ComputePortOptions options = Client(55);
  const Peer peer =
      ProbePeer(ParseSocketAddress(memory_->address()).value(), 0, nullptr, options).value();
  const CompletionQueue queue(ibv_create_cq(peer.device->verbs(), 64, nullptr, nullptr, 0));
  ConnectAttempt attempt =
      ConnectAttempt::Begin(peer.address, peer.device.get(), options,
                            {ConnectAttempt::Clock::now() + std::chrono::seconds(5), true})
          .value();
  ASSERT_TRUE(attempt.Await());
  Connection connection =
      attempt.MakeQueuePair(peer, peer.device->protection_domain(), queue.get()).value();
  ConnectRequest request;
  request.kind = RequestKind::kAttach;
  request.client_uuid = options.client_uuid;
  ASSERT_TRUE(attempt.Send(connection, request));
  ASSERT_TRUE(attempt.Await());
  ASSERT_TRUE(attempt.Established(connection));
  usleep(1'500'000);  // asked once for a sign of life, and answered
  EXPECT_EQ(handler_.gone(55), 0);
  connection.Break();
  EXPECT_TRUE(handler_.WaitUntilGone(55));
  EXPECT_EQ(handler_.gone(kUuid), 0);
}

// A memory server that answers verbs but no calls.
TEST_F(VerbsTest, AnUnansweredCallEnds) {
  handler_.delay_ms = 6000;
  ControlCall call;
  call.server = kServer;
  Run(call);
  EXPECT_EQ(call.status, VerbStatus::kUnknown);
  handler_.delay_ms = 0;
  Status reconnected = endpoint_->Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable);
  for (int i = 0; i < 5 && !reconnected; ++i) reconnected = endpoint_->Reconnect(kServer);
  ASSERT_TRUE(reconnected) << reconnected.error().ToString();
  Run(call);
  EXPECT_EQ(call.status, VerbStatus::kSuccess);
}

TEST_F(VerbsTest, RefusalsSayWhy) {
  MemoryPortOptions options = MemoryOptions();
  options.listen = memory_->address();
  Result<std::unique_ptr<MemoryPort>> taken = OpenMemoryPort(options);
  if (taken) {
    const Status started = taken.value()->Start(handler_, RandomId());
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().message, HasSubstr("in use"));
  } else {
    EXPECT_THAT(taken.error().message, HasSubstr("port in use"));
  }
  options.listen = "198.51.100.7:0";
  EXPECT_THAT(OpenMemoryPort(options).error().message, HasSubstr("no address of this machine"));
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(OpenMemoryPort(options).error().message, HasSubstr("names no RDMA device"));
  options.listen = "127.0.0.1:0";
  const Result<std::unique_ptr<MemoryPort>> loopback = OpenMemoryPort(options);
  ASSERT_FALSE(loopback);
  EXPECT_THAT(loopback.error().message, HasSubstr("not on an RDMA device"));
  options = MemoryOptions();
  options.rdma.device = "mlx5_9";
  EXPECT_THAT(OpenMemoryPort(options).error().message, HasSubstr("no RDMA device 'mlx5_9'"));
  const auto refused_for = [](const RdmaOptions& rdma) {
    MemoryPortOptions wrong = MemoryOptions();
    wrong.rdma = rdma;
    const auto port = OpenMemoryPort(wrong);
    return port ? std::string() : port.error().message;
  };
  EXPECT_THAT(refused_for({.port = 9}), HasSubstr("is on port 1 of"));
  EXPECT_THAT(refused_for({.gid_index = 200}), HasSubstr("the GID with index 200"));
  EXPECT_THAT(refused_for({.path_mtu = 4096}), HasSubstr("has a path MTU of 1024 bytes, not 4096"));
  EXPECT_EQ(refused_for({.port = 1, .path_mtu = 1024, .traffic_class = 104}), "");

  std::string nobody = memory_->address();
  nobody = nobody.substr(0, nobody.rfind(':')) + ":1";
  const Status unreachable = compute_->Connect(ServerId{4}, nobody);
  ASSERT_FALSE(unreachable);
  EXPECT_EQ(unreachable.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(unreachable.error().message, HasSubstr("nobody listens"));
  EXPECT_EQ(endpoint_->Attach(ServerId{9}).error().code, Code::kInvalidArgument);
}

// What a client asks of its connections is checked against those it gets.
TEST_F(VerbsTest, AClientHasThePathThatItAsksFor) {
  const auto connected = [this](const RdmaOptions& rdma) -> std::string {
    ComputePortOptions options = Client(RandomId());
    options.rdma = rdma;
    const auto port = OpenComputePort(options);
    if (!port) return port.error().message;
    const Status found = port.value()->Connect(kServer, memory_->address());
    if (!found) return found.error().message;
    const auto endpoint = port.value()->NewEndpoint();
    if (!endpoint) return endpoint.error().message;
    const Status attached = endpoint.value()->Reconnect(kServer);
    return attached ? "" : attached.error().message;
  };
  EXPECT_EQ(connected({.port = 1, .path_mtu = 1024, .traffic_class = 104}), "");
  EXPECT_THAT(connected({.port = 2}), HasSubstr("is reached by port 1 of"));
  EXPECT_THAT(connected({.path_mtu = 2048}), HasSubstr("has a path MTU of 1024 bytes, not 2048"));
  const std::string gid_index = memory_->device().facts[3].second;
  EXPECT_EQ(connected({.gid_index = std::stoi(gid_index)}), "") << gid_index;
}

// The device does nothing of the sort: what its thread does with events is called by hand.
TEST_F(VerbsTest, WhatADeviceReportsIsCounted) {
  EXPECT_EQ(memory_->device().facts.front().first, "device");
  EXPECT_EQ(memory_->device().facts, compute_->device().facts);
  const std::shared_ptr<Device> device = Device::Find("").value();
  DeviceEvents& events = device->events();
  events.Note(IBV_EVENT_PORT_ERR, 1);
  events.Note(IBV_EVENT_PORT_ACTIVE, 1);
  events.Note(IBV_EVENT_PORT_ACTIVE, 1);
  for (const DeviceStat& stat : {memory_->device(), compute_->device()}) {
    EXPECT_EQ(stat.trouble, "") << "the port is up";
    EXPECT_EQ(stat.events.at(ibv_event_type_str(IBV_EVENT_PORT_ERR)), 1u);
    EXPECT_EQ(stat.events.at(ibv_event_type_str(IBV_EVENT_PORT_ACTIVE)), 2u);
  }
}
}  // namespace
}  // namespace gossamer::verbs
