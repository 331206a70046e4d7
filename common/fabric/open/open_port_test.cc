#include "common/fabric/open/open_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gossamer {
namespace {

using ::testing::HasSubstr;

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

TEST(OpenPort, OnlyVerbsHasADevice) {
  const RdmaOptions wrong[] = {{.device = "mlx5_0"},
                               {.port = 1},
                               {.gid_index = 0},
                               {.path_mtu = 1024},
                               {.traffic_class = 0}};
  for (const RdmaOptions& rdma : wrong) {
    const Status checked = CheckRdmaOptions(FabricKind::kShm, rdma);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
    EXPECT_THAT(checked.error().message, HasSubstr("only --fabric=verbs has a device"));
    EXPECT_TRUE(CheckRdmaOptions(FabricKind::kVerbs, rdma)) << checked.error().message;
    MemoryPortOptions memory = SmallMemory();
    memory.rdma = rdma;
    EXPECT_FALSE(OpenMemoryPort(FabricKind::kShm, memory));
    ComputePortOptions compute = OneClient();
    compute.rdma = rdma;
    EXPECT_FALSE(OpenComputePort(FabricKind::kShm, compute));
  }
}

TEST(OpenPort, NoDeviceHasThese) {
  const std::pair<RdmaOptions, std::string> cases[] = {
      {{.port = 256}, "--ib_port=256: ports have the numbers 1 to 255"},
      {{.gid_index = -2}, "--gid_index=-2: give 0 to 255"},
      {{.gid_index = 256}, "--gid_index=256: give 0 to 255"},
      {{.path_mtu = 1500}, "--path_mtu=1500: give 256, 512, 1024, 2048 or 4096"},
      {{.path_mtu = 128}, "--path_mtu=128"},
      {{.path_mtu = 8192}, "--path_mtu=8192"},
      {{.traffic_class = 256}, "--traffic_class=256: give 0 to 255"},
      {{.traffic_class = -2}, "--traffic_class=-2"}};
  for (const auto& [rdma, sentence] : cases) {
    const Status checked = CheckRdmaOptions(FabricKind::kVerbs, rdma);
    ASSERT_FALSE(checked) << sentence;
    EXPECT_THAT(checked.error().message, HasSubstr(sentence));
  }
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
