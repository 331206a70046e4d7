// What a campaign does to processes while a store lives: clients are killed, memory servers stop for a while, and
// memcached forgets. None of it costs data.
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
  // Adds what it does to `faults`. `failures` gets the errors of this process.
  Disturbances(const StressOptions& options, Cluster& cluster, const RunBoard& board,
               FailureLog failures, std::vector<Fault>& faults, Findings& findings);

  // Until the next call, at most so many of the run's disturbances as are due after `part` of `parts` of it.
  void BeginPart(uint64_t part, uint64_t parts);
  bool has_more(const Clients& clients) const;
  // How much of the part has been done.
  uint32_t permille(const Clients& clients) const;
  // Waits for a random time and does one of those that are left, if any.
  Status Next(Clients& clients);
  // The same, but does not stop memory servers, starts none, and kills clients that have done something.
  Status NextMild(Clients& clients);
  // memcached forgets, if that is to happen and is left. What was open goes on.
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
  // Opens the store, which is to be the one that was open before, as soon as it is found, and notes how
  // long that was after `since`.
  void AwaitRecord(size_t fault, std::optional<int64_t> since);
  Status AddGuest();
  void StopServer(Clients& clients);

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
  bool has_guest_ = false;
  uint64_t guests_ = 0;
  std::chrono::nanoseconds longest_absence_{0};
};

}  // namespace gossamer::stress
