// Tests of the verbs fabric alone, on an RDMA device (scripts/soft_roce run): batches, calls, many
// threads and servers. conformance_test.cc covers what all fabrics share, wire_test.cc what needs
// no device, loss_test.cc the start and end of servers and clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "common/fabric/scheduler.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/test_server.h"
#include "common/fabric/verbs/wire.h"
#include "common/random_id.h"

namespace gossamer::verbs {
namespace {

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

TEST_F(VerbsTest, AServerTellsOfItsDevice) {
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : memory_->device().facts) facts[name] = value;
  EXPECT_EQ(facts["device"], std::getenv("SOFT_ROCE_DEVICE"));
  EXPECT_EQ(facts["port"], "1");
  EXPECT_EQ(facts["gid_type"], "RoCE v2");
  EXPECT_NE(facts["gid_index"], "none");
  EXPECT_EQ(facts["path_mtu"], std::to_string(memory_->path_mtu()));
  EXPECT_EQ(facts["atomics"], "of this device");
  EXPECT_EQ(facts["queue_depth"], std::to_string(endpoint_->limits().max_outstanding_verbs));
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

// Ticks keep leases. A client whose next calls have arrived whenever the last are answered must not
// monopolise the server's thread.
TEST_F(VerbsTest, AClientThatCallsAllTheTimeLeavesOthersTheirTurn) {
  constexpr int kCalls = 500, kCallsPerTurn = 16;
  handler_.delay_ms = 2;  // A turn of so many calls takes longer than the tick interval.
  Scheduler scheduler(*endpoint_);
  auto call = [](Endpoint& endpoint) -> Task<void> {
    ControlCall control;
    control.server = kServer;
    control.request_bytes = 8;
    co_await endpoint.Execute(control);
    EXPECT_EQ(control.status, VerbStatus::kSuccess);
  };
  for (int i = 0; i < kCalls; ++i) scheduler.Spawn(call(*endpoint_));
  const int before = handler_.ticks;
  scheduler.RunUntil(0);
  EXPECT_GE(handler_.ticks - before, kCalls / kCallsPerTurn - 1);
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

// The atomic is done when its answer finds no place on this side: an error of this side says
// nothing about what the server has done.
TEST_F(VerbsTest, WhatFailsOnThisSideMayHaveBeenApplied) {
  LocalAddress unregistered = buffer_.address();
  unregistered.key ^= 0xff00;
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 5, unregistered));
  Run(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kUnknown) << VerbStatusName(batch.status());

  ASSERT_TRUE(endpoint_->Reconnect(kServer));
  InlineBatch<1> after(kServer);
  after.Add(Verb::FetchAdd(Space::kLockTable, 0, 0, buffer_.address()));
  Run(after);
  ASSERT_EQ(after.status(), VerbStatus::kSuccess);
  EXPECT_EQ(after.verbs()[0].old_value(), 5u);
}

TEST_F(VerbsTest, MisalignedAtomicsAreRefused) {
  InlineBatch<1> batch(kServer);
  batch.Add(Verb::FetchAdd(Space::kLockTable, 4, 1, buffer_.address()));
  Run(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kRemoteAccess);
}

// The connection manager takes concurrent probes for the same one.
TEST_F(VerbsTest, ManyComputePortsConnectAtOnce) {
  constexpr int kThreads = 6, kRounds = 10;
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ComputePortOptions options = Client(1000 + static_cast<uint64_t>(i));
      options.connection_timeout_ms = 60'000;  // The server of a guest may have to wait.
      for (int round = 0; round < kRounds; ++round) {
        const auto port = OpenComputePort(options);
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

TEST_F(VerbsTest, SeveralServers) {
  constexpr int kServers = 6;
  std::vector<std::unique_ptr<MemoryPort>> ports;
  for (uint16_t i = 0; i < kServers; ++i) {
    MemoryPortOptions options = MemoryOptions();
    options.region_bytes = 64 << 10;
    Result<std::unique_ptr<MemoryPort>> port = OpenMemoryPort(options);
    ASSERT_TRUE(port) << port.error().ToString();
    ASSERT_TRUE(port.value()->Start(handler_, RandomId()));
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
