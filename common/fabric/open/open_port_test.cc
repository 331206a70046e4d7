#include "common/fabric/open/open_port.h"

#include <gtest/gtest.h>

namespace gossamer {
namespace {

MemoryPortOptions SmallMemory() {
  MemoryPortOptions options;
  options.region_bytes = options.lock_table_bytes = 4096;
  options.in_process_only = true;
  return options;
}

ComputePortOptions OneClient() {
  ComputePortOptions options;
  options.client_uuid = 1;
  return options;
}

// Sockets would take 0 as no bound, and poll the greatest values.
TEST(OpenPort, ATimeoutIsABound) {
  for (const uint32_t timeout_ms : {0u, ~0u}) {
    MemoryPortOptions memory = SmallMemory();
    memory.connection_timeout_ms = timeout_ms;
    const auto memory_port = OpenMemoryPort(FabricKind::kShm, memory);
    ASSERT_FALSE(memory_port);
    EXPECT_EQ(memory_port.error().code, Code::kInvalidArgument);
    ComputePortOptions compute = OneClient();
    compute.connection_timeout_ms = timeout_ms;
    const auto compute_port = OpenComputePort(FabricKind::kShm, compute);
    ASSERT_FALSE(compute_port);
    EXPECT_EQ(compute_port.error().code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(OpenMemoryPort(FabricKind::kShm, SmallMemory()));
  EXPECT_TRUE(OpenComputePort(FabricKind::kShm, OneClient()));
}

TEST(OpenPort, AComputeServerHasAUuid) {
  EXPECT_EQ(OpenComputePort(FabricKind::kShm, ComputePortOptions{}).error().code,
            Code::kInvalidArgument);
}

TEST(OpenPort, ProgramsCannotAskForTheSimulator) {
  EXPECT_FALSE(ParseFabricKind("sim"));
  EXPECT_EQ(FabricKindName(FabricKind::kSim), "sim");
  EXPECT_FALSE(OpenMemoryPort(FabricKind::kSim, SmallMemory()));
  EXPECT_FALSE(OpenComputePort(FabricKind::kSim, OneClient()));
}

}  // namespace
}  // namespace gossamer
