// shm behaviour that the conformance suite cannot see: limits, descriptions, servers that end or
// restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/fabric/shm/test_fixture.h"

namespace gossamer::shm {
namespace {

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
  EXPECT_EQ(batch.status(), VerbStatus::kFlushed);
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
  // A restarted server can be connected to as another server.
  ASSERT_TRUE(compute->Connect(ServerId{1}, path));
}

}  // namespace
}  // namespace gossamer::shm
