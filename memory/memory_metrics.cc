#include "memory/memory_metrics.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/admin/device_state.h"
#include "common/admin/metrics.h"
#include "common/process.h"

namespace gossamer {
namespace {

std::string_view LockTablePlace(const control::StatReply& stat) {
  return stat.lock_table_on_chip != 0 ? "device" : "dram";
}

}  // namespace

std::vector<prometheus::MetricFamily> MemoryFamilies(const MemoryReport& report) {
  const control::StatReply& stat = report.stat;
  const std::string server = std::to_string(report.server);
  Families families;
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t value) {
    families.Gauge(name, help).Add({{"store", report.store}, {"server", server}}, value);
  };
  MetricFamilyBuilder info =
      families.Gauge("gossamer_memory_info",
                     "Fabric, address and place of the lock table of the memory server; always 1.");
  info.Add({{"store", report.store},
            {"server", server},
            {"fabric", report.fabric},
            {"address", report.address},
            {"lock_table", LockTablePlace(stat)}},
           uint64_t{1});
  if (!report.lock_table.why.empty()) info.Label("lock_table_why", report.lock_table.why);
  gauge("gossamer_memory_heap_bytes", "Memory for nodes and values.", stat.usage.heap_bytes);
  gauge("gossamer_memory_free_bytes", "Memory not handed out to any compute server.",
        stat.usage.free_bytes);
  gauge("gossamer_memory_node_extent_bytes", "Memory handed out for nodes.", stat.usage.node_bytes);
  gauge("gossamer_memory_block_extent_bytes", "Memory handed out for value blocks.",
        stat.usage.block_bytes);
  gauge("gossamer_memory_waiting_bytes",
        "Memory that is freed, but that its owner has not given up yet.", stat.waiting_bytes);
  gauge("gossamer_memory_orphaned_bytes", "Memory of compute servers whose leases have ended.",
        stat.orphaned_bytes);
  gauge("gossamer_memory_extents", "Pieces of memory that are handed out.", stat.extents);
  gauge("gossamer_memory_compute_servers", "Compute servers with a lease in force.",
        stat.compute_servers);
  gauge("gossamer_memory_chunk_bytes", "Unit in which compute servers get memory.",
        report.chunk_bytes);
  gauge("gossamer_memory_lock_table_bytes", "Size of the lock table.", report.lock_table.bytes);
  families
      .Gauge("gossamer_memory_lease_seconds",
             "Time after which a silent compute server loses its lease; 0 if never.")
      .Add({{"store", report.store}, {"server", server}}, report.lease_ms / 1e3);
  if (report.check) {
    gauge("gossamer_memory_checked_bytes",
          "Bytes of nodes that the memory server has checked since it has come back.",
          report.check->bytes);
    gauge("gossamer_memory_damaged_parts",
          "Parts of nodes, and value blocks, that were found damaged then.", report.check->damaged);
  }
  AddDevice(report.device, families);
  return families.Take();
}

nlohmann::ordered_json MemoryState(const MemoryReport& report) {
  using Json = nlohmann::ordered_json;
  const control::StatReply& stat = report.stat;
  Json leases = Json::array();
  for (const ClientInForce& client : report.clients) {
    leases.push_back({{"compute_id", static_cast<uint16_t>(client.lease.compute)},
                      {"incarnation", client.lease.incarnation},
                      {"process", Describe(client.process)},
                      {"memory_bytes", client.granted_bytes}});
  }
  Json server = {{"id", report.server},
                 {"address", report.address},
                 {"heap_bytes", stat.usage.heap_bytes},
                 {"free_bytes", stat.usage.free_bytes},
                 {"node_bytes", stat.usage.node_bytes},
                 {"block_bytes", stat.usage.block_bytes},
                 {"waiting_bytes", stat.waiting_bytes},
                 {"orphaned_bytes", stat.orphaned_bytes},
                 {"compute_servers", stat.compute_servers},
                 {"chunk_bytes", report.chunk_bytes},
                 {"extents", stat.extents},
                 {"lock_table", LockTablePlace(stat)},
                 {"lock_table_bytes", report.lock_table.bytes},
                 {"lease_ms", report.lease_ms}};
  if (!report.lock_table.why.empty()) server["lock_table_why"] = report.lock_table.why;
  if (report.check) {
    server["check"] = {{"bytes", report.check->bytes},
                       {"total_bytes", report.check->total_bytes},
                       {"damaged", report.check->damaged},
                       {"is_over", report.check->is_over}};
  }
  if (!report.device.facts.empty()) server["device"] = DeviceState(report.device);
  return {{"store", report.store},
          {"fabric", report.fabric},
          {"servers", Json::array({server})},
          {"leases", std::move(leases)}};
}

ProgramAdmin::Served ServedBy(const MemoryServer& server) {
  return {.families = [&server] { return MemoryFamilies(server.Report()); },
          .state = [&server] { return MemoryState(server.Report()); },
          .readiness = [&server] { return DeviceReadiness(server.Device()); }};
}

}  // namespace gossamer
