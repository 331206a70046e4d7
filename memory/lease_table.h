// Which compute servers are registered with this memory server, and under which lease.
//
// A lease begins with a registration and ends with ClientGone, when no verb of that compute server
// can land any more. One that is not renewed in time expires: then its compute server is fenced,
// which takes a moment, and the lease is in force until that is done (rule L6), but of no use to
// its compute server any more. Invariant: no (compute id, incarnation) is given out twice, so that
// a lock word (rule L2) and the owner of an extent (rule U4) name one registration for good: an id
// whose incarnations are used up is never given out again. A compute server that comes again keeps
// its id where it can; ids of those that are gone serve others once all 65535 have been used.
// Memory: bounded by the ids, however often compute servers come and go. Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/granted_memory.h"
#include "common/status.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

class LeaseTable {
 public:
  static constexpr size_t kMaxComputeServers = 65535;
  static constexpr uint32_t kMaxIncarnation = (1u << 24) - 1;

  // Since an arbitrary moment; counted by the caller.
  using Time = std::chrono::nanoseconds;

  // Each id has the incarnations from 1 to `most_incarnations`.
  explicit LeaseTable(uint32_t most_incarnations = kMaxIncarnation)
      : most_incarnations_(most_incarnations) {}

  // The lease in force, or a new one. `process` appears in messages only. Exhausted when all ids are in use, Fenced while
  // the compute server is being fenced.
  Result<Lease> Register(uint64_t client_uuid, Time now = {},
                         const control::ProcessName& process = {});
  // Renews the lease and returns it. Fenced when there is none, or the compute server is being
  // fenced.
  Result<Lease> Renew(uint64_t client_uuid, Time now);
  // Takes note that the compute servers whose leases were last renewed at or before `time` are
  // being fenced. Returns those that were not before.
  std::vector<uint64_t> ExpireUpTo(Time time);
  // Ends the lease, if there is one, and returns it.
  std::optional<Lease> End(uint64_t client_uuid);
  std::optional<Lease> Find(uint64_t client_uuid) const;
  // Whether `lease` is in force: false means that its holder is fenced (rule L6).
  bool IsInForce(Lease lease) const;

  std::vector<LeaseInForce> InForce() const;
  // The compute server that has, or was the last to have, the id of `lease`.
  uint64_t ClientOf(Lease lease) const;

  size_t registered() const { return registered_; }
  // Who registered with a lease that is in force; else nobody.
  control::ProcessName ProcessOf(Lease lease) const;

  // Ids of compute servers that are gone, which may serve others.
  size_t gone() const { return gone_.size(); }

 private:
  // Of compute id i + 1.
  struct Entry {
    uint64_t client_uuid = 0;
    uint32_t incarnation = 0;
    bool in_force = false;
    bool is_being_fenced = false;
    Time renewed_at{};
    control::ProcessName process{};
    std::list<size_t>::iterator gone_at{};  // valid while the entry is in gone_
  };

  static Lease LeaseOf(size_t index, const Entry& entry) {
    return {static_cast<ComputeId>(index + 1), entry.incarnation};
  }
  bool IsUsedUp(const Entry& entry) const { return entry.incarnation == most_incarnations_; }
  Lease Begin(size_t index, Time now, const control::ProcessName& process);

  const uint32_t most_incarnations_;
  std::vector<Entry> entries_;
  // The last compute server of each entry that is in force or in gone_.
  std::unordered_map<uint64_t, size_t> by_uuid_;
  std::list<size_t> gone_;  // entries that are not in force and not used up, in the order they went
  size_t registered_ = 0;
};

}  // namespace gossamer
