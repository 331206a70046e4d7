// A memory server that stands still delays nothing of other servers, and every call to it ends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/memory_port.h"
#include "common/random_id.h"

namespace gossamer::shm {
namespace {

constexpr ServerId kSilent{0};
constexpr ServerId kOther{1};

// Blocks in its Tick as long as it is told to.
class StuckHandler final : public ControlHandler {
 public:
  uint32_t Handle(uint64_t, std::span<const std::byte>,
                  std::span<std::byte, kMaxControlBytes>) override {
    return 0;
  }
  void ClientGone(uint64_t) override {}
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point) override {
    while (stuck) {
      stands_still = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  std::atomic<bool> stuck = false;
  std::atomic<bool> stands_still = false;
};

std::unique_ptr<MemoryPort> StartMemory(ControlHandler& handler) {
  MemoryPortOptions options;
  options.region_bytes = 1 << 16;
  options.lock_table_bytes = 64;
  options.in_process_only = true;
  auto memory = OpenMemoryPort(options).value();
  EXPECT_TRUE(memory->Start(handler, RandomId()));
  return memory;
}

TEST(ShmSilent, WhileAServerDoesNotAnswerOthersAreServed) {
  StuckHandler handler;
  StuckHandler other_handler;
  const auto memory = StartMemory(handler);
  const auto other_memory = StartMemory(other_handler);
  ComputePortOptions options;
  options.client_uuid = 5;
  options.connection_timeout_ms = 60'000;
  const auto compute = OpenComputePort(options).value();
  ASSERT_TRUE(compute->Connect(kSilent, memory->address()));
  ASSERT_TRUE(compute->Connect(kOther, other_memory->address()));
  const auto endpoint = compute->NewEndpoint().value();
  handler.stuck = true;
  while (!handler.stands_still) std::this_thread::yield();

  QueuePairRequest request;
  request.server = kSilent;
  Completion asked{1, std::noop_coroutine()};
  request.completion = &asked;
  endpoint->Post(request);
  const BufferLease buffer = endpoint->buffers().Allocate(64).value();
  for (int i = 0; i < 100; ++i) {
    InlineBatch<1> batch(kOther);
    batch.Add(Verb::Read(0, 64, buffer.address()));
    Completion done{1, std::noop_coroutine()};
    batch.completion = &done;
    endpoint->Post(batch);
    while (done.remaining != 0) endpoint->Poll();
    ASSERT_EQ(batch.status(), VerbStatus::kSuccess);
  }
  EXPECT_EQ(asked.remaining, 1u) << "answered by a server that stands still";

  handler.stuck = false;
  while (asked.remaining != 0) endpoint->Poll();
  EXPECT_TRUE(request.status);
}

// More calls than are sent at a time.
TEST(ShmSilent, EveryCallToASilentServerEnds) {
  StuckHandler handler;
  const auto memory = StartMemory(handler);
  ComputePortOptions options;
  options.client_uuid = 5;
  options.connection_timeout_ms = 100;
  const auto compute = OpenComputePort(options).value();
  ASSERT_TRUE(compute->Connect(kSilent, memory->address()));
  const auto endpoint = compute->NewEndpoint().value();
  ASSERT_TRUE(endpoint->Attach(kSilent));
  handler.stuck = true;
  while (!handler.stands_still) std::this_thread::yield();

  std::array<ControlCall, 100> calls;
  Completion done{calls.size(), std::noop_coroutine()};
  for (ControlCall& call : calls) {
    call.server = kSilent;
    call.request_bytes = 8;
    call.completion = &done;
    endpoint->Post(call);
  }
  while (done.remaining != 0) endpoint->Poll();
  for (const ControlCall& call : calls) EXPECT_EQ(call.status, VerbStatus::kUnknown);
  handler.stuck = false;
}

}  // namespace
}  // namespace gossamer::shm
