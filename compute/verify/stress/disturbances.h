// What a campaign does to processes while a store lives: it kills clients, and memory servers that
// come back with their memory, stops memory servers for a while, and makes memcached forget. None
// of it costs data.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"
#include "compute/verify/stress/clients.h"
#include "compute/verify/stress/cluster.h"
#include "compute/verify/stress/failed_call.h"
#include "compute/verify/stress/faults.h"
#include "compute/verify/stress/findings.h"
#include "gossamer/store.h"

namespace gossamer::stress {

class Disturbances {
 public:
  // Records what it does in `faults`. `failures` receives the errors of this process.
  Disturbances(const StressOptions& options, Cluster& cluster, const RunBoard& board,
               FailureLog failures, std::vector<Fault>& faults, Findings& findings);

  // Until the next call, performs at most the disturbances that are due after `part` of `parts` of
  // the run.
  void BeginPart(uint64_t part, uint64_t parts);
  bool has_more(const Clients& clients) const;
  // How much of the part has been done.
  uint32_t permille(const Clients& clients) const;
  // Waits for a random time, then performs one of the remaining disturbances, if any.
  Status Next(Clients& clients);
  // The same, but stops and starts no memory servers, and kills only clients that have done
  // something.
  Status NextMild(Clients& clients);
  // Makes memcached forget, if such a disturbance remains. Open stores go on.
  void Flush();

  bool has_guest() const { return has_guest_; }
  void GuestHasLeft() { has_guest_ = false; }

  void Judge(Findings& findings) const;

 private:
  struct Quota {
    uint64_t total = 0;
    uint64_t done = 0;
    uint64_t due = 0;  // in this part
    uint64_t begun_with = 0;
    uint64_t left() const { return due > done ? due - done : 0; }
  };

  void Pause();
  void CountKills(const Clients& clients);
  Status LoseRecord(Clients& clients, bool may_add_server);
  // Opens the store as soon as it is found, which must be the store that was open before. Records
  // how long after `since` that was.
  void AwaitRecord(size_t fault, std::optional<int64_t> since);
  Status AddGuest();
  void StopServer(Clients& clients);
  Status ReturnServer(Clients& clients);
  void AwaitProgress(Clients& clients);

  const StressOptions& options_;
  Cluster& cluster_;
  const RunBoard& board_;
  FailureLog failures_;
  std::vector<Fault>& faults_;
  Findings& findings_;
  Random random_;
  OpenOptions open_;
  Quota kills_;
  Quota flushes_;
  Quota stops_;
  Quota returns_;
  bool may_overlap_ = true;  // the next return of a server with the one before
  bool has_guest_ = false;
  uint64_t guests_ = 0;
  std::chrono::nanoseconds longest_absence_{0};
  std::chrono::nanoseconds longest_start_{0};  // of a server that comes back
};

}  // namespace gossamer::stress
