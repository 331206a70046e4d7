#include "common/embedded_memory.h"

#include "memory/chunk_allocator.h"
#include "memory/kept_region.h"
#include "memory/memory_server.h"

namespace gossamer {

Result<std::unique_ptr<EmbeddedRegion>> NewEmbeddedRegion(uint64_t memory_bytes) {
  BOOST_OUTCOME_TRY(region,
                    RegionInMemory::New(memory_bytes, ChunkAllocator::MapBytes(memory_bytes)));
  return std::unique_ptr<EmbeddedRegion>(std::move(region));
}

Result<std::unique_ptr<EmbeddedMemory>> StartEmbeddedMemory(const EmbeddedMemoryOptions& options) {
  MemoryServerOptions server{options};
  server.in_process_only = options.region.empty();
  if (options.network != nullptr) server.fabric = FabricKind::kSim;
  BOOST_OUTCOME_TRY(started, MemoryServer::Start(server));
  return std::unique_ptr<EmbeddedMemory>(std::move(started));
}

Result<std::vector<std::unique_ptr<EmbeddedMemory>>> StartSimulatedMemory(
    EmbeddedMemoryOptions each, uint32_t servers, StoreRecord& record,
    std::optional<uint64_t> bytes_of_first, std::vector<std::unique_ptr<EmbeddedRegion>>* kept) {
  std::vector<std::unique_ptr<EmbeddedMemory>> started;
  record.fabric = FabricKindName(FabricKind::kSim);
  record.parameters = each.parameters;
  const uint64_t bytes = each.memory_bytes;
  for (uint32_t i = 0; i < servers; ++i) {
    each.memory_bytes = i == 0 ? bytes_of_first.value_or(bytes) : bytes;
    each.identity = {record.store_id, i + 1, static_cast<ServerId>(i)};
    if (kept != nullptr) {
      BOOST_OUTCOME_TRY(region, NewEmbeddedRegion(each.memory_bytes));
      each.kept = kept->emplace_back(std::move(region)).get();
    }
    BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(each));
    record.servers.push_back({each.identity.server, each.identity.incarnation, "sim", "sim",
                              memory->address(),
                              kept == nullptr ? std::string() : std::string(kKeptInMemory)});
    started.push_back(std::move(memory));
  }
  record.next_server = static_cast<uint16_t>(servers);
  return started;
}

}  // namespace gossamer
