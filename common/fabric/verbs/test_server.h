// VerbsTest: a memory server on an RDMA device and its client, both in the test's process. Skips
// without a device.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/fabric/verbs/compute_port.h"
#include "common/fabric/verbs/memory_port.h"
#include "common/random_id.h"

namespace gossamer::verbs {

inline constexpr ServerId kServer{3};
inline constexpr uint64_t kRegionBytes = 4 << 20;
inline constexpr uint64_t kLockTableBytes = 64 << 10;

inline ComputePortOptions Client(uint64_t uuid) {
  ComputePortOptions options;
  options.client_uuid = uuid;
  return options;
}

inline std::string ListenAddress() {
  const char* address = std::getenv("SOFT_ROCE_ADDRESS");
  const char* listen = std::getenv("GOSSAMER_TEST_LISTEN");
  if (listen != nullptr) return listen;
  return address != nullptr ? std::string(address) + ":0" : std::string();
}

inline MemoryPortOptions MemoryOptions() {
  MemoryPortOptions options;
  options.region_bytes = kRegionBytes;
  options.lock_table_bytes = kLockTableBytes;
  options.listen = ListenAddress();
  return options;
}

// Replies with the request reversed; records which clients are gone.
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
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point) override {
    ++ticks;
    return {};
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
  std::atomic<int> ticks = 0;

 private:
  std::mutex mutex_;
  std::map<uint64_t, int> gone_;
};

// A memory server and its client in this process.
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
    ASSERT_TRUE(memory_->Start(handler_, RandomId()));
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

}  // namespace gossamer::verbs
