#include "compute/research/sherman/compute_server.h"

#include <fmt/core.h>

#include <utility>

#include "common/fabric/scheduler.h"
#include "proto/lock_word.h"

namespace gossamer::sherman {
namespace {

Task<Status> Do(Endpoint& endpoint, Batch& batch) {
  co_await endpoint.Execute(batch);
  if (batch.status() == VerbStatus::kSuccess) co_return Ok();
  co_return MakeError(Code::kNodeUnreachable,
                      fmt::format("memory server {}: {}", ToInteger(batch.server()),
                                  VerbStatusName(batch.status())));
}

}  // namespace

LockPlace ComputeServer::LockOf(RemotePtr node) const {
  const MemoryServer& server = servers_[ToInteger(node.server())];
  return {server.id, LockSlotOffset(node, server.lock_table_bytes)};
}

Result<std::unique_ptr<ComputeServer>> ComputeServer::Open(std::unique_ptr<ComputePort> port,
                                                           const StoreRecord& record,
                                                           const Design& design,
                                                           uint64_t cache_bytes) {
  std::unique_ptr<ComputeServer> opened(new ComputeServer(std::move(port), design, cache_bytes));
  for (const MemberRecord& member : record.servers) {
    BOOST_OUTCOME_TRYV(opened->port_->Connect(member.server, member.address, member.incarnation));
  }
  BOOST_OUTCOME_TRY(endpoint, opened->NewEndpoint());
  for (const MemberRecord& member : record.servers) {
    BOOST_OUTCOME_TRYV(opened->Connect(*endpoint, member.server));
  }
  BOOST_OUTCOME_TRYV(Scheduler(*endpoint).Run(opened->FindRoot(*endpoint)));
  return opened;
}

Status ComputeServer::Connect(Endpoint& endpoint, ServerId server) {
  if (ToInteger(server) != servers_.size()) {
    return MakeError(Code::kInvalidArgument, "memory servers are numbered from 0 on");
  }
  BOOST_OUTCOME_TRYV(endpoint.Attach(server));
  BOOST_OUTCOME_TRY(buffer, endpoint.buffers().Allocate(sizeof(RegionHeader)));
  InlineBatch<1> batch(server);
  batch.Add(Verb::Read(0, sizeof(RegionHeader), buffer.address()));
  BOOST_OUTCOME_TRYV(Scheduler(endpoint).Run(Do(endpoint, batch)));
  std::string problem;
  const auto header = ParseRegionHeader({buffer.data(), sizeof(RegionHeader)}, problem);
  if (!header) return MakeError(Code::kCorruption, problem);
  servers_.push_back({server, header->region_bytes, header->lock_table_bytes});
  locks_.AddServer(server, header->lock_table_bytes);
  return Ok();
}

// Several compute servers may do so at a time: one of their leaves becomes the root.
Task<Status> ComputeServer::FindRoot(Endpoint& endpoint) {
  BOOST_OUTCOME_CO_TRY(buffer, endpoint.buffers().Allocate(2 * kNodeBytes));
  const LocalAddress word = buffer.address(kNodeBytes);
  InlineBatch<2> batch(ServerId{0});
  batch.Add(Verb::FetchAdd(Space::kRegion, kRootOffset, 0, word));
  BOOST_OUTCOME_CO_TRYV(co_await Do(endpoint, batch));
  uint64_t root = batch.verbs()[0].old_value();
  if (root == 0) {
    batch.Reset(ServerId{0});
    batch.Add(Verb::FetchAdd(Space::kRegion, kGivenOffset, kNodeBytes, word));
    BOOST_OUTCOME_CO_TRYV(co_await Do(endpoint, batch));
    const uint64_t offset = kChunksOffset + batch.verbs()[0].old_value();
    const RemotePtr leaf(ServerId{0}, offset, 0);
    if (!HasNodeAt(leaf)) co_return MakeError(Code::kExhausted, "memory server 0 has no heap");
    auto& node = *new (buffer.data()) LeafNode{};
    node.header.high = kNoBound;
    const uint64_t own = RootWord(leaf, 0).word();
    batch.Reset(ServerId{0});
    batch.Add(Verb::Write(offset, kNodeBytes, buffer.address()));
    batch.Add(Verb::CompareSwap(Space::kRegion, kRootOffset, 0, own, word));
    BOOST_OUTCOME_CO_TRYV(co_await Do(endpoint, batch));  // WRITE, then atomic (O2)
    const uint64_t before = batch.verbs()[1].old_value();
    root = before == 0 ? own : before;
  }
  SetRoot(RootWord::FromWord(root));
  co_return Ok();
}

}  // namespace gossamer::sherman
