// The control service: answers the messages of proto/control.h, on the port's control thread.
//
// Requests are bytes from the network. The service checks size, type, version and values before it
// acts, and answers an invalid request with an ErrorReply. Only registered compute servers get
// memory. It belongs to the lease under which it was requested: a compute server that registers
// again has abandoned its earlier memory (rule U4).
//
// Leases expire where the fabric does not observe death: a compute server that sends no message for
// `lease` is fenced. Only time in which this server runs counts. `Tick` measures it; a long gap
// between two ticks, in which messages may have waited, counts for little.
//
// Thread-safety: all calls from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/memory_port.h"
#include "common/fill_alarm.h"
#include "common/granted_memory.h"
#include "memory/chunk_allocator.h"
#include "memory/lease_table.h"
#include "memory/sweep_need.h"
#include "proto/control.h"

namespace gossamer {

// A compute server with a lease in force, for reports.
struct ClientInForce {
  Lease lease;
  control::ProcessName process;
  uint64_t granted_bytes = 0;  // under this lease
};

class ControlService final : public ControlHandler {
 public:
  using NowUs = std::function<uint64_t()>;

  // `lease`: a lease not renewed within this time expires; 0: leases do not expire.
  // `leases`: its numbers are above those of earlier processes, if they have left memory in
  // `allocator`. `now_us`: the server's clock; empty: one that begins here.
  ControlService(ChunkAllocator allocator, LockTableFacts lock_table,
                 std::chrono::milliseconds lease = {}, LeaseTable leases = LeaseTable(),
                 NowUs now_us = {});

  uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                  std::span<std::byte, kMaxControlBytes> reply) override;
  void ClientGone(uint64_t client_uuid) override;
  std::vector<uint64_t> Tick(Endpoint::Clock::time_point now) override;

  control::StatReply Stat() const;
  GrantedMemory Granted() const;
  // As ChunkAllocator::NextExtent.
  std::optional<ChunkAllocator::Extent> NextExtent(uint64_t from) const;
  std::vector<ClientInForce> Clients() const;  // by compute id

 private:
  struct Sender {
    uint64_t client_uuid;
    Result<Lease> lease;  // or the reason why it has none
  };

  // One for each request, under the mutex.
  Result<control::RegisterReply> Register(const Sender& sender,
                                          const control::RegisterRequest& request);
  Result<control::RenewReply> Renew(const Sender& sender, const control::RenewRequest& request);
  Result<control::EpochReply> Epoch(const Sender& sender, const control::EpochRequest& request);
  Result<control::SweepReply> Sweep(const Sender& sender, const control::SweepRequest& request);
  Result<control::LeaseQueryReply> QueryLease(const Sender& sender,
                                              const control::LeaseQueryRequest& request);
  Result<control::ClientQueryReply> QueryClient(const Sender& sender,
                                                const control::ClientQueryRequest& request);
  Result<control::AllocateReply> Allocate(const Sender& sender,
                                          const control::AllocateRequest& request);
  Result<control::ReleaseReply> Release(const Sender& sender,
                                        const control::ReleaseRequest& request);
  Result<control::GiveUpReply> GiveUp(const Sender& sender, const control::GiveUpRequest& request);
  Result<control::ListExtentsReply> ListExtents(const Sender& sender,
                                                const control::ListExtentsRequest& request);
  Result<control::StatReply> AnswerStat(const Sender& /*sender*/,
                                        const control::StatRequest& /*request*/) {
    return StatLocked();
  }
  // Starts an epoch after which worn memory is as new, if there is enough of it.
  void RenewWornMemory();
  control::StatReply StatLocked() const;

  mutable std::mutex mutex_;
  ChunkAllocator allocator_;
  LeaseTable leases_;
  SweepNeed sweeps_;
  const LockTableFacts lock_table_;
  const std::chrono::milliseconds lease_;
  const NowUs now_us_;
  LeaseTable::Time time_{};  // time that counts for leases
  uint16_t refusals_ = 0;    // requests for memory that there was not
  FillAlarm alarm_;
  std::optional<Endpoint::Clock::time_point> last_tick_;
};

}  // namespace gossamer
