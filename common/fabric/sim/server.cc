#include "common/fabric/sim/server.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/fabric/sim/chance.h"
#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/sim.h"
#include "common/mutants.h"

namespace gossamer::sim {
namespace {

constexpr Nanoseconds kTick = std::chrono::nanoseconds(kTickInterval).count();

}  // namespace

Server::Server(SimNetwork& network, const MemoryPortOptions& options, uint64_t number)
    : network_(network),
      number_(number),
      lock_table_facts_{options.on_chip_locks == OnChipLocks::kNever
                            ? LockTablePlacement::kDram
                            : LockTablePlacement::kDeviceMemory,
                        options.lock_table_bytes,
                        {}},
      path_mtu_(network.options().path_mtu),
      atomic_slots_(size_t{2} * network.costs().atomic_slots),
      tick_(network.server_events.Take()),
      gone_(network.server_events.Take()) {
  tick_.server = gone_.server = this;
  tick_.is_tick = true;
  gone_.is_tick = false;
}

Result<std::unique_ptr<MemoryPort>> Server::Open(SimNetwork& network,
                                                 const MemoryPortOptions& options,
                                                 uint64_t number) {
  std::unique_ptr<Server> server(new Server(network, options, number));
  if (options.kept != nullptr) {
    server->memory_ = options.kept->region;
  } else {
    BOOST_OUTCOME_TRY(region, MapMemory(options.region_bytes, false));
    server->region_ = std::move(region);
    server->memory_ = {server->region_.data(), options.region_bytes};
  }
  BOOST_OUTCOME_TRY(lock_table, MapMemory(options.lock_table_bytes, false));
  server->lock_table_ = std::move(lock_table);
  network.AddServer(*server, number);
  return std::unique_ptr<MemoryPort>(std::move(server));
}

Server::~Server() {
  Stop();
  if (network_.FindServer(number_) == this) network_.RemoveServer(number_);
  network_.server_events.Give(tick_);
  network_.server_events.Give(gone_);
}

bool Server::observes_death() const { return network_.options().observes_death.count() != 0; }

std::string Server::address() const { return fmt::format("{}{}", kScheme, number_); }

Status Server::Start(ControlHandler& handler, uint64_t incarnation) {
  if (std::exchange(started_, true)) {
    return MakeError(Code::kInvalidArgument, "memory port started twice");
  }
  incarnation_ = incarnation;
  handler_ = &handler;
  network_.events.Arm(tick_, network_.now() + kTick);
  return Ok();
}

void Server::Stop() {
  handler_ = nullptr;
  gone_clients_.clear();
  network_.events.Disarm(tick_);
  network_.events.Disarm(gone_);
  for (const std::unique_ptr<QueuePair>& queue_pair : queue_pairs_) {
    queue_pair->Break(network_.NoticeTime(), SimFault::Kind::kServer);
    const bool is_kept = region_.data() == nullptr;
    if (is_kept && IsBroken(Mutant::kB1)) {
      queue_pair->SettleLate();
    } else {
      queue_pair->Settle();
    }
    if (queue_pair->endpoint() != nullptr) queue_pair->endpoint()->QueuePairGone(*queue_pair);
  }
  queue_pairs_.clear();
}

QueuePair& Server::OpenQueuePair(SimEndpoint& endpoint, ClientState& client) {
  ReportGone();
  queue_pairs_.push_back(std::make_unique<QueuePair>(network_, *this, endpoint, client,
                                                     next_queue_pair_++, path_mtu_));
  return *queue_pairs_.back();
}

void Server::CloseQueuePair(QueuePair& queue_pair, bool replaced) {
  queue_pair.Settle();
  const uint64_t uuid = queue_pair.client().uuid;
  std::erase_if(queue_pairs_, [&](const auto& each) { return each.get() == &queue_pair; });
  const bool is_last = std::ranges::none_of(
      queue_pairs_, [&](const auto& each) { return each->client().uuid == uuid; });
  if (is_last && !replaced) GoneSoon(uuid);
}

void Server::CloseQueuePair(const ClientState& client, uint64_t id) {
  const auto found = std::ranges::find_if(queue_pairs_, [&](const auto& each) {
    return each->id() == id && &each->client() == &client;
  });
  if (found == queue_pairs_.end()) return;
  QueuePair& queue_pair = **found;
  queue_pair.Break(network_.NoticeTime());
  if (queue_pair.endpoint() != nullptr) queue_pair.endpoint()->QueuePairGone(queue_pair);
  CloseQueuePair(queue_pair, true);
}

void Server::Fence(uint64_t client_uuid) {
  const auto is_fenced = [&](const auto& each) { return each->client().uuid == client_uuid; };
  if (std::ranges::none_of(queue_pairs_, is_fenced)) return;
  ++network_.counters().fenced_clients;
  for (const std::unique_ptr<QueuePair>& queue_pair : queue_pairs_) {
    if (!is_fenced(queue_pair)) continue;
    queue_pair->Break(network_.NoticeTime(), SimFault::Kind::kFenced);
    queue_pair->Settle();
    if (queue_pair->endpoint() != nullptr) queue_pair->endpoint()->QueuePairGone(*queue_pair);
  }
  std::erase_if(queue_pairs_, is_fenced);
  GoneSoon(client_uuid);
}

void Server::GoneSoon(uint64_t client_uuid) {
  if (!serving()) return;
  gone_clients_.push_back(client_uuid);
  network_.events.Arm(gone_, network_.now());
}

void Server::ReportGone() {
  if (gone_clients_.empty()) return;
  network_.events.Disarm(gone_);
  for (const uint64_t uuid : std::exchange(gone_clients_, {})) handler_->ClientGone(uuid);
}

Nanoseconds Server::Slowness() {
  return network_.now() < slow_until_ ? UpTo(network_.delay_random, slowness_) : 0;
}

void Server::Tick() {
  if (stopped_until_ > network_.now()) return network_.events.Arm(tick_, stopped_until_);
  network_.events.Arm(tick_, network_.now() + kTick);
  for (const uint64_t uuid : handler_->Tick(network_.Now())) Fence(uuid);
}

bool Server::Accepts(const Verb& verb) {
  const uint64_t bytes = space(verb.space).size();
  if (verb.remote_offset > bytes || verb.length > bytes - verb.remote_offset) return false;
  return !verb.is_atomic() ||
         (verb.length == sizeof(uint64_t) && verb.remote_offset % sizeof(uint64_t) == 0);
}

void Server::Apply(VerbInFlight& operation) {
  std::byte* const remote = space(operation.space).data() + operation.remote_offset;
  if (operation.length == 0 || operation.local.data == nullptr) return;
  switch (TraitsOf(operation.opcode).verb_class) {
    case VerbClass::kRead: std::memcpy(operation.local.data, remote, operation.length); return;
    case VerbClass::kWrite: std::memcpy(remote, operation.local.data, operation.length); return;
    case VerbClass::kAtomic: return;  // QueuePair::ReadWord and WriteWord execute it
  }
}

Nanoseconds& Server::AtomicSlot(const VerbInFlight& operation) {
  const uint64_t slots = network_.costs().atomic_slots;
  const uint64_t slot = operation.remote_offset / sizeof(uint64_t) % slots;
  return atomic_slots_[slot + (operation.space == Space::kLockTable ? slots : 0)];
}

Nanoseconds Server::Handle(CallInFlight& call, uint64_t client_uuid) {
  ReportGone();
  const std::array<std::byte, kMaxControlBytes> request = call.bytes;
  call.size = handler_->Handle(client_uuid, std::span(request).first(call.size),
                               std::span<std::byte, kMaxControlBytes>(call.bytes));
  ++network_.counters().calls;
  control_free_at_ = std::max(control_free_at_, network_.now()) + network_.costs().control_call_ns;
  return control_free_at_;
}

}  // namespace gossamer::sim
