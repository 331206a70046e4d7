// Which compute servers are registered with this memory server, and under which leases.
//
// A lease begins with a registration. It ends with ClientGone, when no verb of that compute server
// can land any more. A lease that is not renewed in time expires: its compute server is then
// fenced, which takes a moment. Until that is done the lease is in force (rule L6), but its holder
// cannot use it.
//
// A compute server that registers again keeps its id if possible. Once all 65535 ids have been
// used, ids of departed compute servers are reused.
//
// Invariant: no (compute id, incarnation) is given out twice, so that a lock word (rule L2) and the
// owner of an extent (rule U4) name one registration for ever. An id without incarnations left is
// never given out again. Likewise, epochs only grow: a compute server may acknowledge one of a
// former process. So a memory server whose memory outlives its process writes down the highest
// numbers that it has given. In the table of the next process, numbers begin above them.
// Memory: bounded by the number of ids, however often compute servers come and go.
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/granted_memory.h"
#include "common/status.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

// The highest incarnation of a lease, and the last epoch; 0: none yet.
struct GivenNumbers {
  uint32_t incarnation = 0;
  uint32_t epoch = 0;

  friend bool operator==(const GivenNumbers&, const GivenNumbers&) = default;
};

class LeaseTable {
 public:
  static constexpr size_t kMaxComputeServers = 65535;
  static constexpr uint32_t kMaxIncarnation = (1u << 24) - 1;

  // Since an arbitrary moment; the caller counts it.
  using Time = std::chrono::nanoseconds;

  using WriteDown = std::function<void(const GivenNumbers&)>;

  // All numbers are above those `given` by former processes, and incarnations are at most
  // `most_incarnations`. `write_down` is called before a number is given that is above all earlier
  // ones.
  explicit LeaseTable(const GivenNumbers& given = {}, WriteDown write_down = {},
                      uint32_t most_incarnations = kMaxIncarnation)
      : most_incarnations_(most_incarnations),
        after_(given.incarnation),
        given_(given),
        write_down_(std::move(write_down)) {
    StartEpoch();
  }

  // Returns the lease in force, or a new one. `process` appears in messages only.
  // Errors: Exhausted if all ids are in use, or no id has an incarnation left; Fenced while the
  // compute server is being fenced.
  Result<Lease> Register(uint64_t client_uuid, Time now = {},
                         const control::ProcessName& process = {});
  // Renews the lease and returns it.
  // Errors: Fenced if there is no lease or the compute server is being fenced.
  Result<Lease> Renew(uint64_t client_uuid, Time now);
  // Marks compute servers whose leases were last renewed at or before `time` as being fenced.
  // Returns the newly marked ones.
  std::vector<uint64_t> ExpireUpTo(Time time);
  // Ends the lease, if there is one, and returns it.
  std::optional<Lease> End(uint64_t client_uuid);
  std::optional<Lease> Find(uint64_t client_uuid) const;
  // Epochs: see proto/control.h.
  uint32_t epoch() const { return given_.epoch; }
  uint32_t StartEpoch() {
    ++given_.epoch;
    if (write_down_) write_down_(given_);
    return given_.epoch;
  }
  // The compute server has acknowledged all epochs up to `epoch`. Returns whether that is news.
  bool Acknowledge(uint64_t client_uuid, uint32_t epoch);
  // The last epoch that the compute server has acknowledged; 0 if it has no lease.
  uint32_t AcknowledgedBy(uint64_t client_uuid) const;
  // The oldest of the epochs that leases in force have acknowledged; the present one if there is no
  // lease. `holder`, unless null, gets one that has it.
  uint32_t OldestEpoch(Lease* holder = nullptr) const;

  // Whether `lease` is in force. False: its holder is fenced (rule L6).
  bool IsInForce(Lease lease) const;

  std::vector<LeaseInForce> InForce() const;  // by compute id

  size_t registered() const { return registered_; }
  // The process that registered `lease`, if the lease is in force; otherwise an empty name.
  control::ProcessName ProcessOf(Lease lease) const;

  // The number of ids of departed compute servers, which can be reused.
  size_t gone() const { return gone_.size(); }

 private:
  // State of compute id i + 1.
  struct Entry {
    uint64_t client_uuid = 0;
    uint32_t incarnation = 0;
    bool in_force = false;
    bool is_being_fenced = false;
    Time renewed_at{};
    // Acknowledged. Stays when the lease ends: its holder may come back with what it has cached.
    uint32_t epoch = 0;
    control::ProcessName process{};
    std::list<size_t>::iterator gone_at{};  // valid while the entry is in gone_
  };

  static Lease LeaseOf(size_t index, const Entry& entry) {
    return {static_cast<ComputeId>(index + 1), entry.incarnation};
  }
  bool IsUsedUp(const Entry& entry) const { return entry.incarnation == most_incarnations_; }
  Lease Begin(size_t index, Time now, const control::ProcessName& process);

  const uint32_t most_incarnations_;
  const uint32_t after_;
  GivenNumbers given_;
  WriteDown write_down_;
  std::vector<Entry> entries_;
  // The last compute server of each entry that is in force or in gone_.
  std::unordered_map<uint64_t, size_t> by_uuid_;
  std::list<size_t> gone_;  // entries not in force and not used up, in order of departure
  size_t registered_ = 0;
};

}  // namespace gossamer
