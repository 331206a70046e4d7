#include "common/fabric/shm/compute_port.h"

#include <algorithm>

#include "common/fabric/shm/endpoint.h"
#include "common/fabric/shm/queue_pair.h"

namespace gossamer::shm {

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) {
  return std::unique_ptr<ComputePort>(std::make_unique<ShmComputePort>(options));
}

Status ShmComputePort::Connect(ServerId server, const std::string& address, uint64_t incarnation) {
  Hello hello;
  hello.kind = HelloKind::kProbe;
  hello.client_uuid = options_.client_uuid;
  hello.incarnation = incarnation;
  Handshake handshake(address, hello, options_.connection_timeout_ms);
  for (;;) {
    BOOST_OUTCOME_TRY(state, handshake.Step());
    if (state == ConnectState::kDone) break;
    handshake.Wait();
  }
  BOOST_OUTCOME_TRY(probe, Accept(server, handshake));
  const std::lock_guard guard(mutex_);
  servers_[server] = {address, probe.incarnation, probe.memory};
  return Ok();
}

Result<std::unique_ptr<Endpoint>> ShmComputePort::NewEndpoint() {
  std::vector<ServerId> servers;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [server, unused] : servers_) servers.push_back(server);
  }
  auto endpoint = std::make_unique<ShmEndpoint>(*this);
  endpoint->AttachAll(servers);
  return endpoint;
}

Result<Handshake> ShmComputePort::StartHandshake(ServerId server, uint64_t old_queue_pair,
                                                 uint64_t other_queue_pair) {
  Hello hello;
  hello.kind = HelloKind::kQueuePair;
  hello.client_uuid = options_.client_uuid;
  hello.old_queue_pair = old_queue_pair;
  hello.other_queue_pair = other_queue_pair;
  const std::lock_guard guard(mutex_);
  const auto found = servers_.find(server);
  if (found == servers_.end()) {
    return NotConnected(server);
  }
  hello.incarnation = found->second.incarnation;
  return Handshake(found->second.address, hello, options_.connection_timeout_ms);
}

Result<QueuePairGrant> ShmComputePort::Accept(ServerId server, Handshake& handshake) {
  const Welcome& welcome = handshake.welcome();
  const std::string& address = handshake.address();
  const std::vector<UniqueFd>& fds = handshake.descriptors();
  BOOST_OUTCOME_TRYV(CheckPathMtu(options_, kPathMtu, address));
  QueuePairGrant grant;
  grant.socket = handshake.TakeSocket();
  const size_t memory_fds = welcome.in_process != 0 ? 0 : 2;
  const size_t page_fds = handshake.hello().kind == HelloKind::kQueuePair ? 1 : 0;
  if (fds.size() != memory_fds + page_fds) {
    return MakeError(Code::kNoResources,
                     "connecting to " + address + ": this process has " + NoDescriptorText());
  }
  grant.in_process = welcome.in_process != 0;
  grant.incarnation = welcome.incarnation;
  grant.queue_pair = welcome.queue_pair;
  BOOST_OUTCOME_TRY(memory, FindOrMap(server, welcome, fds));
  grant.memory = std::move(memory);
  if (page_fds != 0) {
    BOOST_OUTCOME_TRYV(MapPage(fds.back(), welcome.page_at, grant));
  }
  return grant;
}

// A file with huge pages is mapped in units of them.
Status ShmComputePort::MapPage(const UniqueFd& file, uint64_t page_at, QueuePairGrant& grant) {
  const uint64_t from = page_at / kHugePageBytes * kHugePageBytes;
  BOOST_OUTCOME_TRY(file_bytes, BytesOf(file));
  if (page_at % kQueuePairPageBytes != 0 || page_at >= file_bytes ||
      file_bytes - page_at < kQueuePairPageBytes) {
    return MakeError(Code::kInvalidArgument, "queue pair page outside its file");
  }
  BOOST_OUTCOME_TRY(mapping,
                    MapShared(file.get(), from, std::min(file_bytes - from, kHugePageBytes)));
  grant.page_mapping = std::move(mapping);
  grant.page = reinterpret_cast<QueuePairPage*>(grant.page_mapping.data() + (page_at - from));
  return Ok();
}

Result<std::shared_ptr<SharedMemory>> ShmComputePort::FindOrMap(ServerId server,
                                                                const Welcome& welcome,
                                                                const std::vector<UniqueFd>& fds) {
  if (welcome.in_process != 0) {
    std::shared_ptr<SharedMemory> memory = SharedMemory::FindInProcess(welcome.token);
    if (memory == nullptr) return MakeError(Code::kNodeUnreachable, "memory server has just ended");
    return memory;
  }
  const std::lock_guard guard(mutex_);
  const auto found = servers_.find(server);
  if (found != servers_.end()) {
    std::shared_ptr<SharedMemory> memory = found->second.memory.lock();
    if (memory != nullptr && memory->token() == welcome.token) return memory;
  }
  BOOST_OUTCOME_TRY(memory, SharedMemory::Open(welcome.token, fds[0], welcome.region_bytes, fds[1],
                                               welcome.lock_table_bytes));
  if (found != servers_.end()) found->second.memory = memory;
  return std::move(memory);
}

}  // namespace gossamer::shm
