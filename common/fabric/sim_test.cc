// The simulated network: what it does beside what the conformance suite asks of every fabric.
#include "common/fabric/sim.h"

#include <gtest/gtest.h>

namespace gossamer::test {
namespace {

TEST(SimFaultsTest, ListsAreParsed) {
  EXPECT_EQ(SimFaultsText(ParseSimFaults("none").value()), "none");
  EXPECT_EQ(SimFaultsText(ParseSimFaults("all").value()),
            "tear,delay,reorder,write_back,break,kill,pause");
  EXPECT_EQ(SimFaultsText(ParseSimFaults("pause,tear").value()), "tear,pause");
  for (const char* bad : {"", "tears", "tear,", ",tear", "tear;kill", "none,tear"}) {
    EXPECT_FALSE(ParseSimFaults(bad)) << bad;
  }
}

TEST(SimFabricTest, ProgramsCannotAskForIt) {
  EXPECT_FALSE(ParseFabricKind("sim"));
  EXPECT_EQ(FabricKindName(FabricKind::kSim), "sim");
  MemoryPortOptions memory;
  memory.region_bytes = memory.lock_table_bytes = 4096;
  EXPECT_FALSE(OpenMemoryPort(FabricKind::kSim, memory));
  ComputePortOptions compute;
  compute.client_uuid = 1;
  EXPECT_FALSE(OpenComputePort(FabricKind::kSim, compute));
}

}  // namespace
}  // namespace gossamer::test
