// What the conformance suite cannot see of the shm fabric: limits, descriptions, servers that end or are started anew.
#include "common/fabric/shm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/fabric/shm_test_fixture.h"

namespace gossamer::shm {
namespace {

// 0 would be no bound at all for sockets, and the greatest ones none for poll.
TEST_F(ShmFabric, ATimeoutIsABound) {
  for (const uint32_t timeout_ms : {0u, ~0u}) {
    MemoryPortOptions memory = SmallMemory(Path("a.sock"));
    memory.connection_timeout_ms = timeout_ms;
    const auto memory_port = gossamer::OpenMemoryPort(FabricKind::kShm, memory);
    ASSERT_FALSE(memory_port);
    EXPECT_EQ(memory_port.error().code, Code::kInvalidArgument);
    ComputePortOptions compute;
    compute.client_uuid = 1;
    compute.connection_timeout_ms = timeout_ms;
    const auto compute_port = gossamer::OpenComputePort(FabricKind::kShm, compute);
    ASSERT_FALSE(compute_port);
    EXPECT_EQ(compute_port.error().code, Code::kInvalidArgument);
  }
}

TEST_F(ShmFabric, SaysWhatItsMemoryIs) {
  for (const bool in_process_only : {false, true}) {
    for (const bool huge_pages : {false, true}) {
      MemoryPortOptions options = SmallMemory();
      options.region_bytes = uint64_t{4} << 20;
      options.in_process_only = in_process_only;
      options.huge_pages = huge_pages;
      const std::string description = OpenMemoryPort(options).value()->memory_description();
      if (huge_pages) {
        EXPECT_TRUE(description.starts_with("2 MB pages") ||
                    description.find("(no huge pages:") != std::string::npos)
            << description;
      } else {
        EXPECT_EQ(description, "4 KB pages");
      }
    }
  }
}

TEST_F(ShmFabric, AnEndpointOutlivesItsMemoryServer) {
  auto memory = StartMemory(SmallMemory());
  const auto compute = Connect(memory->address());
  const auto endpoint = compute->NewEndpoint().value();
  memory.reset();
  const BufferLease buffer = endpoint->buffers().Allocate(64).value();
  InlineBatch<1> batch;
  batch.Add(Verb::Read(0, 64, buffer.address()));
  endpoint->Post(batch);
  EXPECT_EQ(endpoint->Poll(), 1U);
  EXPECT_EQ(batch.status(), VerbStatus::kUnknown);
}

TEST_F(ShmFabric, ARestartedServerIsAnotherOne) {
  const std::string path = Path("restart.sock");
  auto memory = StartMemory(SmallMemory(path));
  memory->region()[0] = std::byte{1};
  const auto compute = Connect(path);
  const auto endpoint = compute->NewEndpoint().value();
  memory.reset();
  memory = StartMemory(SmallMemory(path));
  const Status reconnected = endpoint->Reconnect(ServerId{0});
  ASSERT_FALSE(reconnected);
  EXPECT_EQ(reconnected.error().code, Code::kNodeUnreachable);
  EXPECT_THAT(reconnected.error().message, ::testing::HasSubstr("started anew"));
  EXPECT_FALSE(compute->NewEndpoint().value()->IsAttached(ServerId{0}));
  // It is another server, which may be connected to as such.
  ASSERT_TRUE(compute->Connect(ServerId{1}, path));
}

TEST_F(ShmFabric, UuidZeroIsInvalid) {
  EXPECT_EQ(OpenComputePort(ComputePortOptions{}).error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace gossamer::shm
