#include "common/bootstrap/membership.h"

#include <glog/logging.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "common/process.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Others may probe, or have died with memcached's lock.
constexpr milliseconds kJoinPatience{60'000};
constexpr milliseconds kFindInterval{50};
constexpr int kMaxAttempts = 64;

std::string Describe(const MemberRecord& member) {
  return "server " + std::to_string(ToInteger(member.server)) + " (host " + member.host +
         ", address " + member.address + ")";
}

std::string Named(const std::string& store, const Bootstrap& bootstrap) {
  return "store '" + store + "' at " + bootstrap.url();
}

Result<StoreRecord> Parse(const std::string& text, const std::string& store,
                          const Bootstrap& bootstrap) {
  std::string problem;
  std::optional<StoreRecord> record = ParseStoreRecord(text, problem);
  if (record && record->store != store) problem = "it is that of store '" + record->store + "'";
  if (problem.empty()) return *std::move(record);
  return MakeError(
      Code::kCorruption,
      "the record of " + Named(store, bootstrap) + " cannot be understood (" + problem +
          "): another version of Gossamer or another program wrote it; remove it, or use "
          "another --store");
}

// A record and the text it came from, for compare-and-swap.
struct Snapshot {
  std::optional<std::string> text;
  std::optional<StoreRecord> record;
};

Result<Snapshot> Read(Bootstrap& bootstrap, const std::string& store) {
  Snapshot snapshot;
  BOOST_OUTCOME_TRY(text, bootstrap.Get(store));
  if (text) {
    BOOST_OUTCOME_TRY(record, Parse(*text, store, bootstrap));
    snapshot.record = std::move(record);
  }
  snapshot.text = std::move(text);
  return snapshot;
}

template <typename Value>
Error Differs(const StoreRecord& record, const char* flag, const Value& theirs, const Value& ours) {
  std::ostringstream text;
  text << "store '" << record.store << "' was created with " << flag << "=" << theirs
       << ", this server was started with " << flag << "=" << ours
       << "; start it with the former, or give another --store";
  return MakeError(Code::kInvalidArgument, text.str());
}

Status Agree(const StoreRecord& record, const JoinOptions& options) {
  const StoreParameters& theirs = record.parameters;
  const StoreParameters& ours = options.parameters;
  if (record.fabric != options.fabric)
    return Differs(record, "--fabric", record.fabric, options.fabric);
  if (theirs.node_bytes != ours.node_bytes) {
    return Differs(record, "--node_bytes", theirs.node_bytes, ours.node_bytes);
  }
  if (theirs.max_key_bytes != ours.max_key_bytes) {
    return Differs(record, "--max_key_bytes", theirs.max_key_bytes, ours.max_key_bytes);
  }
  if (theirs.inline_value_bytes != ours.inline_value_bytes) {
    return Differs(record, "--inline_value_bytes", theirs.inline_value_bytes,
                   ours.inline_value_bytes);
  }
  return Ok();
}

enum class Verdict : uint8_t { kAbsent, kLost, kWhole };

// What is known of the recorded store, by asking its servers. See the table in membership.h.
Result<Verdict> Judge(const std::optional<StoreRecord>& record, const JoinOptions& options,
                      const LivenessProbe& probe, const Bootstrap& bootstrap) {
  if (!record) return Verdict::kAbsent;
  const MemberRecord* root = record->Find(ServerId{0});
  if (root == nullptr) return Verdict::kLost;
  const Liveness root_liveness = probe(*record, *root);
  if (root_liveness == Liveness::kDead) return Verdict::kLost;
  if (root_liveness != Liveness::kAlive) {
    if (options.replace_store) return Verdict::kLost;
    Error error = ServerUnreachable(*record, *root, root_liveness, bootstrap);
    error.message +=
        root_liveness == Liveness::kUnreachable
            ? "; the store's data is in that process: if it is stopped or its socket was removed, "
              "mend that; if the data may go, end the process first"
            : "; if it is gone for good, start this server with --replace_store, which creates a "
              "new, empty store";
    return error;
  }
  BOOST_OUTCOME_TRY(Agree(*record, options));
  for (const MemberRecord& member : record->servers) {
    if (member.server == ServerId{0}) continue;
    const Liveness liveness = probe(*record, member);
    if (liveness == Liveness::kDead) {
      Error error = ServerUnreachable(*record, member, liveness, bootstrap);
      error.message +=
          "; the keys it held are lost: stop the other servers of the store and start them anew";
      return error;
    }
    if (liveness != Liveness::kAlive) {
      LOG(WARNING) << ServerUnreachable(*record, member, liveness, bootstrap).message;
    }
  }
  return Verdict::kWhole;
}

void LogLostStore(const StoreRecord& record, const LivenessProbe& probe,
                  const Bootstrap& bootstrap) {
  LOG(WARNING)
      << Named(record.store, bootstrap)
      << " is lost with its server 0, which held the root: creating a new, empty one in its place";
  for (const MemberRecord& member : record.servers) {
    if (member.server != ServerId{0} && probe(record, member) == Liveness::kAlive) {
      LOG(WARNING) << Describe(member)
                   << " belongs to the lost store and serves nobody any more; stop it";
    }
  }
}

}  // namespace

Result<Joined> JoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                         const LivenessProbe& probe, const BringUp& bring_up) {
  BOOST_OUTCOME_TRY(CheckStoreName(options.store));
  std::unique_ptr<JoinLock> lock;
  Snapshot before;
  Verdict verdict = Verdict::kAbsent;
  // Servers are asked before the lock is taken, as dead ones may outlast the lock.
  for (int attempt = 0; lock == nullptr; ++attempt) {
    if (attempt == kMaxAttempts) {
      return MakeError(Code::kContended,
                       Named(options.store, bootstrap) + " keeps changing; try again");
    }
    BOOST_OUTCOME_TRY(judged, Read(bootstrap, options.store));
    BOOST_OUTCOME_TRY(judgement, Judge(judged.record, options, probe, bootstrap));
    BOOST_OUTCOME_TRY(locked, bootstrap.LockForJoin(options.store, kJoinPatience));
    BOOST_OUTCOME_TRY(now, Read(bootstrap, options.store));
    if (now.text != judged.text) continue;
    verdict = judgement;
    before = std::move(now);
    lock = std::move(locked);
  }

  Joined joined;
  joined.identity.incarnation = RandomId();
  StoreRecord& record = joined.record;
  if (verdict == Verdict::kWhole) {
    record = *before.record;
    if (record.next_server >= kMaxMemoryServers) {
      return MakeError(
          Code::kExhausted,
          Named(options.store, bootstrap) + " has had " + std::to_string(kMaxMemoryServers) +
              " memory servers, which is the most: a store never gives the id of a server again, "
              "as pointers hold it. Write its data to a file (gossamer dump), stop its servers, "
              "and load the file into a store that is started anew");
    }
  } else {
    if (verdict == Verdict::kLost) LogLostStore(*before.record, probe, bootstrap);
    record = {options.store, RandomId(), options.fabric, options.parameters, 0, {}};
    joined.identity.creates_store = true;
  }
  joined.identity.store_id = record.store_id;
  joined.identity.server = static_cast<ServerId>(record.next_server++);

  BOOST_OUTCOME_TRY(address, bring_up(joined.identity));
  if (!IsValidToken(address)) {
    return MakeError(Code::kInvalidArgument,
                     "address '" + address +
                         "' does not fit the record of a store: give --listen= one of at most " +
                         std::to_string(kMaxTokenBytes) + " ASCII characters, without blanks");
  }
  record.servers.push_back({joined.identity.server, joined.identity.incarnation, HostName(),
                            OwnProcessIdentity(), address});
  BOOST_OUTCOME_TRY(
      published, bootstrap.CompareAndSwap(options.store, before.text, EncodeStoreRecord(record)));
  if (!published) {
    return MakeError(Code::kContended,
                     "another memory server changed " + Named(options.store, bootstrap) +
                         " while this one started, for longer than a joining server may "
                         "take; start it again");
  }
  return joined;
}

Status LeaveStore(Bootstrap& bootstrap, const std::string& store, const MemberIdentity& identity) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(before, Read(bootstrap, store));
    if (!before.record || before.record->store_id != identity.store_id) return Ok();
    StoreRecord after = *before.record;
    const auto gone = std::erase_if(after.servers, [&](const MemberRecord& member) {
      return member.server == identity.server && member.incarnation == identity.incarnation;
    });
    if (gone == 0) return Ok();
    std::optional<std::string> text;
    if (!after.servers.empty()) text = EncodeStoreRecord(after);
    BOOST_OUTCOME_TRY(swapped, bootstrap.CompareAndSwap(store, before.text, text));
    if (swapped) return Ok();
  }
  return MakeError(Code::kContended, Named(store, bootstrap) + " keeps changing");
}

Result<StoreRecord> FindStore(Bootstrap& bootstrap, const FindOptions& options) {
  const auto deadline = steady_clock::now() + options.patience;
  while (true) {
    BOOST_OUTCOME_TRY(found, Read(bootstrap, options.store));
    if (found.record) {
      StoreRecord& record = *found.record;
      if (record.Find(ServerId{0}) == nullptr) {
        return MakeError(Code::kNodeUnreachable,
                         Named(options.store, bootstrap) +
                             " is lost: its server 0, which held the root, has stopped");
      }
      if (options.probe) {
        for (const MemberRecord& member : record.servers) {
          const Liveness liveness = options.probe(record, member);
          if (liveness != Liveness::kAlive)
            return ServerUnreachable(record, member, liveness, bootstrap);
        }
      }
      return std::move(record);
    }
    if (steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kFindInterval);
  }
  return MakeError(Code::kNotFound,
                   "there is no " + Named(options.store, bootstrap) +
                       "; start a memory server: gossamer-memory --memory=1GiB --store=" +
                       options.store + " --bootstrap=" + bootstrap.url());
}

Error ServerUnreachable(const StoreRecord& record, const MemberRecord& member, Liveness liveness,
                        const Bootstrap& bootstrap) {
  const std::string subject = Describe(member) + " of " + Named(record.store, bootstrap);
  switch (liveness) {
    case Liveness::kDead: return MakeError(Code::kNodeUnreachable, subject + " is dead");
    case Liveness::kUnreachable:
      return MakeError(Code::kNodeUnreachable,
                       subject + " lives as process " + ProcessIdOf(member.process) +
                           " on this host, but does not answer at its address");
    default: return MakeError(Code::kNodeUnreachable, subject + " does not answer");
  }
}

Liveness JudgeSilence(const StoreRecord& record, const MemberRecord& member) {
  const ProcessState state = LookUpProcess(member.process);
  if (state == ProcessState::kRunning) return Liveness::kUnreachable;
  const bool dead =
      state == ProcessState::kGone || (state == ProcessState::kOtherBoot && record.fabric == "shm");
  return dead ? Liveness::kDead : Liveness::kSilent;
}

}  // namespace gossamer
