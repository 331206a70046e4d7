#include "compute/store/open_store.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/bootstrap/server_probe.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "compute/session/control_client.h"
#include "compute/session/registration.h"
#include "compute/store/open_session.h"
#include "compute/tree/tree.h"

namespace gossamer {

namespace {

// Most attempts to register with a server whose queue pairs keep breaking: as many as for an
// operation.
constexpr int kMostTriesToAdd = 17;

// Asks only the server with the root, which every operation needs. Others are probed on connecting.
FindOptions FindingRoot(const std::string& store, const ComputePortOptions& options,
                        std::chrono::milliseconds patience) {
  FindOptions find;
  find.store = store;
  find.probe = [probe = FabricProbe(options.rdma, options.connection_timeout_ms)](
                   const StoreRecord& record, const MemberRecord& member) {
    return member.server == ServerId{0} ? probe(record, member) : Liveness::kAlive;
  };
  find.return_patience = patience;
  return find;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const OpenOptions& options) {
  return OpenStore::Open(options);
}

Result<std::unique_ptr<Store>> Store::OpenLocal(const LocalOptions& options) {
  return OpenStore::OpenLocal(options);
}

Result<std::unique_ptr<Store>> OpenStore::Open(const OpenOptions& options) {
  BOOST_OUTCOME_TRY(fabric, ParseFabricKind(options.fabric));
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(options.bootstrap));
  ComputePortOptions port_options;
  port_options.rdma = options.rdma;
  port_options.connection_timeout_ms = options.connection_timeout_ms;
  std::unique_ptr<OpenStore> store(new OpenStore());
  BOOST_OUTCOME_TRYV(store->BeginObservation(options.observer));
  // First, because without the fabric every server would seem silent.
  BOOST_OUTCOME_TRYV(store->OpenPort(fabric, port_options));
  const auto patience = std::chrono::milliseconds(options.reconnect_ms);
  BOOST_OUTCOME_TRY(record,
                    FindStore(*bootstrap, FindingRoot(options.store, port_options, patience)));
  if (record.fabric != FabricKindName(fabric)) {
    return MakeError(Code::kInvalidArgument, "store '" + options.store + "' runs on --fabric=" +
                                                 record.fabric + ", not on " + options.fabric);
  }
  // Two endpoints more: the lease keeper's, and that of the background's session.
  BOOST_OUTCOME_TRYV(store->port_->CheckRoomFor(options.sessions + 2,
                                                static_cast<uint32_t>(record.servers.size())));
  store->bootstrap_ = std::move(bootstrap);
  return Finish(std::move(store), record,
                {.cache_bytes = options.cache_bytes,
                 .lock_timeout_ms = options.lock_timeout_ms,
                 .reconnect_ms = options.reconnect_ms,
                 .makes_room = options.makes_room});
}

Result<std::unique_ptr<Store>> OpenStore::OpenLocal(const LocalOptions& options) {
  std::unique_ptr<OpenStore> store(new OpenStore());
  BOOST_OUTCOME_TRYV(store->BeginObservation(options.observer));
  EmbeddedMemoryOptions memory_options;
  memory_options.memory_bytes = options.memory_bytes;
  memory_options.parameters = options.parameters;
  memory_options.chunk_bytes = options.chunk_bytes;
  memory_options.touch = options.touch_memory;
  BOOST_OUTCOME_TRY(memory, StartEmbeddedMemory(memory_options));
  store->memory_ = std::move(memory);
  StoreRecord record;
  record.store = "local";
  record.fabric = FabricKindName(FabricKind::kShm);
  record.parameters = options.parameters;
  record.next_server = 1;
  record.servers.resize(1);
  record.servers[0].address = store->memory_->address();
  BOOST_OUTCOME_TRYV(store->OpenPort(FabricKind::kShm, {}));
  return Finish(std::move(store), record,
                {.cache_bytes = options.cache_bytes, .lock_timeout_ms = options.lock_timeout_ms});
}

Status OpenStore::BeginObservation(std::shared_ptr<StoreObserver> observer) {
  if (observer) {
    BOOST_OUTCOME_TRYV(observer->Begin());
  }
  observer_ = std::move(observer);
  return Ok();
}

Result<std::unique_ptr<Store>> OpenStore::Finish(std::unique_ptr<OpenStore> store,
                                                 const StoreRecord& record,
                                                 const TreeOptions& options) {
  BOOST_OUTCOME_TRYV(store->Connect(record, options));
  if (store->observer_) store->observer_->Opened(*store);
  return std::unique_ptr<Store>(std::move(store));
}

Result<std::unique_ptr<OpenStore>> OpenStore::OpenOn(std::unique_ptr<ComputePort> port,
                                                     const StoreRecord& record,
                                                     const TreeOptions& options,
                                                     std::shared_ptr<Bootstrap> bootstrap) {
  std::unique_ptr<OpenStore> store(new OpenStore());
  store->port_ = std::move(port);
  store->bootstrap_ = std::move(bootstrap);
  BOOST_OUTCOME_TRYV(store->Connect(record, options));
  return store;
}

Status OpenStore::OpenPort(FabricKind fabric, ComputePortOptions options) {
  options.client_uuid = RandomId();
  BOOST_OUTCOME_TRY(port, OpenComputePort(fabric, options));
  port_ = std::move(port);
  port_options_.emplace(fabric, options);
  finder_.UseThread();
  return Ok();
}

Status OpenStore::Connect(StoreRecord record, const TreeOptions& options) {
  record_ = record;
  port_->RequirePathMtu(record.parameters.node_bytes);  // W2: a node is one packet
  shared_ =
      std::make_unique<StoreState>(record.parameters, options, static_cast<StoreEvents&>(*this));
  epochs_ = std::make_unique<EpochAcknowledger>(*shared_);
  keeper_ = std::make_unique<LeaseKeeper>(
      shared_->servers, &shared_->allocator, &shared_->orphans, epochs_.get(),
      [this](ServerSearch& search) { return FindServer(search); }, &shared_->clock);
  // First, because its address decides which device control_ uses.
  BOOST_OUTCOME_TRYV(AddRoot(record, std::chrono::milliseconds(options.reconnect_ms)));
  for (const MemberRecord& member : record.servers) {
    if (member.server == ServerId{0}) continue;
    if (ToInteger(member.server) >= Servers::kMaxServers) {
      return MakeError(
          Code::kUnsupported,
          fmt::format("a store with memory server {}: this build knows server ids up to {}",
                      ToInteger(member.server), Servers::kMaxServers - 1));
    }
    const Endpoint::Clock::time_point began = control_->Now();
    const Status added = AddServer(record, member);
    if (added) continue;
    // Other servers' data can be served without this server. Operations that need it look for it.
    const bool is_out_of_reach = added.error().code == Code::kNodeUnreachable;
    if (bootstrap_ == nullptr || !is_out_of_reach) return added;
    NoteUnreachable(member.server, member.incarnation, added.error(), began);
  }
  if (port_options_) {
    upkeep_ = std::make_unique<Upkeep>(shared_->merges, [this] { return NewOpenSession(); });
    expiry_ = std::make_unique<ExpirySweeper>([this] { return NewOpenSession(); },
                                              ExpirySweeper::Pace(), RandomId());
    expiry_->Start();
  }
  shared_->orphans.SettleOver(*control_, shared_->allocator);
  return Ok();
}

Status OpenStore::AddRoot(StoreRecord& record, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const MemberRecord* const root = record.Find(ServerId{0});
    if (root == nullptr) {
      return MakeError(Code::kNodeUnreachable,
                       "memory server 0, which has the tree's root, is not in the store's record");
    }
    Status added = AddServer(record, *root);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const bool has_ended = !added && added.error().code == Code::kNodeUnreachable;
    const bool may_be_back = has_ended && root->comes_back() && left.count() > 0;
    if (!may_be_back || bootstrap_ == nullptr || !port_options_) return added;
    // It has ended since it was found, such as to save.
    BOOST_OUTCOME_TRY(
        found, FindStore(*bootstrap_, FindingRoot(record.store, port_options_->second, left)));
    if (found.store_id != record.store_id) return added;
    record = std::move(found);
    record_ = record;
  }
}

void OpenStore::OnFirstOrphan() {
  const Status started = StartKeeper();
  if (!started) {
    LOG(WARNING) << "locks are settled only where sessions are polled: "
                 << started.error().ToString();
  }
  keeper_->Wake();  // the thread may be running and asleep
}

void OpenStore::OnFirstMerge() {
  if (upkeep_ != nullptr) upkeep_->Wake();
  if (merges_over_ != nullptr) {
    merges_over_->Spawn(Upkeep::Work(shared_->merges, merges_over_->tree(), stops_merging_));
  }
}

Status OpenStore::AddServer(const StoreRecord& record, const MemberRecord& member) {
  if (member.comes_back()) shared_->servers.NoteComesBack(member.server);
  for (int tries = 1;; ++tries) {
    // A silent server is noticed here. Sessions open and close and locks are settled meanwhile.
    Status connected = port_->Connect(member.server, member.address, member.incarnation);
    const auto pause = shared_->orphans.PauseFor(member.server);
    if (connected) connected = ConnectControl(member.server);
    if (!connected && connected.error().code == Code::kNodeUnreachable) {
      return CannotBeReached(member.server, member.address, connected.error().message);
    }
    BOOST_OUTCOME_TRYV(std::move(connected));
    const Endpoint::Clock::time_point asked_at = control_->Now();
    Status added = AddConnected(record, member);
    const bool is_lost = !added && (added.error().code == Code::kNodeUnreachable ||
                                    added.error().code == Code::kFenced);
    const bool is_silent = control_->Now() - asked_at >= kSilentRegistration;
    if (!is_lost || is_silent || tries == kMostTriesToAdd) return added;
  }
}

Status OpenStore::ConnectControl(ServerId server) {
  if (control_ == nullptr) {
    BOOST_OUTCOME_TRY(control, port_->NewEndpoint());
    control_ = std::move(control);
    return control_->Attach(server);
  }
  // The queue pair of an earlier attempt may have broken.
  return control_->Reconnect(server);
}

Status OpenStore::AddConnected(const StoreRecord& record, const MemberRecord& member) {
  const std::string name =
      fmt::format("memory server {} at {} ", ToInteger(member.server), member.address);
  Endpoint& endpoint = *control_;
  BOOST_OUTCOME_TRY(header, ReadRegionHeader(endpoint, member.server));
  const bool is_recorded = record.store_id == 0 || (header.store_id == record.store_id &&
                                                    header.incarnation == member.incarnation);
  if (!is_recorded || header.server_id != ToInteger(member.server)) {
    return MakeError(Code::kNodeUnreachable,
                     name + "is not the recorded one: that one is gone, and its data with it");
  }
  if (header.parameters != record.parameters) {
    return MakeError(Code::kCorruption, name + "has other store parameters than the record says");
  }
  if (record_.store_id == 0) record_.store_id = header.store_id;
  Scheduler scheduler(endpoint);
  BOOST_OUTCOME_TRY(registered, scheduler.Run(RegisterOver(endpoint, member.server)));
  ServerInfo info;
  info.id = member.server;
  info.address = member.address;
  info.incarnation = header.incarnation;
  info.lease = registered.lease;
  info.lease_ms = registered.lease_ms;
  info.region_bytes = header.region_bytes;
  info.lock_table_bytes = header.lock_table_bytes;
  info.chunk_bytes = header.chunk_bytes;
  // First: if no thread can renew the lease, the server stays unknown, and is tried again when
  // needed.
  if (info.lease_ms != 0) {
    BOOST_OUTCOME_TRYV(StartKeeper(LeaseKeeper::MaxConnectionMs(info.lease_ms)));
  } else if (const Status started = StartKeeper(); !started) {
    LOG_FIRST_N(WARNING, 1) << "epochs are not acknowledged, so that sweeps wait for this process: "
                            << started.error().ToString();
  }
  shared_->servers.Add(info);
  if (info.id == ServerId{0}) shared_->clock.Learn(registered.clock);
  shared_->allocator.Registered(info.id, registered);
  keeper_->Wake();
  return Ok();
}

Status OpenStore::StartKeeper(uint32_t most_connection_ms) {
  const std::lock_guard lock(keeper_mutex_);
  if (keeper_runs_ || !port_options_) return Ok();
  auto [fabric, options] = *port_options_;
  options.connection_timeout_ms = std::min(options.connection_timeout_ms, most_connection_ms);
  // A port without connections cannot choose it.
  for (const auto& [name, value] : port_->device().facts) {
    if (name == "device") options.rdma.device = value;
  }
  BOOST_OUTCOME_TRY(port, OpenComputePort(fabric, options));
  BOOST_OUTCOME_TRYV(keeper_->Start(std::move(port)));
  keeper_runs_ = true;
  return Ok();
}

void OpenStore::TendLinks() {
  const auto pause = shared_->orphans.Pause();
  Scheduler scheduler(*control_);
  for (const ServerInfo* server : shared_->servers.All()) {
    // A lease that expires is renewed over the keeper's queue pair.
    if (server->lease_ms == 0) scheduler.Spawn(TendLink(*server));
  }
  scheduler.RunUntil(0);
}

Task<void> OpenStore::TendLink(const ServerInfo& server) {
  using Clock = Endpoint::Clock;
  const Clock::time_point began = control_->Now();
  if (began < link_try_at_[server.id]) co_return;
  const Result<BufferLease> word_at = control_->buffers().Allocate(BufferPool::kMinBytes);
  if (!word_at) co_return;  // NoResources: the next session tries again
  InlineBatch<1> batch(server.id);
  batch.Add(Verb::Read(0, sizeof(uint64_t), word_at.value().address()));
  co_await control_->Execute(batch);  // 1 RT; reveals a broken queue pair
  if (batch.status() == VerbStatus::kSuccess) co_return;
  const Result<Registration> registered = co_await ReplaceAndRegister(*control_, server.id);
  if (registered) {
    shared_->allocator.Registered(server.id, registered.value());
    co_return;
  }
  const Clock::duration took = control_->Now() - began;
  link_try_at_[server.id] =
      control_->Now() + RestAfterTry<Clock::duration>(took, OrphanedLocks::kTryAgain);
}

OpenStore::~OpenStore() {
  if (observer_) observer_->Ended();  // while it can still be asked
  if (control_ == nullptr || shared_ == nullptr) return;
  expiry_.reset();
  if (upkeep_ != nullptr) upkeep_->Stop();
  finder_.Stop();
  keeper_->Stop();
  shared_->orphans.Stop();
  Scheduler scheduler(*control_);
  scheduler.Spawn(shared_->allocator.ReleaseAll(scheduler));
  scheduler.RunUntil(0);
  SayFarewell(scheduler);
}

Result<std::unique_ptr<Session>> OpenStore::NewSession() {
  BOOST_OUTCOME_TRY(session, NewOpenSession());
  return std::unique_ptr<Session>(std::move(session));
}

Result<std::unique_ptr<OpenSession>> OpenStore::NewOpenSession() {
  TendLinks();
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  return std::make_unique<OpenSession>(*shared_, std::move(endpoint));
}

void OpenStore::StopUpkeep() {
  stops_merging_ = true;
  expiry_.reset();
  if (upkeep_ != nullptr) upkeep_->Stop();
}

}  // namespace gossamer
