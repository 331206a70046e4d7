// The verbs fabric by itself, where there is an RDMA device (scripts/soft_roce run): what it does
// when memory servers and compute servers come and go. What all fabrics have in common is in
// conformance_test.cc, what needs no device in verbs_wire_test.cc.

#include "common/fabric/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "common/fabric/scheduler.h"
#include "common/fabric/verbs_address.h"
#include "common/fabric/verbs_connect.h"
#include "common/fabric/verbs_endpoint.h"
#include "common/fabric/verbs_resources.h"
#include "common/fabric/verbs_wire.h"

namespace gossamer::verbs {
namespace {

using ::testing::HasSubstr;

constexpr ServerId kServer{3};
constexpr uint64_t kRegionBytes = 4 << 20;
constexpr uint64_t kLockTableBytes = 64 << 10;

ComputePortOptions Client(uint64_t uuid) {
  ComputePortOptions options;
  options.client_uuid = uuid;
  return options;
}

std::string ListenAddress() {
  const char* address = std::getenv("SOFT_ROCE_ADDRESS");
  const char* listen = std::getenv("GOSSAMER_TEST_LISTEN");
  if (listen != nullptr) return listen;
  return address != nullptr ? std::string(address) + ":0" : std::string();
}

MemoryPortOptions MemoryOptions() {
  MemoryPortOptions options;
  options.region_bytes = kRegionBytes;
  options.lock_table_bytes = kLockTableBytes;
  options.listen = ListenAddress();
  return options;
}

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

// Echoes backwards; remembers who is gone.
class Backwards final : public ControlHandler {
 public:
  uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                  std::span<std::byte, kMaxControlBytes> reply) override {
    last_client = client_uuid;
    usleep(delay_ms * 1000);
    std::reverse_copy(request.begin(), request.end(), reply.begin());
    return static_cast<uint32_t>(request.size());
  }
  void ClientGone(uint64_t client_uuid) override {
    const std::lock_guard lock(mutex_);
    ++gone_[client_uuid];
  }
  int gone(uint64_t client_uuid) {
    const std::lock_guard lock(mutex_);
    return gone_[client_uuid];
  }
  bool WaitUntilGone(uint64_t client_uuid) {
    for (int i = 0; i < 1000 && gone(client_uuid) == 0; ++i) usleep(10'000);
    return gone(client_uuid) != 0;
  }
  std::atomic<uint64_t> last_client = 0;
  std::atomic<uint32_t> delay_ms = 0;

 private:
  std::mutex mutex_;
  std::map<uint64_t, int> gone_;
};

// A memory server, and a client of it, in this process.
class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<std::unique_ptr<ComputePort>> probe = OpenComputePort(Client(1));
    if (!probe || ListenAddress().empty()) GTEST_SKIP() << "no RDMA device";
    Serve(MemoryOptions());
  }

  void Serve(const MemoryPortOptions& options) {
    Result<std::unique_ptr<MemoryPort>> memory = OpenMemoryPort(options);
    ASSERT_TRUE(memory) << memory.error().ToString();
    memory_ = std::move(memory.value());
    ASSERT_TRUE(memory_->Start(handler_));
    Connect();
  }

  void Connect() {
    Result<std::unique_ptr<ComputePort>> compute = OpenComputePort(Client(kUuid));
    ASSERT_TRUE(compute) << compute.error().ToString();
    compute_ = std::move(compute.value());
    const Status connected = compute_->Connect(kServer, memory_->address());
    ASSERT_TRUE(connected) << connected.error().ToString();
    Result<std::unique_ptr<Endpoint>> endpoint = compute_->NewEndpoint();
    ASSERT_TRUE(endpoint) << endpoint.error().ToString();
    endpoint_ = std::move(endpoint.value());
    buffer_ = endpoint_->buffers().Allocate(64 << 10).value();
  }

  void Run(Batch& batch) { RunOn(*endpoint_, batch); }
  static void RunOn(Endpoint& endpoint, Batch& batch) {
    Completion completion{1, {}};
    batch.completion = &completion;
    endpoint.Post(batch);
    while (completion.remaining != 0) endpoint.Poll();
  }
  void Run(ControlCall& call) {
    Completion completion{1, {}};
    call.completion = &completion;
    endpoint_->Post(call);
    while (completion.remaining != 0) endpoint_->Poll();
  }

  static constexpr uint64_t kUuid = 77;
  Backwards handler_;
  std::unique_ptr<MemoryPort> memory_;
  std::unique_ptr<ComputePort> compute_;
  std::unique_ptr<Endpoint> endpoint_;
  BufferLease buffer_;
};

TEST_F(VerbsTest, WritesReadsSwapsAndAdds) {
  const LocalAddress local = buffer_.address();
  for (size_t i = 0; i < 8192; ++i) local.data[i] = static_cast<std::byte>(i * 7);
  InlineBatch<8> batch(kServer);
  batch.Add(Verb::Write(4096, 8192, local));
  batch.Add(Verb::Write(100, 50, local));  // inline
  batch.Add(Verb::CompareSwap(Space::kLockTable, 8, 0, 42, local + 16384));
  batch.Add(Verb::FetchAdd(Space::kLockTable, 8, 3, local + 16392));
  batch.Add(Verb::Read(4096, 8192, local + 20480));
  batch.Add(Verb::Read(kRegionBytes, 0, local));
  batch.Add(Verb::Write(0, 0, local));
  Run(batch);
  ASSERT_EQ(batch.status(), VerbStatus::kSuccess) << VerbStatusName(batch.status());
  EXPECT_EQ(batch.verbs()[2].old_value(), 0u);
  EXPECT_EQ(batch.verbs()[3].old_value(), 42u);
  EXPECT_EQ(std::memcmp(local.data, local.data + 20480, 8192), 0);
  EXPECT_EQ(std::memcmp(memory_->region().data() + 100, local.data, 50), 0);
  EXPECT_EQ(endpoint_->limits().path_mtu % 256, 0u);
  EXPECT_GE(endpoint_->limits().max_batch_verbs, 64u);
}

TEST_F(VerbsTest, MoreThanTheSendQueueHolds) {
  const Limits& limits = endpoint_->limits();
  constexpr size_t kBatches = 200;
  constexpr uint32_t kVerbs = 16;
  std::vector<std::unique_ptr<InlineBatch<kVerbs>>> batches;
  Completion completion{kBatches, {}};
  for (size_t i = 0; i < kBatches; ++i) {
    auto batch = std::make_unique<InlineBatch<kVerbs>>(kServer);
    for (uint32_t j = 0; j < kVerbs; ++j) {
      batch->Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer_.address((i * kVerbs + j) * 8)));
    }
    batch->completion = &completion;
    endpoint_->Post(*batch);
    batches.push_back(std::move(batch));
  }
  ASSERT_GT(kBatches * kVerbs, limits.max_outstanding_verbs);
  while (completion.remaining != 0) endpoint_->Poll();
  uint64_t expected = 0;
  for (const auto& batch : batches) {
    for (const Verb& verb : batch->verbs()) {
      ASSERT_EQ(verb.status, VerbStatus::kSuccess);
      ASSERT_EQ(verb.old_value(), expected++);
    }
  }
}

class OneVerbAtATimeTest : public VerbsTest {
 protected:
  void SetUp() override {
    const Result<std::unique_ptr<ComputePort>> probe = OpenComputePort(Client(1));
    if (!probe || ListenAddress().empty()) GTEST_SKIP() << "no RDMA device";
    MemoryPortOptions options = MemoryOptions();
    options.one_verb_at_a_time = true;
    Serve(options);
  }
  uint64_t doorbells() const { return dynamic_cast<VerbsEndpoint&>(*endpoint_).doorbells(); }
};

TEST_F(VerbsTest, ABatchCostsOneDoorbell) {
  InlineBatch<3> batch(kServer);
  for (uint32_t i = 0; i < 3; ++i) {
    batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer_.address(i * 8)));
  }
  Run(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
  EXPECT_EQ(dynamic_cast<VerbsEndpoint&>(*endpoint_).doorbells(), 1u);
}

TEST_F(OneVerbAtATimeTest, EachVerbCostsADoorbellAndKeepsItsPlace) {
  constexpr size_t kBatches = 10;
  constexpr uint32_t kVerbs = 5;
  std::vector<std::unique_ptr<InlineBatch<kVerbs>>> batches;
  Completion completion{kBatches, {}};
  for (size_t i = 0; i < kBatches; ++i) {
    auto batch = std::make_unique<InlineBatch<kVerbs>>(kServer);
    for (uint32_t j = 0; j < kVerbs; ++j) {
      batch->Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer_.address((i * kVerbs + j) * 8)));
    }
    batch->completion = &completion;
    endpoint_->Post(*batch);
    batches.push_back(std::move(batch));
    EXPECT_EQ(doorbells(), 1u) << "posted without waiting";
  }
  while (completion.remaining != 0) endpoint_->Poll();
  EXPECT_EQ(doorbells(), kBatches * kVerbs);
  uint64_t expected = 0;
  for (const auto& batch : batches) {
    ASSERT_EQ(batch->status(), VerbStatus::kSuccess);
    for (const Verb& verb : batch->verbs()) ASSERT_EQ(verb.old_value(), expected++);
  }
}

TEST_F(OneVerbAtATimeTest, WhatIsBehindAFailureIsNeverPosted) {
  const LocalAddress local = buffer_.address();
  InlineBatch<4> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 5, local));
  batch.Add(Verb::FetchAdd(Space::kLockTable, kLockTableBytes, 5, local + 64));
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 7, local + 128));
  InlineBatch<1> behind(kServer);
  behind.Add(Verb::FetchAdd(Space::kLockTable, 0, 9, local + 192));
  Completion completion{2, {}};
  batch.completion = behind.completion = &completion;
  endpoint_->Post(batch);
  endpoint_->Post(behind);
  while (completion.remaining != 0) endpoint_->Poll();
  EXPECT_EQ(batch.verbs()[0].status, VerbStatus::kSuccess);
  EXPECT_EQ(batch.verbs()[1].status, VerbStatus::kRemoteAccess);
  EXPECT_EQ(batch.verbs()[2].status, VerbStatus::kFlushed);
  EXPECT_EQ(behind.status(), VerbStatus::kFlushed);
  EXPECT_EQ(doorbells(), 2u);
  const Status reconnected = endpoint_->Reconnect(kServer);
  ASSERT_TRUE(reconnected) << reconnected.error().ToString();
  InlineBatch<1> after(kServer);
  after.Add(Verb::FetchAdd(Space::kLockTable, 0, 0, local));
  Run(after);
  EXPECT_EQ(after.status(), VerbStatus::kSuccess);
  EXPECT_EQ(after.verbs()[0].old_value(), 5u);
}

TEST_F(VerbsTest, AnswersControlCallsInOrder) {
  Scheduler scheduler(*endpoint_);
  int answered = 0;
  auto call = [](Endpoint& endpoint, int number, int& count) -> Task<void> {
    ControlCall control;
    control.server = kServer;
    control.request_bytes = static_cast<uint32_t>(number % 257);
    std::memset(control.request.data(), number, control.request_bytes);
    if (control.request_bytes > 0) control.request[0] = std::byte{1};
    co_await endpoint.Execute(control);
    EXPECT_EQ(control.status, VerbStatus::kSuccess);
    EXPECT_EQ(control.reply_bytes, control.request_bytes);
    if (control.reply_bytes > 1) {
      EXPECT_EQ(control.reply[0], static_cast<std::byte>(number));
      EXPECT_EQ(control.reply[control.reply_bytes - 1], std::byte{1});
    }
    ++count;
  };
  for (int i = 0; i < 300; ++i) scheduler.Spawn(call(*endpoint_, i, answered));
  scheduler.RunUntil(0);
  EXPECT_EQ(answered, 300);
  EXPECT_EQ(handler_.last_client, kUuid);
}

TEST_F(VerbsTest, ARefusedVerbBreaksUntilReconnect) {
  const LocalAddress local = buffer_.address();
  InlineBatch<4> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 5, local));
  batch.Add(Verb::Read(kRegionBytes - 8, 16, local + 64));
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 7, local + 128));
  batch.Add(Verb::Write(0, 8, local + 192));
  Run(batch);
  EXPECT_EQ(batch.verbs()[0].status, VerbStatus::kSuccess);
  EXPECT_EQ(batch.verbs()[1].status, VerbStatus::kRemoteAccess);
  EXPECT_EQ(batch.verbs()[2].status, VerbStatus::kFlushed);
  EXPECT_EQ(batch.verbs()[3].status, VerbStatus::kFlushed);
  InlineBatch<1> later(kServer);
  later.Add(Verb::Read(0, 8, local));
  Run(later);
  EXPECT_EQ(later.status(), VerbStatus::kFlushed);

  for (int i = 0; i < 3; ++i) {
    const Status reconnected = endpoint_->Reconnect(kServer);
    ASSERT_TRUE(reconnected) << reconnected.error().ToString();
    InlineBatch<1> after(kServer);
    after.Add(Verb::FetchAdd(Space::kLockTable, 0, 0, local));
    Run(after);
    ASSERT_EQ(after.status(), VerbStatus::kSuccess);
    EXPECT_EQ(after.verbs()[0].old_value(), 5u);
  }
  EXPECT_EQ(handler_.gone(kUuid), 0);
}

TEST_F(VerbsTest, MisalignedAtomicsAreRefused) {
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kLockTable, 4, 1, buffer_.address()));
  Run(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kRemoteAccess);
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

// The connection manager takes probes that meet for one and the same.
TEST_F(VerbsTest, ManyComputePortsConnectAtOnce) {
  constexpr int kThreads = 6, kRounds = 10;
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const auto port = OpenComputePort(Client(1000 + static_cast<uint64_t>(i)));
        const Status connected = port.value()->Connect(kServer, memory_->address());
        const std::lock_guard lock(mutex);
        if (!connected) errors.push_back(connected.error().ToString());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, ::testing::IsEmpty());
}

TEST_F(VerbsTest, ManyThreadsAddTogether) {
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Result<std::unique_ptr<Endpoint>> endpoint = compute_->NewEndpoint();
      if (!endpoint) {
        ++failures;
        return;
      }
      const BufferLease lease = endpoint.value()->buffers().Allocate(64).value();
      for (int round = 0; round < kRounds; ++round) {
        InlineBatch<1> batch(kServer);
        batch.Add(Verb::FetchAdd(Space::kRegion, 64, 1, lease.address()));
        RunOn(*endpoint.value(), batch);
        if (batch.status() != VerbStatus::kSuccess) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  uint64_t sum;
  std::memcpy(&sum, memory_->region().data() + 64, sizeof sum);
  EXPECT_EQ(sum, uint64_t{kThreads * kRounds});
}

// A stopped server breaks what it is asked, within the bound; a new one in its place is another.
TEST_F(VerbsTest, AStoppedServerIsLost) {
  memory_->Stop();
  InlineBatch<2> batch(kServer);
  batch.Add(Verb::Read(0, 8, buffer_.address()));
  batch.Add(Verb::Read(0, 8, buffer_.address(64)));
  Run(batch);
  EXPECT_EQ(batch.verbs()[0].status, VerbStatus::kUnknown) << VerbStatusName(batch.status());
  EXPECT_EQ(batch.verbs()[1].status, VerbStatus::kFlushed);
  Status reconnected = endpoint_->Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable) << reconnected.error().ToString();

  MemoryPortOptions options = MemoryOptions();
  options.listen = memory_->address();
  memory_.reset();
  Result<std::unique_ptr<MemoryPort>> other = OpenMemoryPort(options);
  ASSERT_TRUE(other) << other.error().ToString();
  ASSERT_TRUE(other.value()->Start(handler_));
  reconnected = endpoint_->Reconnect(kServer);
  ASSERT_FALSE(reconnected);
  EXPECT_THAT(reconnected.error().message, HasSubstr("taken its place"));
}

TEST_F(VerbsTest, ACallToAStoppedServerIsLost) {
  memory_->Stop();
  ControlCall call;
  call.server = kServer;
  call.request_bytes = 8;
  Run(call);
  EXPECT_EQ(call.status, VerbStatus::kUnknown);
}

// A client that is killed in the middle of its WRITEs is gone, and none of them lands any more.
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

// A client whose machine vanished: its queue pair answers no more, and it says no goodbye.
TEST_F(VerbsTest, ASilentClientIsGone) {
  const ComputePortOptions options = Client(55);
  const Peer peer =
      ProbePeer(ParseSocketAddress(memory_->address()).value(), nullptr, options).value();
  const CompletionQueue queue(ibv_create_cq(peer.device->verbs(), 64, nullptr, nullptr, 0));
  Connection connection = PrepareConnection(peer, queue.get(), options).value();
  ASSERT_TRUE(EstablishConnection(connection, peer, 0, options));
  usleep(1'500'000);  // asked for life once, and answered
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
    const Status started = taken.value()->Start(handler_);
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
  options.device = "mlx5_9";
  EXPECT_THAT(OpenMemoryPort(options).error().message, HasSubstr("no RDMA device 'mlx5_9'"));

  std::string nobody = memory_->address();
  nobody = nobody.substr(0, nobody.rfind(':')) + ":1";
  const Status unreachable = compute_->Connect(ServerId{4}, nobody);
  ASSERT_FALSE(unreachable);
  EXPECT_EQ(unreachable.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(unreachable.error().message, HasSubstr("nobody listens"));
  EXPECT_EQ(endpoint_->Attach(ServerId{9}).error().code, Code::kInvalidArgument);
}

TEST_F(VerbsTest, SeveralServers) {
  constexpr int kServers = 6;
  std::vector<std::unique_ptr<MemoryPort>> ports;
  for (uint16_t i = 0; i < kServers; ++i) {
    MemoryPortOptions options = MemoryOptions();
    options.region_bytes = 64 << 10;
    Result<std::unique_ptr<MemoryPort>> port = OpenMemoryPort(options);
    ASSERT_TRUE(port) << port.error().ToString();
    ASSERT_TRUE(port.value()->Start(handler_));
    const ServerId id{static_cast<uint16_t>(100 + i)};
    ASSERT_TRUE(compute_->Connect(id, port.value()->address()));
    const Status attached = endpoint_->Attach(id);
    ASSERT_TRUE(attached) << attached.error().ToString();
    ports.push_back(std::move(port.value()));
  }
  std::vector<std::unique_ptr<InlineBatch<1>>> batches;
  Completion completion{kServers, {}};
  for (uint16_t i = 0; i < kServers; ++i) {
    const uint64_t value = i + uint64_t{1000};
    std::memcpy(buffer_.data() + 64 * i, &value, sizeof value);
    auto batch = std::make_unique<InlineBatch<1>>(ServerId{static_cast<uint16_t>(100 + i)});
    batch->Add(Verb::Write(8, 8, buffer_.address(size_t{64} * i)));
    batch->completion = &completion;
    endpoint_->Post(*batch);
    batches.push_back(std::move(batch));
  }
  while (completion.remaining != 0) endpoint_->Poll();
  for (uint16_t i = 0; i < kServers; ++i) {
    EXPECT_EQ(batches[i]->status(), VerbStatus::kSuccess);
    uint64_t value;
    std::memcpy(&value, ports[i]->region().data() + 8, sizeof value);
    EXPECT_EQ(value, i + uint64_t{1000});
  }
  buffer_ = {};
  endpoint_.reset();
}

}  // namespace
}  // namespace gossamer::verbs
