// FakeLeaseServer: a memory server over shm. Its control service manages leases, grants memory, and
// counts requests. All its clients share one lease.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "proto/control.h"
#include "proto/region.h"

namespace gossamer {

class FakeLeaseServer final : public ControlHandler {
 public:
  static constexpr uint64_t kExtentBytes = 64 << 10;

  explicit FakeLeaseServer(uint32_t lease_ms) : lease_ms_(lease_ms) {
    MemoryPortOptions options;
    options.region_bytes = 65536;
    options.lock_table_bytes = 4096;
    port_ = OpenMemoryPort(FabricKind::kShm, options).value();
    const Status started = port_->Start(*this, RandomId());
    if (!started) std::abort();
  }
  ~FakeLeaseServer() override { port_.reset(); }

  MemoryPort& port() { return *port_; }

  int registrations() const { return Locked(registrations_); }
  int renewals() const { return Locked(renewals_); }
  int queries() const { return Locked(queries_); }
  int gone() const { return Locked(gone_); }
  int allocations() const { return Locked(allocations_); }  // requested, granted or not
  int releases() const { return Locked(releases_); }
  int taken_offers() const { return Locked(taken_offers_); }  // also those that it refused
  // The last request for it.
  control::ReleaseRequest released() const {
    const std::lock_guard guard(mutex_);
    return released_;
  }
  // All later replies report this usage.
  void SetUsage(const control::Usage& usage) {
    const std::lock_guard guard(mutex_);
    usage_ = usage;
  }
  // From now on this is the present epoch.
  void SetEpoch(uint32_t epoch) {
    const std::lock_guard guard(mutex_);
    epoch_ = epoch;
  }
  // So many pieces of memory wait to be given up.
  void SetWaiting(uint32_t pieces) {
    const std::lock_guard guard(mutex_);
    waiting_ = pieces;
  }
  uint32_t waiting() const {
    const std::lock_guard guard(mutex_);
    return waiting_;
  }
  // Requests that give memory back are not answered while they are held.
  void HoldReleases(bool holds) {
    const std::lock_guard guard(mutex_);
    holds_releases_ = holds;
    released_changed_.notify_all();
  }
  bool IsHoldingRelease() const {
    const std::lock_guard guard(mutex_);
    return is_holding_;
  }
  // From now on refuses these requests.
  void Refuse(bool allocations, bool releases) {
    const std::lock_guard guard(mutex_);
    refuses_allocations_ = allocations;
    refuses_releases_ = releases;
  }
  void Allow(bool in_force) {
    const std::lock_guard guard(mutex_);
    in_force_ = in_force;
  }

  uint32_t Handle(uint64_t, std::span<const std::byte> request,
                  std::span<std::byte, kMaxControlBytes> reply) override {
    std::unique_lock guard(mutex_);
    control::Header header{};
    std::memcpy(&header, request.data(), std::min(request.size(), sizeof header));
    switch (header.type) {
      case control::Type::kRegister: {
        ++registrations_;
        control::RegisterReply message;
        message.compute_id = 7;
        message.incarnation = static_cast<uint32_t>(1 + gone_);
        message.lease_ms = lease_ms_;
        message.usage = usage_;
        return Write(message, reply);
      }
      case control::Type::kAllocate: {
        ++allocations_;
        if (refuses_allocations_) return Refusal(Code::kExhausted, reply);
        control::AllocateReply message;
        message.offset = kHeapOffset + static_cast<uint64_t>(granted_++) * kExtentBytes;
        message.bytes = kExtentBytes;
        message.compute_id = 7;
        message.incarnation = static_cast<uint32_t>(1 + gone_);
        message.usage = usage_;
        return Write(message, reply);
      }
      case control::Type::kRelease:
        is_holding_ = holds_releases_;
        released_changed_.wait(guard, [this] { return !holds_releases_; });
        is_holding_ = false;
        ++releases_;
        std::memcpy(&released_, request.data(), sizeof released_);
        if (refuses_releases_) return Refusal(Code::kInvalidArgument, reply);
        return Write(control::ReleaseReply{}, reply);
      case control::Type::kRenew: {
        ++renewals_;
        control::RenewRequest renewal;
        std::memcpy(&renewal, request.data(), sizeof renewal);
        control::RenewReply message;
        message.lease_ms = lease_ms_;
        message.compute_servers = 1;
        message.waiting =
            static_cast<uint16_t>(std::min<uint32_t>(waiting_, control::RenewReply::kMaxRanges));
        message.epoch = epoch_;
        message.acknowledged = acknowledged_ = std::max(acknowledged_, renewal.epoch);
        return Write(message, reply);
      }
      case control::Type::kGiveUp: {
        ++taken_offers_;
        if (refuses_releases_) return Refusal(Code::kFenced, reply);
        control::GiveUpReply message;
        message.bytes = std::min<uint32_t>(waiting_, control::RenewReply::kMaxRanges);
        waiting_ -= static_cast<uint32_t>(message.bytes);
        return Write(message, reply);
      }
      case control::Type::kLeaseQuery: {
        ++queries_;
        control::LeaseQueryReply message;
        message.in_force = in_force_ ? 1 : 0;
        return Write(message, reply);
      }
      default: return Write(control::ErrorReply{}, reply);
    }
  }
  void ClientGone(uint64_t) override {
    const std::lock_guard guard(mutex_);
    ++gone_;
  }

 private:
  template <typename Message>
  static uint32_t Write(const Message& message, std::span<std::byte, kMaxControlBytes> reply) {
    std::memcpy(reply.data(), &message, sizeof message);
    return sizeof message;
  }
  static uint32_t Refusal(Code code, std::span<std::byte, kMaxControlBytes> reply) {
    control::ErrorReply message;
    message.code = static_cast<uint8_t>(code);
    return Write(message, reply);
  }
  int Locked(const int& count) const {
    const std::lock_guard guard(mutex_);
    return count;
  }

  const uint32_t lease_ms_;
  mutable std::mutex mutex_;
  bool in_force_ = true;
  int registrations_ = 0;
  int renewals_ = 0;
  int queries_ = 0;
  int allocations_ = 0;
  int granted_ = 0;
  int releases_ = 0;
  int taken_offers_ = 0;
  control::ReleaseRequest released_;
  bool refuses_allocations_ = false;
  bool refuses_releases_ = false;
  control::Usage usage_{uint64_t{1} << 30, uint64_t{1} << 30, 0, 0};
  int gone_ = 0;
  uint32_t waiting_ = 0;
  uint32_t epoch_ = 0;
  uint32_t acknowledged_ = 0;
  bool holds_releases_ = false;
  bool is_holding_ = false;
  std::condition_variable released_changed_;
  std::unique_ptr<MemoryPort> port_;
};

// An endpoint with a manual clock.
class ClockedEndpoint final : public EndpointDecorator {
 public:
  explicit ClockedEndpoint(std::unique_ptr<Endpoint> endpoint)
      : EndpointDecorator(std::move(endpoint)) {}

  void Pass(Clock::duration time) { now_ += time; }

  // The clock is manual, so waiting is useless: on a busy machine each yield may take milliseconds.
  void Yield() override {}
  Clock::time_point Now() const override { return now_; }

 private:
  Clock::time_point now_{std::chrono::hours(1)};
};

}  // namespace gossamer
