// What is wrong with a run, and which errors its faults explain.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/status.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

// A client's operation that has just ended with an error.
struct FailedOperation {
  std::string name;  // for people
  uint64_t client_uuid = 0;
  uint64_t endpoint_id = 0;  // of its session
  Endpoint::Clock::time_point since;
  // Until when what it waited for seemed silent, because nobody ran: somebody opened or closed a
  // session, which is not polled; or its own client stood still, so often that its sessions take
  // that for a silent memory server.
  std::optional<Endpoint::Clock::time_point> stood_still_until = {};
};

// Whether one of `faults` explains that an operation, which ended at `now`, lost a memory server.
//
// The caller does not notice a lost call, which is repeated, or a broken queue pair, which is
// replaced and its verbs settled (PROTOCOL.md, "Errors"). There are two exceptions. An operation
// that has written nothing gives up after too many losses. A memory server may also stop, and so
// seem not to answer. Of lasting faults, those of another session count as well: it may have done
// this operation along with its own, or hold the lock.
bool ExplainsLoss(std::span<const SimFault> faults, const FailedOperation& operation,
                  SimFault::Clock::time_point now, Code code);

class Verdict {
 public:
  Verdict(const Plan& plan, const SimNetwork& network) : plan_(plan), network_(network) {}

  void Wrong(std::string sentence);
  // Nobody but the caller ran from then on until now.
  void StoodStillSince(Endpoint::Clock::time_point since) {
    if (network_.Now() > since) stood_still_until_ = network_.Now();
  }
  // The client stands still from now on.
  void ClientStops(uint64_t client_uuid, Endpoint::Clock::time_point until);
  // An operation ended with `error`. That is wrong unless the operation met a fault that explains
  // it.
  void Judge(FailedOperation operation, const Error& error);
  // Whether a client that began to open the store at `since` may fail with `error` now.
  bool ExplainsOpening(uint64_t client_uuid, Endpoint::Clock::time_point since,
                       const Error& error) const;
  // Whether the client came upon a memory server that is not there, or is another one, from `since`
  // on.
  bool HasMetGoneServer(uint64_t client_uuid, Endpoint::Clock::time_point since) const;
  // Whether a fault of the network has kept the client from memory servers so far.
  bool HasMetFault(uint64_t client_uuid) const;

  // From now on the store's record may be unreadable or incomplete; or it is intact again.
  void RecordIsLost() { is_record_lost_ = true; }
  void RecordIsBack() {
    is_record_lost_ = false;
    record_back_at_ = network_.Now();
  }

  // The store has lost a memory server, and its tree may lead there from now on.
  void ServerIsLost() { is_server_lost_ = true; }

  // A memory server is killed that is to come back; or it is back.
  void ServerGoes(size_t server) { absences_.push_back({server, network_.Now()}); }
  void ServerIsBack(size_t server);
  // Whether one was away at any time after that.
  bool HasGoneSince(Endpoint::Clock::time_point since) const;

  // Whether clients may die or lose their leases, and leave locks that no client has needed since.
  bool may_die() const;
  // Errors explained by a fault.
  uint64_t explained() const { return explained_; }
  // Those of them that lost a memory server or a lease.
  uint64_t lost() const { return lost_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  // Whether an operation may have failed to find a memory server, of which its session knows what
  // it has learnt from `since` on.
  bool RecordExplains(Endpoint::Clock::time_point since) const {
    return is_record_lost_ || (record_back_at_ && *record_back_at_ >= since);
  }

  struct Absence {
    size_t server;
    Endpoint::Clock::time_point from;
    Endpoint::Clock::time_point until = Endpoint::Clock::time_point::max();
  };

  // Whether the operation may have failed with `code` because a server was away for longer than
  // clients wait for it, or because servers were killed too often.
  bool AbsenceExplains(const FailedOperation& operation, Code code) const;
  // When the client looks again, at the latest, for a server that it missed at `time`.
  Endpoint::Clock::time_point NextLook(uint64_t client_uuid,
                                       Endpoint::Clock::time_point time) const;
  // The faults that an operation may have met and failed with `code`, besides those absences.
  std::vector<SimFault> FaultsMet(Code code) const;

  const Plan& plan_;
  const SimNetwork& network_;
  std::vector<Absence> absences_;
  std::optional<Endpoint::Clock::time_point> stood_still_until_;  // the last time
  struct Stop {
    Endpoint::Clock::time_point from;
    Endpoint::Clock::time_point until;
  };
  std::map<uint64_t, std::vector<Stop>> stops_;  // by client
  uint64_t explained_ = 0;
  uint64_t lost_ = 0;
  std::vector<std::string> problems_;
  bool is_record_lost_ = false;
  bool is_server_lost_ = false;
  std::optional<Endpoint::Clock::time_point> record_back_at_;
};

}  // namespace gossamer::simulator
