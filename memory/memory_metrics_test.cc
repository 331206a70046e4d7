#include "memory/memory_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "common/admin/testing/metrics_text.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

MemoryReport Report() {
  MemoryReport report{.store = "s",
                      .server = 3,
                      .fabric = "shm",
                      .address = "/run/a\"b",
                      .chunk_bytes = 4096,
                      .lock_table = {LockTablePlacement::kDram, 512, {}},
                      .lease_ms = 2500};
  report.stat.usage = {
      .heap_bytes = 1000, .free_bytes = 600, .node_bytes = 300, .block_bytes = 100};
  report.stat.waiting_bytes = 20;
  report.stat.orphaned_bytes = 10;
  report.stat.extents = 2;
  report.stat.compute_servers = 1;
  ClientInForce client{.lease = {ComputeId{7}, 2}, .process = {}, .granted_bytes = 300};
  client.process.process_id = 4711;
  client.process.host_bytes = 3;
  std::memcpy(client.process.host, "ant", 3);
  report.clients.push_back(client);
  return report;
}

TEST(MemoryMetricsTest, FamiliesHaveTheGoldenText) {
  const std::string text = prometheus::TextSerializer().Serialize(MemoryFamilies(Report()));
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  std::string samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] != '#') samples += line + "\n";
  }
  EXPECT_EQ(
      samples,
      R"(gossamer_memory_info{store="s",server="3",fabric="shm",address="/run/a\"b",lock_table="dram"} 1
gossamer_memory_heap_bytes{store="s",server="3"} 1000
gossamer_memory_free_bytes{store="s",server="3"} 600
gossamer_memory_node_extent_bytes{store="s",server="3"} 300
gossamer_memory_block_extent_bytes{store="s",server="3"} 100
gossamer_memory_waiting_bytes{store="s",server="3"} 20
gossamer_memory_orphaned_bytes{store="s",server="3"} 10
gossamer_memory_extents{store="s",server="3"} 2
gossamer_memory_compute_servers{store="s",server="3"} 1
gossamer_memory_chunk_bytes{store="s",server="3"} 4096
gossamer_memory_lock_table_bytes{store="s",server="3"} 512
gossamer_memory_lease_seconds{store="s",server="3"} 2.5
)");
}

TEST(MemoryMetricsTest, StateHasTheGoldenText) {
  EXPECT_EQ(
      MemoryState(Report()).dump(),
      R"({"store":"s","fabric":"shm","servers":[{"id":3,"address":"/run/a\"b","heap_bytes":1000,)"
      R"("free_bytes":600,"node_bytes":300,"block_bytes":100,"waiting_bytes":20,"orphaned_bytes":10,)"
      R"("compute_servers":1,"chunk_bytes":4096,"extents":2,"lock_table":"dram","lock_table_bytes":512,"lease_ms":2500}],)"
      R"("leases":[{"compute_id":7,"incarnation":2,"process":"process 4711 on host ant","memory_bytes":300}]})");
}

TEST(MemoryMetricsTest, TellsWhatWasCheckedAfterAReturn) {
  MemoryReport report = Report();
  EXPECT_FALSE(MemoryState(report)["servers"][0].contains("check"));
  report.check = RegionCheck{.bytes = 200, .total_bytes = 300, .damaged = 1, .is_over = false};
  const std::string text = prometheus::TextSerializer().Serialize(MemoryFamilies(report));
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  EXPECT_THAT(text, AllOf(HasSubstr(R"(gossamer_memory_checked_bytes{store="s",server="3"} 200)"),
                          HasSubstr(R"(gossamer_memory_damaged_parts{store="s",server="3"} 1)")));
  EXPECT_EQ(MemoryState(report)["servers"][0]["check"].dump(),
            R"({"bytes":200,"total_bytes":300,"damaged":1,"is_over":false})");
}

TEST(MemoryMetricsTest, TellsOfTheDevice) {
  MemoryReport report = Report();
  EXPECT_FALSE(MemoryState(report)["servers"][0].contains("device"));
  report.device = {.facts = {{"device", "mlx5_0"}, {"link", "100 Gb/s"}},
                   .trouble = "port 1 of mlx5_0 is down",
                   .events = {{"port error", 2}}};
  report.lock_table.why = "mlx5_0 has no memory for locks";
  const std::string text = prometheus::TextSerializer().Serialize(MemoryFamilies(report));
  EXPECT_THAT(ProblemsOfMetrics(text), IsEmpty());
  EXPECT_THAT(text, AllOf(HasSubstr(R"(lock_table_why="mlx5_0 has no memory for locks"} 1)"),
                          HasSubstr(R"(gossamer_device_info{device="mlx5_0",link="100 Gb/s"} 1)"),
                          HasSubstr("gossamer_device_usable 0"),
                          HasSubstr(R"(gossamer_device_events_total{event="port error"} 2)")));
  const nlohmann::ordered_json state = MemoryState(report);
  EXPECT_EQ(state["servers"][0]["device"].dump(),
            R"({"device":"mlx5_0","link":"100 Gb/s","trouble":"port 1 of mlx5_0 is down",)"
            R"("events":{"port error":2}})");
}

}  // namespace
}  // namespace gossamer
