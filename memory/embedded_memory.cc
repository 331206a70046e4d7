#include "common/embedded_memory.h"

#include "memory/memory_server.h"

namespace gossamer {

Result<std::unique_ptr<EmbeddedMemory>> StartEmbeddedMemory(const EmbeddedMemoryOptions& options) {
  MemoryServerOptions server;
  server.memory_bytes = options.memory_bytes;
  server.parameters = options.parameters;
  server.chunk_bytes = options.chunk_bytes;
  server.lock_table_bytes = options.lock_table_bytes;
  server.on_chip_locks = options.on_chip_locks;
  server.listen = options.listen;
  if (options.lease_ms != 0) server.lease_ms = options.lease_ms;
  server.in_process_only = true;
  if (options.network != nullptr) {
    server.fabric = FabricKind::kSim;
    server.network = options.network;
  }
  server.identity = options.identity;
  BOOST_OUTCOME_TRY(started, MemoryServer::Start(server, options.bootstrap));
  return std::unique_ptr<EmbeddedMemory>(std::move(started));
}

Result<std::vector<std::unique_ptr<EmbeddedMemory>>> StartSimulatedMemory(
    EmbeddedMemoryOptions each, uint32_t servers, StoreRecord& record,
    std::optional<uint64_t> bytes_of_first) {
  std::vector<std::unique_ptr<EmbeddedMemory>> started;
  record.fabric = FabricKindName(FabricKind::kSim);
  record.parameters = each.parameters;
  const uint64_t bytes = each.memory_bytes;
  for (uint32_t i = 0; i < servers; ++i) {
    each.memory_bytes = i == 0 ? bytes_of_first.value_or(bytes) : bytes;
    each.identity = {static_cast<ServerId>(i), record.store_id, i + 1};
    BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(each));
    record.servers.push_back(
        {each.identity.id, each.identity.incarnation, "sim", "sim", memory->address()});
    started.push_back(std::move(memory));
  }
  record.next_server = static_cast<uint16_t>(servers);
  return started;
}

}  // namespace gossamer
