// ShmFabric: the fixture of the shm fabric's tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/memory_port.h"
#include "common/random_id.h"

namespace gossamer::shm {

// Sends empty replies, and counts.
class EmptyHandler final : public ControlHandler {
 public:
  uint32_t Handle(uint64_t, std::span<const std::byte>,
                  std::span<std::byte, kMaxControlBytes>) override {
    return 0;
  }
  void ClientGone(uint64_t) override { ++gone; }
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point) override {
    ++ticks;
    return {};
  }
  void AwaitTicks(int count) const {
    for (const int until = ticks + count; ticks < until;) std::this_thread::yield();
  }

  std::atomic<int> gone = 0;
  std::atomic<int> ticks = 0;
};

inline MemoryPortOptions SmallMemory(const std::string& listen = {}) {
  MemoryPortOptions options;
  options.region_bytes = 65536;
  options.lock_table_bytes = 4096;
  options.listen = listen;
  return options;
}

class ShmFabric : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "gossamer-shm-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path(const std::string& name) const { return directory_ / name; }

  // A running memory server.
  std::unique_ptr<MemoryPort> StartMemory(const MemoryPortOptions& options) {
    auto memory = OpenMemoryPort(options).value();
    EXPECT_TRUE(memory->Start(handler_, RandomId()));
    return memory;
  }
  // Compute server 5, connected to `address`.
  static std::unique_ptr<ComputePort> Connect(const std::string& address) {
    ComputePortOptions options;
    options.client_uuid = 5;
    auto compute = OpenComputePort(options).value();
    EXPECT_TRUE(compute->Connect(ServerId{0}, address));
    return compute;
  }

  EmptyHandler handler_;

 private:
  std::filesystem::path directory_;
};

}  // namespace gossamer::shm
