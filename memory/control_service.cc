#include "memory/control_service.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/process.h"
#include "common/text/human.h"
#include "memory/rules.h"
#include "memory/server_clock.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using Reply = std::span<std::byte, kMaxControlBytes>;

// A gap between two ticks counts for at most 1/kGapsPerLease of a lease.
constexpr int kGapsPerLease = 8;

static_assert(kMaxControlBytes >= control::kMaxMessageBytes);

template <typename Message>
uint32_t Send(const Message& message, Reply reply) {
  static_assert(sizeof(Message) <= kMaxControlBytes);
  std::memcpy(reply.data(), &message, sizeof message);
  return sizeof message;
}

uint32_t Send(const Error& error, Reply reply) {
  const std::string& why = error.message;
  control::ErrorReply message;
  message.code = static_cast<uint8_t>(error.code);
  message.message_bytes = static_cast<uint8_t>(std::min(why.size(), sizeof message.message));
  std::memcpy(message.message, why.data(), message.message_bytes);
  return Send(message, reply);
}

Error Invalid(std::string why) { return MakeError(Code::kInvalidArgument, std::move(why)); }

Error WrongSize(std::span<const std::byte> request) {
  return Invalid(fmt::format("a control message of {} bytes is none of its type", request.size()));
}

}  // namespace

ControlService::ControlService(ChunkAllocator allocator, LockTableFacts lock_table,
                               std::chrono::milliseconds lease, LeaseTable leases, NowUs now_us)
    : allocator_(std::move(allocator)),
      leases_(std::move(leases)),
      lock_table_(std::move(lock_table)),
      lease_(lease),
      now_us_(now_us ? std::move(now_us)
                     : [clock = ServerClock(nullptr)] { return clock.NowUs(); }) {
  if (allocator_.orphaned_bytes() != 0) sweeps_.EndedBefore();
}

uint32_t ControlService::Handle(uint64_t client_uuid, std::span<const std::byte> request,
                                std::span<std::byte, kMaxControlBytes> reply) {
  control::Header header;
  if (request.size() < sizeof header) return Send(WrongSize(request), reply);
  std::memcpy(&header, request.data(), sizeof header);
  if (header.version != control::kProtocolVersion) {
    const std::string why =
        fmt::format("control protocol version {} was sent, this memory server speaks {}",
                    header.version, control::kProtocolVersion);
    return Send(MakeError(Code::kUnsupported, why), reply);
  }
  const std::lock_guard guard(mutex_);
  // Every request renews the lease. A request that needs a lease reports that there is none.
  const Sender sender{client_uuid, leases_.Renew(client_uuid, time_)};
  const auto answer_by = [&]<typename Request, typename Message>(Result<Message> (
                             ControlService::*handle)(const Sender&, const Request&)) {
    Request decoded;
    if (request.size() != sizeof decoded) return Send(WrongSize(request), reply);
    std::memcpy(&decoded, request.data(), sizeof decoded);
    const Result<Message> message = (this->*handle)(sender, decoded);
    return message ? Send(message.value(), reply) : Send(message.error(), reply);
  };
  switch (header.type) {
    case control::Type::kRegister: return answer_by(&ControlService::Register);
    case control::Type::kAllocate: return answer_by(&ControlService::Allocate);
    case control::Type::kRelease: return answer_by(&ControlService::Release);
    case control::Type::kGiveUp: return answer_by(&ControlService::GiveUp);
    case control::Type::kStat: return answer_by(&ControlService::AnswerStat);
    case control::Type::kListExtents: return answer_by(&ControlService::ListExtents);
    case control::Type::kRenew: return answer_by(&ControlService::Renew);
    case control::Type::kEpoch: return answer_by(&ControlService::Epoch);
    case control::Type::kClientQuery: return answer_by(&ControlService::QueryClient);
    case control::Type::kSweep: return answer_by(&ControlService::Sweep);
    case control::Type::kLeaseQuery: return answer_by(&ControlService::QueryLease);
    case control::Type::kError: break;
  }
  return Send(
      Invalid(fmt::format("control message type {} is none", static_cast<uint16_t>(header.type))),
      reply);
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

std::optional<ChunkAllocator::Extent> ControlService::NextExtent(uint64_t from) const {
  const std::lock_guard guard(mutex_);
  return allocator_.NextExtent(from);
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
  std::vector<ClientInForce> clients;
  for (const auto& [client_uuid, lease] : leases_.InForce()) {
    clients.push_back({lease, leases_.ProcessOf(lease), allocator_.BytesOf(lease)});
  }
  return clients;
}

Result<control::RegisterReply> ControlService::Register(const Sender& sender,
                                                        const control::RegisterRequest& request) {
  BOOST_OUTCOME_TRY(lease, leases_.Register(sender.client_uuid, time_, request.process));
  sweeps_.Registered(sender.client_uuid);
  control::RegisterReply message;
  message.compute_id = static_cast<uint16_t>(lease.compute);
  message.incarnation = lease.incarnation;
  message.lease_ms = static_cast<uint32_t>(lease_.count());
  message.usage = allocator_.usage();
  message.clock_us = now_us_();
  return message;
}

Result<control::RenewReply> ControlService::Renew(const Sender& sender,
                                                  const control::RenewRequest& request) {
  if (!sender.lease) return sender.lease.error();
  if (leases_.Acknowledge(sender.client_uuid, request.epoch)) {
    allocator_.EndEpochsBefore(leases_.OldestEpoch());
  }
  control::RenewReply message;
  message.clock_us = now_us_();
  message.epoch = leases_.epoch();
  message.acknowledged = leases_.AcknowledgedBy(sender.client_uuid);
  const ChunkAllocator::Offer offer =
      allocator_.MakeOffer(sender.lease.value(), control::RenewReply::kMaxRanges);
  message.waiting = static_cast<uint16_t>(offer.ranges.size());
  message.offer = offer.number;
  message.refusals = refusals_;
  std::ranges::copy(offer.ranges, message.ranges);
  message.lease_ms = static_cast<uint32_t>(lease_.count());
  message.compute_servers = static_cast<uint32_t>(leases_.registered());
  return message;
}

Result<control::EpochReply> ControlService::Epoch(const Sender& /*sender*/,
                                                  const control::EpochRequest& request) {
  control::EpochReply message;
  message.epoch = request.start != 0 ? leases_.StartEpoch() : leases_.epoch();
  Lease last;
  message.acknowledged = leases_.OldestEpoch(&last);
  message.last = leases_.ProcessOf(last);
  return message;
}

Result<control::SweepReply> ControlService::Sweep(const Sender& sender,
                                                  const control::SweepRequest& request) {
  const bool needs_lease =
      request.step == control::SweepStep::kBegin || request.step == control::SweepStep::kFarewell;
  if (needs_lease && !sender.lease) return sender.lease.error();
  if (request.step > control::SweepStep::kFarewell) {
    return Invalid(fmt::format("step {} of a sweep is none", static_cast<uint8_t>(request.step)));
  }
  return sweeps_.Take(sender.client_uuid, request);
}

Result<control::ClientQueryReply> ControlService::QueryClient(
    const Sender& /*sender*/, const control::ClientQueryRequest& request) {
  const std::optional<Lease> lease = leases_.Find(request.client_uuid);
  control::ClientQueryReply message;
  message.in_force = lease ? 1 : 0;
  message.incarnation = lease ? lease->incarnation : 0;
  return message;
}

Result<control::LeaseQueryReply> ControlService::QueryLease(
    const Sender& /*sender*/, const control::LeaseQueryRequest& request) {
  const Lease lease{static_cast<ComputeId>(request.compute_id), request.incarnation};
  control::LeaseQueryReply message;
  message.in_force = leases_.IsInForce(lease) ? 1 : 0;
  message.holder = leases_.ProcessOf(lease);
  return message;
}

Result<control::AllocateReply> ControlService::Allocate(const Sender& sender,
                                                        const control::AllocateRequest& request) {
  if (!sender.lease) return sender.lease.error();
  if (request.kind != control::ExtentKind::kNodes && request.kind != control::ExtentKind::kBlocks) {
    return Invalid(fmt::format("extent kind {} is none", static_cast<uint8_t>(request.kind)));
  }
  std::vector<ChunkAllocator::Extent> extents = allocator_.AllocateWaiting(
      request.bytes, sender.lease.value(), request.kind, 1 + control::AllocateReply::kMaxMore);
  if (extents.empty()) {
    const auto extent = allocator_.Allocate(
        request.bytes, {sender.lease.value(), sender.client_uuid}, request.kind);
    if (!extent) {
      if (extent.error().code == Code::kExhausted) ++refusals_;
      return extent.error();
    }
    extents.push_back(extent.value());
  }
  sweeps_.Allocated(sender.client_uuid);
  control::AllocateReply message;
  const ChunkAllocator::Extent& first = extents.front();
  message.offset = rules::GrantedAt(first.offset, first.bytes, kHeapOffset);
  message.bytes = first.bytes;
  message.generation = first.generation();
  message.more = static_cast<uint8_t>(extents.size() - 1);
  for (size_t i = 1; i < extents.size(); ++i) {
    message.extents[i - 1] = {extents[i].offset, extents[i].bytes, extents[i].generation()};
  }
  message.compute_id = static_cast<uint16_t>(sender.lease.value().compute);
  message.incarnation = sender.lease.value().incarnation;
  message.usage = allocator_.usage();
  const control::Usage& usage = message.usage;
  const uint32_t percent = alarm_.Update(usage.heap_bytes - usage.free_bytes, usage.heap_bytes);
  if (percent != 0) {
    LOG(WARNING) << percent << " % of this server's memory is handed out, "
                 << HumanBytes(usage.free_bytes) << " is free: " << kFullRemedy;
  }
  return message;
}

Result<control::ReleaseReply> ControlService::Release(const Sender& sender,
                                                      const control::ReleaseRequest& request) {
  if (!sender.lease) return sender.lease.error();
  const Lease freed_under{static_cast<ComputeId>(request.compute_id), request.incarnation};
  if (freed_under != sender.lease.value()) {
    return MakeError(Code::kFenced, "the lease has ended under which the memory became free");
  }
  if (request.count == 0 || request.count > control::ReleaseRequest::kMaxRanges) {
    return Invalid(fmt::format("{} ranges of memory cannot be given back at once", request.count));
  }
  control::ReleaseReply message;
  for (uint32_t i = 0; i < request.count; ++i) {
    const Status taken = allocator_.Release(
        request.ranges[i], sender.lease.value(), leases_.epoch(),
        [this](Lease owner) { return rules::IsOwned(leases_.IsInForce(owner)); });
    if (taken) continue;
    message.refused |= 1u << i;
    LOG_EVERY_T(WARNING, 10) << "compute server "
                             << static_cast<uint16_t>(sender.lease.value().compute) << ": "
                             << taken.error().message;
  }
  RenewWornMemory();
  return message;
}

Result<control::GiveUpReply> ControlService::GiveUp(const Sender& sender,
                                                    const control::GiveUpRequest& request) {
  if (!sender.lease) return sender.lease.error();
  const Lease offered_to{static_cast<ComputeId>(request.compute_id), request.incarnation};
  if (offered_to != sender.lease.value()) {
    return MakeError(Code::kFenced, "the lease has ended to which memory was offered");
  }
  control::GiveUpReply message;
  message.bytes = allocator_.GiveUp(sender.lease.value(), request.offer);
  return message;
}

// Not before much is worn: an epoch costs all compute servers what they have cached.
void ControlService::RenewWornMemory() {
  constexpr uint64_t kShareWorn = 16;
  if (allocator_.worn_bytes() * kShareWorn < allocator_.heap_bytes()) return;
  if (leases_.OldestEpoch() == leases_.epoch()) leases_.StartEpoch();
}

Result<control::ListExtentsReply> ControlService::ListExtents(
    const Sender& /*sender*/, const control::ListExtentsRequest& request) {
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
  return message;
}

control::StatReply ControlService::StatLocked() const {
  control::StatReply message;
  message.usage = allocator_.usage();
  message.extents = allocator_.extents();
  message.compute_servers = static_cast<uint32_t>(leases_.registered());
  message.lock_table_on_chip = lock_table_.placement == LockTablePlacement::kDeviceMemory ? 1 : 0;
  lock_table_.why.copy(message.lock_table_why, sizeof message.lock_table_why);
  message.waiting_bytes = allocator_.waiting_bytes();
  message.orphaned_bytes = allocator_.orphaned_bytes();
  return message;
}

}  // namespace gossamer
