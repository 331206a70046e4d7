#include "compute/verify/stress/faults.h"

#include <algorithm>

#include "common/text/human.h"

namespace gossamer::stress {
namespace {

constexpr size_t kMaxExamples = 10;
// A client notices within the connection timeout of 2 s that a server has died (D5). On shm the
// server's memory exists until then, and other clients may see what is written there.
constexpr int64_t kNoticeNs = 4'000'000'000;
// A session asks a lost server again after 500 ms, and then learns that another took its place.
constexpr int64_t kAskAgainNs = 2'000'000'000;

bool Has(const FailedCall& failed, std::string_view text) {
  return failed.message().find(text) != std::string_view::npos;
}

// The holder of the lock cannot be determined any more.
bool IsOfALostLock(const FailedCall& failed) { return Has(failed, "may hold a lock there"); }

// The client's open store, or one just opened, reports what is gone and why.
bool SaysWhatHappened(const FailedCall& failed) {
  return Has(failed, "has been started anew") || Has(failed, "has left the store") ||
         Has(failed, "another store has the name");
}

bool ExplainsRestart(const Fault& fault, const FailedCall& failed) {
  switch (failed.code) {
    case Code::kMaybeApplied:
      return failed.call == Call::kWrite && failed.start < fault.gone + kNoticeNs;
    case Code::kNodeUnreachable:
      // A store is opened by its record, which may name a server that is gone.
      return failed.call == Call::kOpen || fault.back == 0 ||
             failed.start < fault.back + kAskAgainNs || SaysWhatHappened(failed) ||
             IsOfALostLock(failed);
    // The last server to leave a store removes the record.
    case Code::kNotFound: return failed.call == Call::kOpen;
    default: return false;
  }
}

// Open stores wait. A store is not opened while the server is away.
bool ExplainsReturn(const Fault& fault, const FailedCall& failed) {
  if (failed.code == Code::kMaybeApplied) return failed.call == Call::kWrite && fault.leaves_doubt;
  const bool opens =
      failed.call == Call::kOpen || failed.call == Call::kNewSession || failed.call == Call::kStat;
  return failed.code == Code::kNodeUnreachable && opens;
}

// With server 0 the record of its store goes, and the server that takes its place makes another
// store of that name. So any server that a client of the old store looks for cannot be found.
bool MakesAnotherStore(const Fault& fault, const FailedCall& failed) {
  return fault.kind == FaultKind::kRestart && fault.server == 0 &&
         Has(failed, "another store has the name");
}

// A stopped server answers no calls; nothing else changes, and no write is lost. But a write whose
// connection is lost meanwhile cannot be settled without a new one. A store opened without the
// server meanwhile rests before it asks again (RestAfterTry).
bool ExplainsStop(const Fault& fault, const FailedCall& failed) {
  const bool was_silent = Has(failed, "does not answer within");
  if (failed.code == Code::kMaybeApplied) return failed.call == Call::kWrite && was_silent;
  const bool is_soon = failed.start < fault.back + kAskAgainNs;
  return failed.code == Code::kNodeUnreachable && (is_soon || was_silent);
}

// Calls that need the record report that it was lost. Memory servers that joined late may have to
// put themselves back.
bool ExplainsFlush(const FailedCall& failed) {
  const bool says_so = Has(failed, "the record was lost") || Has(failed, "lost and put back") ||
                       Has(failed, "not by the store's record");
  const Code expected = failed.call == Call::kOpen ? Code::kNotFound : Code::kNodeUnreachable;
  return failed.code == expected && says_so;
}

bool ExplainsMemcachedRestart(const FailedCall& failed) {
  const bool is_away = failed.code == Code::kNodeUnreachable && Has(failed, "memcached");
  return is_away || ExplainsFlush(failed);
}

// A broken connection is replaced, and the caller notices nothing (PROTOCOL.md, "Errors"). But if
// it breaks while it is made, the server counts as unreachable. If it was the store's last
// connection to the server, the lease ends, and the outcome of verbs posted under it is unknown.
bool ExplainsLoss(const FailedCall& failed) {
  const bool connects =
      failed.call == Call::kOpen || failed.call == Call::kNewSession || failed.call == Call::kStat;
  const bool was_connecting =
      Has(failed, "ends while it is connected to") || Has(failed, "did not answer: peer lost");
  switch (failed.code) {
    case Code::kNodeUnreachable: return connects || was_connecting;
    case Code::kMaybeApplied: return was_connecting || Has(failed, "ended the lease");
    default: return false;
  }
}

}  // namespace

std::string_view FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kRestart: return "restart of a memory server";
    case FaultKind::kReturn: return "return of a memory server with its memory";
    case FaultKind::kStop: return "stop of a memory server for a while";
    case FaultKind::kFlush: return "flush of memcached";
    case FaultKind::kMemcachedRestart: return "restart of memcached";
    case FaultKind::kLoss: return "loss of a connection";
  }
  return "fault";
}

bool Explains(const Fault& fault, const FailedCall& failed) {
  if (failed.end < fault.from || failed.start > fault.until) return false;
  const std::optional<uint32_t> server = failed.server();
  if (server && fault.server && *server != *fault.server && !MakesAnotherStore(fault, failed)) {
    return false;
  }
  if (fault.client && *fault.client != failed.client) return false;
  switch (fault.kind) {
    case FaultKind::kRestart: return ExplainsRestart(fault, failed);
    case FaultKind::kReturn: return ExplainsReturn(fault, failed);
    case FaultKind::kStop: return ExplainsStop(fault, failed);
    case FaultKind::kFlush: return ExplainsFlush(failed);
    case FaultKind::kMemcachedRestart: return ExplainsMemcachedRestart(failed);
    case FaultKind::kLoss: return ExplainsLoss(failed);
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
