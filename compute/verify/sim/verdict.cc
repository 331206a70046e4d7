#include "compute/verify/sim/verdict.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "compute/session/registration.h"

namespace gossamer::simulator {
namespace {

using namespace std::chrono_literals;

// An operation that has written nothing does not restart after so many losses (PROTOCOL.md,
// "Settling").
constexpr uint64_t kRetriesOfAnOperation = 16;
// After failing to find a memory server, these fail operations that need it for so long: a session
// (PROTOCOL.md, "Settling"), and a store, which leaves the server out for four times as long as it
// looked. Servers stop for up to 400 ms.
constexpr std::chrono::milliseconds kNotTriedAgain{500};
constexpr std::chrono::milliseconds kLeftOut{2000};

bool IsLoss(Code code) {
  return code == Code::kNodeUnreachable || code == Code::kFenced || code == Code::kMaybeApplied;
}

// For how long after its end this fault may keep an operation of that session from the memory
// server.
std::chrono::milliseconds Remembered(const SimFault& fault, uint64_t endpoint_id) {
  const bool is_moment = fault.from == fault.until;
  const bool is_waited_for = fault.kind == SimFault::Kind::kStopped;
  const bool is_lost_call = fault.kind == SimFault::Kind::kCall;
  if (!is_moment && !is_waited_for && !is_lost_call) return {};
  if (!fault.has_owner) return kLeftOut;
  return fault.endpoint_id == endpoint_id ? kNotTriedAgain : std::chrono::milliseconds(0);
}

}  // namespace

bool ExplainsLoss(std::span<const SimFault> faults, const FailedOperation& operation,
                  SimFault::Clock::time_point now, Code code) {
  if (!IsLoss(code)) return false;
  uint64_t losses = 0;
  bool has_own_loss = false;
  const auto remembered_for =
      code == Code::kNodeUnreachable ? kNotTriedAgain : std::chrono::milliseconds(0);
  bool has_waited = operation.stood_still_until &&
                    *operation.stood_still_until >= operation.since - remembered_for;
  bool has_lost = false;
  for (const SimFault& fault : faults) {
    const bool is_own = fault.endpoint_id == operation.endpoint_id;
    auto since = operation.since;
    if (code == Code::kNodeUnreachable) since -= Remembered(fault, operation.endpoint_id);
    if (fault.client_uuid != operation.client_uuid || !fault.Overlaps(since, now)) continue;
    const bool concerns_session = is_own || !fault.has_owner;
    switch (fault.kind) {
      case SimFault::Kind::kBreak:
      case SimFault::Kind::kCall:
        has_lost = has_lost || concerns_session;
        // Losses of other sessions count too: the allocator skips a server they lost for this one
        // as well.
        has_own_loss = has_own_loss || is_own;
        ++losses;
        break;
      case SimFault::Kind::kStopped: has_waited = has_waited || concerns_session; break;
      case SimFault::Kind::kLinkDown:
      case SimFault::Kind::kFenced:
      case SimFault::Kind::kServer:
        // A store's endpoint is not polled on its own, so its faults may never end. A failed
        // attempt to connect is momentary: servers are added and orphaned locks settled over that
        // endpoint.
        if (fault.has_owner || fault.from == fault.until) return true;
    }
  }
  if (has_waited && has_lost) return true;
  return code == Code::kNodeUnreachable && has_own_loss && losses > kRetriesOfAnOperation;
}

void Verdict::Wrong(std::string sentence) {
  constexpr size_t kKept = 5;
  if (problems_.size() < kKept) problems_.push_back(std::move(sentence));
}

void Verdict::ClientStops(uint64_t client_uuid, Endpoint::Clock::time_point until) {
  stops_[client_uuid].push_back({network_.Now(), until});
}

void Verdict::Judge(FailedOperation operation, const Error& error) {
  operation.stood_still_until = stood_still_until_;
  const auto stops = stops_.find(operation.client_uuid);
  if (stops != stops_.end()) {
    std::vector<Stop> silences = stops->second;
    std::erase_if(silences,
                  [](const Stop& stop) { return stop.until - stop.from < kSilentRegistration; });
    if (silences.size() >= kMostSilences) {
      operation.stood_still_until =
          std::max(operation.stood_still_until, std::optional(silences.back().until));
    }
  }
  // Contended is never explained: locks of the dead are taken over, and stops are shorter than
  // waits.
  const bool is_explained =
      error.code == Code::kExhausted
          ? plan_.faults.has(Fault::kExhaust)
          : (is_server_lost_ && IsLoss(error.code)) || AbsenceExplains(operation, error.code) ||
                ExplainsLoss(FaultsMet(error.code), operation, network_.Now(), error.code) ||
                (error.code == Code::kNodeUnreachable &&
                 RecordExplains(operation.since - kNotTriedAgain));
  if (!is_explained) {
    return Wrong(operation.name + ": " + error.ToString() + ", and it met no fault");
  }
  ++explained_;
  if (error.code != Code::kExhausted) ++lost_;
}

void Verdict::ServerIsBack(size_t server) {
  for (Absence& absence : absences_) {
    if (absence.server == server) absence.until = std::min(absence.until, network_.Now());
  }
}

bool Verdict::AbsenceExplains(const FailedOperation& operation, Code code) const {
  const auto since = operation.since;
  const auto now = network_.Now();
  const std::chrono::milliseconds patience(plan_.reconnect_ms);
  if (code != Code::kNodeUnreachable && code != Code::kFenced) return false;
  // An operation goes on for that long since its first loss, and starts again until then.
  if (now - since >= patience && HasGoneSince(since)) return true;
  if (code == Code::kFenced) return false;
  // Absences with no look between them are one to the client.
  std::optional<Absence> longer;
  const auto explains = [&] {
    return longer && since <= longer->until + kNotTriedAgain &&
           longer->until - longer->from >= patience;
  };
  for (const Absence& absence : absences_) {
    const auto until = NextLook(operation.client_uuid, std::min(now, absence.until));
    if (longer && absence.from <= longer->until) {
      longer->until = std::max(longer->until, until);
      continue;
    }
    if (explains()) break;
    longer = Absence{absence.server, absence.from, until};
  }
  return explains();
}

Endpoint::Clock::time_point Verdict::NextLook(uint64_t client_uuid,
                                              Endpoint::Clock::time_point time) const {
  constexpr std::chrono::milliseconds kLook{40};
  const auto stops = stops_.find(client_uuid);
  if (stops == stops_.end()) return time + kLook;
  // It cannot look while it stands still. Its sessions may go on later.
  for (const Stop& stop : stops->second) {
    const auto goes_on = stop.until + std::chrono::microseconds(plan_.longest_lag_us);
    if (stop.from <= time + kLook) time = std::max(time, goes_on);
  }
  return time + kLook;
}

bool Verdict::HasGoneSince(Endpoint::Clock::time_point since) const {
  return std::ranges::any_of(absences_,
                             [since](const Absence& absence) { return absence.until > since; });
}

// The end of a server explains that a write is unknown which its queue pair took. All else waits
// for the server to come back.
std::vector<SimFault> Verdict::FaultsMet(Code code) const {
  std::vector<SimFault> faults = network_.faults_met();
  if (plan_.returns == 0) return faults;
  std::erase_if(faults, [code](const SimFault& fault) {
    return fault.kind == SimFault::Kind::kServer &&
           (code != Code::kMaybeApplied || fault.from == fault.until);
  });
  return faults;
}

// A connection that breaks while it is made is not retried for the caller.
bool Verdict::ExplainsOpening(uint64_t client_uuid, Endpoint::Clock::time_point since,
                              const Error& error) const {
  if (IsLoss(error.code) && HasGoneSince(since)) return true;
  return IsLoss(error.code) &&
         std::ranges::any_of(network_.faults_met(), [&](const SimFault& fault) {
           return fault.client_uuid == client_uuid && fault.Overlaps(since, network_.Now());
         });
}

bool Verdict::HasMetGoneServer(uint64_t client_uuid, Endpoint::Clock::time_point since) const {
  return std::ranges::any_of(network_.faults_met(), [&](const SimFault& fault) {
    return fault.kind == SimFault::Kind::kServer && fault.client_uuid == client_uuid &&
           fault.Overlaps(since, network_.Now());
  });
}

bool Verdict::HasMetFault(uint64_t client_uuid) const {
  return std::ranges::any_of(network_.faults_met(), [client_uuid](const SimFault& fault) {
    return fault.client_uuid == client_uuid;
  });
}

bool Verdict::may_die() const {
  const FaultSet& faults = plan_.faults;
  return faults.has(Fault::kKill) || faults.has(Fault::kCut) || faults.has(Fault::kPause) ||
         faults.has(Fault::kBreak) || faults.has(Fault::kPartition);
}

}  // namespace gossamer::simulator
