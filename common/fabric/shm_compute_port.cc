#include "common/fabric/shm_compute_port.h"

#include <algorithm>
#include <cerrno>

#include "common/fabric/shm_endpoint.h"
#include "common/fabric/shm_queue_pair.h"

namespace gossamer::shm {
namespace {

// A server that refuses before it has read the hello resets the connection; what it said is there
// all the same.
Transfer ReceiveWelcome(const UniqueFd& socket, Welcome& welcome, size_t* bytes,
                        std::vector<UniqueFd>* fds) {
  const auto message = std::as_writable_bytes(std::span(&welcome, 1));
  errno = 0;
  const Transfer received = ReceiveMessage(socket, message, bytes, fds, true);
  if (received != Transfer::kLost || errno != ECONNRESET) return received;
  return ReceiveMessage(socket, message, bytes, fds, true);
}

Error Refused(const std::string& address, Welcome& welcome) {
  welcome.reason.back() = '\0';
  const bool known = welcome.code != 0 && welcome.code <= static_cast<uint32_t>(Code::kUnsupported);
  return MakeError(known ? static_cast<Code>(welcome.code) : Code::kInvalidArgument,
                   "memory server at " + address + ": " + welcome.reason.data());
}

}  // namespace

Result<std::unique_ptr<ComputePort>> ShmComputePort::Open(const ComputePortOptions& options) {
  if (options.client_uuid == 0) {
    return MakeError(Code::kInvalidArgument, "client uuid 0: give this compute server a name");
  }
  return std::unique_ptr<ComputePort>(new ShmComputePort(options));
}

Status ShmComputePort::Connect(ServerId server, const std::string& address, uint64_t incarnation) {
  Hello hello;
  hello.kind = HelloKind::kProbe;
  hello.client_uuid = options_.client_uuid;
  hello.incarnation = incarnation;
  BOOST_OUTCOME_TRY(probe, SayHello(server, address, hello));
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
  std::ranges::sort(servers);
  auto endpoint = std::make_unique<ShmEndpoint>(*this);
  for (const ServerId server : servers) {
    BOOST_OUTCOME_TRYV(endpoint->Attach(server));
  }
  return endpoint;
}

Result<QueuePairGrant> ShmComputePort::OpenQueuePair(ServerId server, const QueuePairGrant* old) {
  std::string address;
  Hello hello;
  {
    const std::lock_guard guard(mutex_);
    const auto found = servers_.find(server);
    if (found == servers_.end()) {
      return MakeError(Code::kInvalidArgument,
                       "memory server " + std::to_string(ToInteger(server)) + " is not connected");
    }
    address = found->second.address;
    hello.incarnation = found->second.incarnation;
  }
  hello.kind = HelloKind::kQueuePair;
  hello.client_uuid = options_.client_uuid;
  if (old != nullptr) hello.old_queue_pair = old->queue_pair;
  return SayHello(server, address, hello);
}

Result<QueuePairGrant> ShmComputePort::SayHello(ServerId server, const std::string& address,
                                                const Hello& hello) {
  QueuePairGrant grant;
  BOOST_OUTCOME_TRY(socket, ConnectSocket(address, options_.connection_timeout_ms));
  grant.socket = std::move(socket);
  Welcome welcome;
  std::vector<UniqueFd> fds;
  size_t bytes = 0;
  // A server that has refused already does not take the hello.
  SendMessage(grant.socket, std::as_bytes(std::span(&hello, 1)), {}, true);
  if (ReceiveWelcome(grant.socket, welcome, &bytes, &fds) != Transfer::kDone) {
    return MakeError(Code::kNodeUnreachable, "memory server at " + address + " did not answer in " +
                                                 std::to_string(options_.connection_timeout_ms) +
                                                 " ms");
  }
  if (bytes != sizeof welcome || welcome.magic != kMagic) {
    return MakeError(Code::kInvalidArgument, "no memory server of this version at " + address);
  }
  if (welcome.accepted == 0) return Refused(address, welcome);
  const size_t memory_fds = welcome.in_process != 0 ? 0 : 2;
  const size_t page_fds = hello.kind == HelloKind::kQueuePair ? 1 : 0;
  if (fds.size() != memory_fds + page_fds) {
    return MakeError(Code::kExhausted,
                     "connecting to " + address + ": this process has " + NoDescriptorText());
  }
  grant.in_process = welcome.in_process != 0;
  grant.incarnation = welcome.incarnation;
  grant.queue_pair = welcome.queue_pair;
  BOOST_OUTCOME_TRY(memory, FindOrMap(server, welcome, fds));
  grant.memory = std::move(memory);
  if (page_fds != 0) {
    BOOST_OUTCOME_TRY(page, Mapping::OfFile(fds.back()));
    grant.page = std::move(page);
    if (grant.page.bytes() < kQueuePairPageBytes) {
      return MakeError(Code::kInvalidArgument, "queue pair page too small");
    }
  }
  return grant;
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
