#include "compute/sim/verdict.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace gossamer::simulator {
namespace {

using namespace std::chrono_literals;

// After so many losses an operation that has written nothing does not start again (PROTOCOL.md, "Settling").
constexpr uint64_t kRetriesOfAnOperation = 16;
// A session that has asked for a queue pair in vain fails what it is given for so long (PROTOCOL.md, "Settling").
constexpr std::chrono::milliseconds kNotTriedAgain{500};

bool IsLoss(Code code) {
  return code == Code::kNodeUnreachable || code == Code::kFenced || code == Code::kMaybeApplied;
}

}  // namespace

bool ExplainsLoss(std::span<const SimFault> faults, const FailedOperation& operation,
                  SimFault::Clock::time_point now, Code code) {
  if (!IsLoss(code)) return false;
  uint64_t losses = 0;
  for (const SimFault& fault : faults) {
    // An endpoint of the store is not polled by itself, so that its faults may never end. A connection that it tried
    // in vain is at one moment: orphaned locks are settled over it.
    const bool is_moment = fault.from == fault.until;
    const bool counts = fault.has_owner || is_moment;
    const bool is_own = fault.endpoint_id == operation.endpoint_id;
    const bool is_remembered = is_moment && is_own && code == Code::kNodeUnreachable;
    const auto since = operation.since - (is_remembered ? kNotTriedAgain : 0ms);
    const bool is_met =
        counts && fault.client_uuid == operation.client_uuid && fault.Overlaps(since, now);
    if (!is_met) continue;
    const bool is_done_again =
        fault.kind == SimFault::Kind::kBreak || fault.kind == SimFault::Kind::kCall;
    if (!is_done_again) return true;
    if (is_own) ++losses;
  }
  return code == Code::kNodeUnreachable && losses > kRetriesOfAnOperation;
}

void Verdict::Wrong(std::string sentence) {
  constexpr size_t kKept = 5;
  if (problems_.size() < kKept) problems_.push_back(std::move(sentence));
}

void Verdict::Judge(const FailedOperation& operation, const Error& error) {
  // Contended is never explained: locks are taken from the dead, and nobody stops for as long as others wait.
  const bool is_explained =
      error.code == Code::kExhausted
          ? plan_.faults.has(Fault::kExhaust)
          : ExplainsLoss(network_.faults_met(), operation, network_.Now(), error.code) ||
                (error.code == Code::kNodeUnreachable && RecordExplains(operation.since));
  if (!is_explained) {
    return Wrong(operation.name + ": " + error.ToString() + ", and it met no fault");
  }
  ++explained_;
  if (error.code != Code::kExhausted) ++lost_;
}

// Nobody tries again for whom a connection breaks that it is just making.
bool Verdict::ExplainsOpening(uint64_t client_uuid, Endpoint::Clock::time_point since,
                              const Error& error) const {
  return IsLoss(error.code) &&
         std::ranges::any_of(network_.faults_met(), [&](const SimFault& fault) {
           return fault.client_uuid == client_uuid && fault.Overlaps(since, network_.Now());
         });
}

bool Verdict::may_die() const {
  const FaultSet& faults = plan_.faults;
  return faults.has(Fault::kKill) || faults.has(Fault::kCut) || faults.has(Fault::kPause) ||
         faults.has(Fault::kBreak) || faults.has(Fault::kPartition);
}

}  // namespace gossamer::simulator
