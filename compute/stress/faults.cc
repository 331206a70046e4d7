#include "compute/stress/faults.h"

#include <algorithm>

#include "common/fabric/fabric.h"
#include "common/human.h"

namespace gossamer::stress {
namespace {

constexpr size_t kMaxExamples = 10;
// A client notices within the time-out of connections, of 2 s, that a server has died (D5). In shm its memory is there up
// to then, and what is written there may be seen by other clients.
constexpr int64_t kNoticeNs = 4'000'000'000;
// A session asks a lost server again after 500 ms, and then knows that there is another in its place.
constexpr int64_t kAskAgainNs = 2'000'000'000;

bool Has(const FailedCall& failed, std::string_view text) {
  return failed.message().find(text) != std::string_view::npos;
}

// A lock of which nobody can find out any more who has it.
bool IsOfALostLock(const FailedCall& failed) { return Has(failed, "may hold a lock there"); }

// Of the store that a client has open, or has just opened: whatever is not there any more, and why.
bool SaysWhatHappened(const FailedCall& failed) {
  return Has(failed, kStartedAnew) || Has(failed, "has left the store") ||
         Has(failed, "another store has the name");
}

bool ExplainsRestart(const Fault& fault, const FailedCall& failed) {
  switch (failed.code) {
    case Code::kMaybeApplied:
      return failed.call == Call::kWrite && failed.start < fault.gone + kNoticeNs;
    case Code::kNodeUnreachable:
      // Stores are opened by what the record says.
      return failed.call == Call::kOpen || fault.back == 0 ||
             failed.start < fault.back + kAskAgainNs || SaysWhatHappened(failed) ||
             IsOfALostLock(failed);
    // The last server of a store takes the record along.
    case Code::kNotFound: return failed.call == Call::kOpen;
    default: return false;
  }
}

}  // namespace

std::string_view FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kRestart: return "restart of a memory server";
  }
  return "fault";
}

bool Explains(const Fault& fault, const FailedCall& failed) {
  if (failed.end < fault.from || failed.start > fault.until) return false;
  const std::optional<uint32_t> server = failed.server();
  if (server && fault.server && *server != *fault.server) return false;
  switch (fault.kind) {
    case FaultKind::kRestart: return ExplainsRestart(fault, failed);
  }
  return false;
}

void FaultTable::Judge(std::span<const Fault> faults, std::span<const FailedCall> failures) {
  for (const Fault& fault : faults) ++faults_[fault.kind];
  for (const FailedCall& failed : failures) {
    const auto cause =
        std::ranges::find_if(faults, [&](const Fault& fault) { return Explains(fault, failed); });
    const bool is_explained = cause != faults.end();
    Row row{std::nullopt, failed.code, SaysWhatHappened(failed), failed.call};
    if (is_explained) row.fault = cause->kind;
    Effect& effect = rows_[row];
    if (effect.count++ == 0) effect.example = std::string(failed.message());
    if (is_explained) continue;
    ++unexplained_;
    if (examples_.size() < kMaxExamples) examples_.push_back(stress::ToString(failed));
  }
}

std::string FaultTable::ToString() const {
  std::string text;
  for (const auto& [kind, count] : faults_) {
    text +=
        "faults      " +
        HumanQuantity(count, std::string(FaultName(kind)), "x " + std::string(FaultName(kind))) +
        "\n";
  }
  for (const auto& [row, effect] : rows_) {
    text += "errors      " + HumanCount(effect.count) + " x " + std::string(CodeName(row.code)) +
            " of " + std::string(CallName(row.call)) + ": " +
            (row.fault ? "explained by the " + std::string(FaultName(*row.fault)) : "UNEXPLAINED") +
            ", as \"" + effect.example + "\"\n";
  }
  return text;
}

}  // namespace gossamer::stress
