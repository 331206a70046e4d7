#include "memory/control_service.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/process_name.h"
#include "common/text/human.h"
#include "memory/rules.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using Reply = std::span<std::byte, kMaxControlBytes>;

// A gap between two ticks counts for at most 1/kGapsPerLease of a lease.
constexpr int kGapsPerLease = 8;

static_assert(kMaxControlBytes >= control::kMaxMessageBytes);

template <typename Message>
uint32_t Answer(const Message& message, Reply reply) {
  static_assert(sizeof(Message) <= kMaxControlBytes);
  std::memcpy(reply.data(), &message, sizeof message);
  return sizeof message;
}

uint32_t AnswerError(const Error& error, Reply reply) {
  control::ErrorReply message;
  message.code = static_cast<uint8_t>(error.code);
  message.message_bytes =
      static_cast<uint8_t>(std::min(error.message.size(), sizeof message.message));
  std::memcpy(message.message, error.message.data(), message.message_bytes);
  return Answer(message, reply);
}

// Returns nullopt if `request` has another size.
template <typename Message>
std::optional<Message> Decode(std::span<const std::byte> request) {
  Message message;
  if (request.size() != sizeof message) return std::nullopt;
  std::memcpy(&message, request.data(), sizeof message);
  return message;
}

Error WrongSize(std::span<const std::byte> request) {
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("a control message of {} bytes is none of its type", request.size()));
}

}  // namespace

ControlService::ControlService(ChunkAllocator allocator, LockTablePlacement lock_table,
                               std::chrono::milliseconds lease)
    : allocator_(std::move(allocator)), lock_table_(lock_table), lease_(lease) {}

uint32_t ControlService::Handle(uint64_t client_uuid, std::span<const std::byte> request,
                                std::span<std::byte, kMaxControlBytes> reply) {
  control::Header header;
  if (request.size() < sizeof header) return AnswerError(WrongSize(request), reply);
  std::memcpy(&header, request.data(), sizeof header);
  if (header.version != control::kProtocolVersion) {
    return AnswerError(
        MakeError(Code::kUnsupported,
                  fmt::format("control protocol version {} was sent, this memory server speaks {}",
                              header.version, control::kProtocolVersion)),
        reply);
  }
  const std::lock_guard guard(mutex_);
  // Every request renews the lease. A request that needs a lease reports that there is none.
  const Result<Lease> lease = leases_.Renew(client_uuid, time_);
  switch (header.type) {
    case control::Type::kRegister:
      if (const auto registration = Decode<control::RegisterRequest>(request)) {
        return Register(client_uuid, *registration, reply);
      }
      break;
    case control::Type::kAllocate:
      if (const auto allocate = Decode<control::AllocateRequest>(request)) {
        return Allocate(client_uuid, lease, *allocate, reply);
      }
      break;
    case control::Type::kRelease:
      if (const auto release = Decode<control::ReleaseRequest>(request)) {
        return Release(lease, *release, reply);
      }
      break;
    case control::Type::kGiveUp:
      if (const auto give_up = Decode<control::GiveUpRequest>(request)) {
        return GiveUp(lease, *give_up, reply);
      }
      break;
    case control::Type::kStat:
      if (!Decode<control::StatRequest>(request)) break;
      return Answer(StatLocked(), reply);
    case control::Type::kListExtents:
      if (const auto list = Decode<control::ListExtentsRequest>(request))
        return ListExtents(*list, reply);
      break;
    case control::Type::kRenew:
      if (const auto renewal = Decode<control::RenewRequest>(request)) {
        return Renew(client_uuid, lease, *renewal, reply);
      }
      break;
    case control::Type::kEpoch:
      if (const auto epoch = Decode<control::EpochRequest>(request)) return Epoch(*epoch, reply);
      break;
    case control::Type::kClientQuery:
      if (const auto query = Decode<control::ClientQueryRequest>(request)) {
        return QueryClient(*query, reply);
      }
      break;
    case control::Type::kSweep:
      if (const auto sweep = Decode<control::SweepRequest>(request)) {
        return Sweep(client_uuid, lease, *sweep, reply);
      }
      break;
    case control::Type::kLeaseQuery:
      if (const auto query = Decode<control::LeaseQueryRequest>(request)) {
        return QueryLease(*query, reply);
      }
      break;
    case control::Type::kError:
    default:
      return AnswerError(
          MakeError(Code::kInvalidArgument, fmt::format("control message type {} is none",
                                                        static_cast<uint16_t>(header.type))),
          reply);
  }
  return AnswerError(WrongSize(request), reply);
}

void ControlService::ClientGone(uint64_t client_uuid) {
  const std::lock_guard guard(mutex_);
  const std::optional<Lease> ended = leases_.End(client_uuid);
  if (!ended) return;
  allocator_.Ended(*ended);
  sweeps_.Ended(client_uuid);
  allocator_.EndEpochsBefore(leases_.OldestEpoch());
}

std::vector<uint64_t> ControlService::Tick(Endpoint::Clock::time_point now) {
  const std::lock_guard guard(mutex_);
  if (lease_.count() == 0) return {};
  if (last_tick_) time_ += std::min<LeaseTable::Time>(now - *last_tick_, lease_ / kGapsPerLease);
  last_tick_ = now;
  std::vector<uint64_t> expired = leases_.ExpireUpTo(time_ - lease_);
  for (const uint64_t client_uuid : expired) {
    const Lease lease = leases_.Find(client_uuid).value_or(Lease{});
    LOG(WARNING) << "fencing compute server " << static_cast<uint16_t>(lease.compute)
                 << " (incarnation " << lease.incarnation << ", "
                 << Describe(leases_.ProcessOf(lease)) << "): it did not renew its lease for "
                 << lease_.count() << " ms";
  }
  return expired;
}

control::StatReply ControlService::Stat() const {
  const std::lock_guard guard(mutex_);
  return StatLocked();
}

GrantedMemory ControlService::Granted() const {
  const std::lock_guard guard(mutex_);
  GrantedMemory granted;
  granted.in_force = leases_.InForce();
  uint64_t from = 0;
  while (const auto extent = allocator_.NextExtent(from)) {
    granted.extents.push_back({extent->offset, extent->bytes, extent->owner.client_uuid,
                               extent->owner.lease, extent->is_waiting});
    from = extent->offset + extent->bytes;
  }
  return granted;
}

std::vector<ClientInForce> ControlService::Clients() const {
  const std::lock_guard guard(mutex_);
  std::map<ComputeId, ClientInForce> clients;
  for (const auto& [client_uuid, lease] : leases_.InForce()) {
    clients[lease.compute] = {lease, leases_.ProcessOf(lease), allocator_.BytesOf(lease)};
  }
  std::vector<ClientInForce> list;
  list.reserve(clients.size());
  for (const auto& [compute, client] : clients) list.push_back(client);
  return list;
}

uint32_t ControlService::Register(uint64_t client_uuid, const control::RegisterRequest& request,
                                  Reply reply) {
  const Result<Lease> lease = leases_.Register(client_uuid, time_, request.process);
  if (!lease) return AnswerError(lease.error(), reply);
  sweeps_.Registered(client_uuid);
  control::RegisterReply message;
  message.compute_id = static_cast<uint16_t>(lease.value().compute);
  message.incarnation = lease.value().incarnation;
  message.lease_ms = static_cast<uint32_t>(lease_.count());
  message.usage = allocator_.usage();
  return Answer(message, reply);
}

uint32_t ControlService::Renew(uint64_t client_uuid, const Result<Lease>& lease,
                               const control::RenewRequest& request, Reply reply) {
  if (!lease) return AnswerError(lease.error(), reply);
  if (leases_.Acknowledge(client_uuid, request.epoch)) {
    allocator_.EndEpochsBefore(leases_.OldestEpoch());
  }
  control::RenewReply message;
  message.epoch = leases_.epoch();
  message.acknowledged = leases_.AcknowledgedBy(client_uuid);
  const ChunkAllocator::Offer offer =
      allocator_.MakeOffer(lease.value(), control::RenewReply::kMaxRanges);
  message.waiting = static_cast<uint16_t>(offer.ranges.size());
  message.offer = offer.number;
  message.refusals = refusals_;
  std::ranges::copy(offer.ranges, message.ranges);
  message.lease_ms = static_cast<uint32_t>(lease_.count());
  message.compute_servers = static_cast<uint32_t>(leases_.registered());
  return Answer(message, reply);
}

uint32_t ControlService::Epoch(const control::EpochRequest& request, Reply reply) {
  control::EpochReply message;
  message.epoch = request.start != 0 ? leases_.StartEpoch() : leases_.epoch();
  Lease last;
  message.acknowledged = leases_.OldestEpoch(&last);
  message.last = leases_.ProcessOf(last);
  return Answer(message, reply);
}

uint32_t ControlService::Sweep(uint64_t client_uuid, const Result<Lease>& lease,
                               const control::SweepRequest& request, Reply reply) {
  const bool needs_lease =
      request.step == control::SweepStep::kBegin || request.step == control::SweepStep::kFarewell;
  if (needs_lease && !lease) return AnswerError(lease.error(), reply);
  if (request.step > control::SweepStep::kFarewell) {
    return AnswerError(
        MakeError(Code::kInvalidArgument,
                  fmt::format("step {} of a sweep is none", static_cast<uint8_t>(request.step))),
        reply);
  }
  return Answer(sweeps_.Take(client_uuid, request), reply);
}

uint32_t ControlService::QueryClient(const control::ClientQueryRequest& request,
                                     Reply reply) const {
  const std::optional<Lease> lease = leases_.Find(request.client_uuid);
  control::ClientQueryReply message;
  message.in_force = lease ? 1 : 0;
  message.incarnation = lease ? lease->incarnation : 0;
  return Answer(message, reply);
}

uint32_t ControlService::QueryLease(const control::LeaseQueryRequest& request, Reply reply) const {
  const Lease lease{static_cast<ComputeId>(request.compute_id), request.incarnation};
  control::LeaseQueryReply message;
  message.in_force = leases_.IsInForce(lease) ? 1 : 0;
  message.holder = leases_.ProcessOf(lease);
  return Answer(message, reply);
}

uint32_t ControlService::Allocate(uint64_t client_uuid, const Result<Lease>& lease,
                                  const control::AllocateRequest& request, Reply reply) {
  if (!lease) return AnswerError(lease.error(), reply);
  if (request.kind != control::ExtentKind::kNodes && request.kind != control::ExtentKind::kBlocks) {
    return AnswerError(
        MakeError(Code::kInvalidArgument,
                  fmt::format("extent kind {} is none", static_cast<uint8_t>(request.kind))),
        reply);
  }
  std::vector<ChunkAllocator::Extent> extents = allocator_.AllocateWaiting(
      request.bytes, lease.value(), request.kind, 1 + control::AllocateReply::kMaxMore);
  if (extents.empty()) {
    const auto extent =
        allocator_.Allocate(request.bytes, {lease.value(), client_uuid}, request.kind);
    if (!extent) {
      if (extent.error().code == Code::kExhausted) ++refusals_;
      return AnswerError(extent.error(), reply);
    }
    extents.push_back(extent.value());
  }
  sweeps_.Allocated(client_uuid);
  control::AllocateReply message;
  const ChunkAllocator::Extent& first = extents.front();
  message.offset = rules::GrantedAt(first.offset, first.bytes, kHeapOffset);
  message.bytes = first.bytes;
  message.generation = first.generation();
  message.more = static_cast<uint8_t>(extents.size() - 1);
  for (size_t i = 1; i < extents.size(); ++i) {
    message.extents[i - 1] = {extents[i].offset, extents[i].bytes, extents[i].generation()};
  }
  message.compute_id = static_cast<uint16_t>(lease.value().compute);
  message.incarnation = lease.value().incarnation;
  message.usage = allocator_.usage();
  const control::Usage& usage = message.usage;
  const uint32_t percent = alarm_.Update(usage.heap_bytes - usage.free_bytes, usage.heap_bytes);
  if (percent != 0) {
    LOG(WARNING) << percent << " % of this server's memory is handed out, "
                 << HumanBytes(usage.free_bytes) << " is free: " << kFullRemedy;
  }
  return Answer(message, reply);
}

uint32_t ControlService::Release(const Result<Lease>& lease, const control::ReleaseRequest& request,
                                 Reply reply) {
  if (!lease) return AnswerError(lease.error(), reply);
  const Lease freed_under{static_cast<ComputeId>(request.compute_id), request.incarnation};
  if (freed_under != lease.value()) {
    return AnswerError(
        MakeError(Code::kFenced, "the lease has ended under which the memory became free"), reply);
  }
  if (request.count == 0 || request.count > control::ReleaseRequest::kMaxRanges) {
    return AnswerError(
        MakeError(Code::kInvalidArgument,
                  fmt::format("{} ranges of memory cannot be given back at once", request.count)),
        reply);
  }
  control::ReleaseReply message;
  for (uint32_t i = 0; i < request.count; ++i) {
    const Status taken = allocator_.Release(
        request.ranges[i], lease.value(), leases_.epoch(),
        [this](Lease owner) { return rules::IsOwned(leases_.IsInForce(owner)); });
    if (taken) continue;
    message.refused |= 1u << i;
    LOG_EVERY_T(WARNING, 10) << "compute server " << static_cast<uint16_t>(lease.value().compute)
                             << ": " << taken.error().message;
  }
  RenewWornMemory();
  return Answer(message, reply);
}

uint32_t ControlService::GiveUp(const Result<Lease>& lease, const control::GiveUpRequest& request,
                                Reply reply) {
  if (!lease) return AnswerError(lease.error(), reply);
  const Lease offered_to{static_cast<ComputeId>(request.compute_id), request.incarnation};
  if (offered_to != lease.value()) {
    return AnswerError(MakeError(Code::kFenced, "the lease has ended to which memory was offered"),
                       reply);
  }
  control::GiveUpReply message;
  message.bytes = allocator_.GiveUp(lease.value(), request.offer);
  return Answer(message, reply);
}

// Not before much is worn: an epoch costs all compute servers what they have cached.
void ControlService::RenewWornMemory() {
  constexpr uint64_t kShareWorn = 16;
  if (allocator_.worn_bytes() * kShareWorn < allocator_.heap_bytes()) return;
  if (leases_.OldestEpoch() == leases_.epoch()) leases_.StartEpoch();
}

uint32_t ControlService::ListExtents(const control::ListExtentsRequest& request,
                                     Reply reply) const {
  control::ListExtentsReply message;
  uint64_t from = request.from_offset;
  while (const auto extent = allocator_.NextExtent(from)) {
    if (message.count == control::ListExtentsReply::kMaxExtents) {
      message.more = 1;
      break;
    }
    control::Extent& listed = message.extents[message.count++];
    listed.offset = extent->offset;
    listed.bytes = extent->bytes;
    listed.client_uuid = extent->owner.client_uuid;
    listed.incarnation = extent->owner.lease.incarnation;
    listed.owner = static_cast<uint16_t>(extent->owner.lease.compute);
    listed.kind = extent->kind;
    listed.is_waiting = extent->is_waiting ? 1 : 0;
    listed.is_orphaned = rules::IsOwned(leases_.IsInForce(extent->owner.lease)) ? 0 : 1;
    from = extent->offset + extent->bytes;
  }
  return Answer(message, reply);
}

control::StatReply ControlService::StatLocked() const {
  control::StatReply message;
  message.usage = allocator_.usage();
  message.extents = allocator_.extents();
  message.compute_servers = static_cast<uint32_t>(leases_.registered());
  message.lock_table_on_chip = lock_table_ == LockTablePlacement::kDeviceMemory ? 1 : 0;
  message.waiting_bytes = allocator_.waiting_bytes();
  message.orphaned_bytes = allocator_.orphaned_bytes();
  return message;
}

}  // namespace gossamer
