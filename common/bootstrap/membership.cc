#include "common/bootstrap/membership.h"

#include <fmt/core.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/process.h"
#include "common/random_id.h"
#include "proto/formats.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For the first server of a store, which may itself wait for a lost record.
constexpr milliseconds kStoreToJoinPatience{15'000};
constexpr milliseconds kPollInterval{50};
constexpr milliseconds kLongEnoughToTell{1000};
// A join ends after this many times the time that a text must stand.
constexpr int kMostWaits = 20;

enum class Verdict : uint8_t { kAbsent, kLost, kWhole };

struct Judgement {
  Verdict verdict = Verdict::kAbsent;
  std::vector<ServerId> forgotten = {};  // dead, to be taken out of the record
};

// Whether the dead `member` may be an earlier process of the service that `options` are of. Of that
// one systemd has no memory (any more): it would not join, but come back.
bool MayHaveLost(const MemberRecord& member, const JoinOptions& options) {
  return member.region == kKeptBySystemd && options.region == kKeptBySystemd &&
         member.host == HostName();
}

// Of a member that is down.
std::string WithSystemd(const MemberRecord& member, const Bootstrap& bootstrap,
                        const StoreRecord& record) {
  return fmt::format(
      "{} of {} is down, and had its memory with systemd, which has none of this service: if this "
      "is the service of server {}, ",
      Describe(member), Named(record.store, bootstrap), ToInteger(member.server));
}

// Of a store that was restored from saved files, and lacks server 0.
std::string RootIsAwaited(const StoreRecord& record, const Bootstrap& bootstrap) {
  return fmt::format(
      "{} was restored from saved files, and server 0, which has the tree's root, has not come "
      "back: start it with its file of set {:016x}",
      Named(record.store, bootstrap), record.AwaitedSetOf(ServerId{0}));
}

// Judges the recorded store by asking its servers. See the list in membership.h.
Result<Judgement> Judge(const std::optional<StoreRecord>& record, const JoinOptions& options,
                        const LivenessProbe& probe, const Bootstrap& bootstrap) {
  if (!record) return Judgement{Verdict::kAbsent};
  const MemberRecord* root = record->Find(ServerId{0});
  if (root == nullptr && record->AwaitedSetOf(ServerId{0}) != 0 && !options.replace_store) {
    return MakeError(Code::kNodeUnreachable,
                     RootIsAwaited(*record, bootstrap) +
                         "; if the data may go, start this server with --replace_store");
  }
  if (root == nullptr) return Judgement{Verdict::kLost};
  const Probed probed_root = probe(*record, *root);
  const bool is_dead = probed_root.liveness == Liveness::kDead;
  if (is_dead && (!MayReturn(*root) || options.replace_store)) return Judgement{Verdict::kLost};
  if (is_dead && MayHaveLost(*root, options)) {
    return MakeError(Code::kNodeUnreachable,
                     WithSystemd(*root, bootstrap, *record) +
                         "the store is lost: --replace_store begins a new one; otherwise start the "
                         "service of server 0 first");
  }
  if (is_dead) {
    return MakeError(Code::kNodeUnreachable,
                     Describe(*root) + " of " + Named(record->store, bootstrap) +
                         " is down, and the store's data is in " + root->region +
                         ": start it again, with " + FlagToReturn(*root) +
                         "; if the data may go, start this server with --replace_store");
  }
  if (probed_root.liveness != Liveness::kAlive) {
    if (options.replace_store) return Judgement{Verdict::kLost};
    Error error = ServerUnreachable(*record, *root, probed_root, bootstrap);
    error.message +=
        probed_root.liveness == Liveness::kUnreachable
            ? "; the store's data is in that process: if it is stopped or its socket was removed, "
              "mend that; if the data may go, end the process first"
            : "; if it is gone for good, start this server with --replace_store, which creates a "
              "new, empty store";
    return error;
  }
  if (options.create == CreateMode::kNew) {
    return MakeError(Code::kInvalidArgument,
                     Named(options.store, bootstrap) + " lives, with " + Describe(*root) +
                         ": leave out --create=new to join it, or give another --store");
  }
  BOOST_OUTCOME_TRY(CheckAgree(*record, options));
  Judgement judgement{Verdict::kWhole};
  for (const MemberRecord& member : record->servers) {
    if (member.server == ServerId{0}) continue;
    const Probed probed = probe(*record, member);
    if (probed.liveness == Liveness::kDead && MayHaveLost(member, options) &&
        !options.forget_dead) {
      return MakeError(Code::kNodeUnreachable,
                       WithSystemd(member, bootstrap, *record) +
                           "the keys it held are lost: --forget_dead takes it out of the record; "
                           "otherwise start that service first");
    }
    if (probed.liveness == Liveness::kDead && MayReturn(member) && !options.forget_dead) {
      LOG(WARNING) << Describe(member) << " is down; its keys are served again once it is started "
                   << "with " << FlagToReturn(member);
    } else if (probed.liveness == Liveness::kDead && options.forget_dead) {
      judgement.forgotten.push_back(member.server);
    } else if (probed.liveness == Liveness::kDead) {
      Error error = ServerUnreachable(*record, member, probed, bootstrap);
      error.message +=
          "; the keys it held are lost: save the others with gossamer dump --salvage, stop the "
          "other servers of the store and start them anew. If they may go, or if it held none "
          "(it was stopped, and a lost record came back with it), start this server with "
          "--forget_dead, which takes it out of the record";
      return error;
    } else if (probed.liveness != Liveness::kAlive) {
      LOG(WARNING) << ServerUnreachable(*record, member, probed, bootstrap).message;
    }
  }
  return judgement;
}

void Forget(StoreRecord& record, const std::vector<ServerId>& servers) {
  for (const ServerId server : servers) {
    LOG(WARNING) << Describe(*record.Find(server))
                 << " is dead: taking it out of the record; the keys it held are lost";
    std::erase_if(record.servers,
                  [&](const MemberRecord& member) { return member.server == server; });
  }
}

void ForgetAwaited(StoreRecord& record) {
  for (const AwaitedRecord& one : record.awaited) {
    LOG(WARNING) << "server " << ToInteger(one.server)
                 << " has not come back with its saved file: the keys in that are lost";
  }
  record.awaited.clear();
}

void LogLostStore(const StoreRecord& record, const LivenessProbe& probe,
                  const Bootstrap& bootstrap) {
  LOG(WARNING)
      << Named(record.store, bootstrap)
      << " is lost with its server 0, which held the root: creating a new, empty one in its place";
  for (const MemberRecord& member : record.servers) {
    if (member.server != ServerId{0} && probe(record, member).liveness == Liveness::kAlive) {
      LOG(WARNING) << Describe(member)
                   << " belongs to the lost store and serves nobody any more; stop it";
    }
  }
}

// The time after which live members have looked at a record, and have changed it if it lacks
// something.
milliseconds TimeOfMembers(const Bootstrap& bootstrap, const JoinOptions& options) {
  return options.patience.value_or(bootstrap.republish_wait());
}

// Whether `seen` is a question to the members. About any other text they were not asked yet; see
// the rule in membership.h.
bool AsksMembers(const RecordSnapshot& seen) {
  return seen.text && (!seen.record || seen.record->restored != 0);
}

// How long `seen` must have stood unchanged before a joining server acts on it.
milliseconds TimeToStand(const RecordSnapshot& seen, const JoinOptions& options,
                         const Bootstrap& bootstrap) {
  if (!seen.record && options.create == CreateMode::kNew) return milliseconds(0);
  if (!seen.record && options.create == CreateMode::kJoin)
    return options.patience.value_or(kStoreToJoinPatience);
  return AsksMembers(seen) ? TimeOfMembers(bootstrap, options) : milliseconds(0);
}

void LogWait(const RecordSnapshot& seen, milliseconds time, const JoinOptions& options,
             const Bootstrap& bootstrap) {
  const std::string name = Named(options.store, bootstrap);
  if (seen.record) {
    LOG(INFO) << "the record of " << name
              << " was lost and put back, or its store is lost: waiting " << time.count()
              << " ms for members that it may lack";
  } else {
    LOG(INFO) << "there is no record of " << name << ": waiting " << time.count()
              << " ms, as servers that live put a lost one back";
  }
}

Error KeepsBeingLost(milliseconds time, const JoinOptions& options, const Bootstrap& bootstrap) {
  return MakeError(
      Code::kContended,
      fmt::format("the record of {} has not stood for {} ms in {} ms, as it is lost again and "
                  "again (is memcached flushed or restarted all the time, or does it lack "
                  "memory?): mend that, then start this server again",
                  Named(options.store, bootstrap), time.count(), kMostWaits * time.count()));
}

// Returns a text that has stood for its time: all live members have seen it, and had nothing to
// add. The join must replace exactly this text. Adds to `waited`. Errors: Contended when no text
// stands long enough, or when the wait was stopped.
Result<RecordSnapshot> ReadSettledRecord(Bootstrap& bootstrap, const JoinOptions& options,
                                         milliseconds& waited) {
  BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, options.store));
  auto since = steady_clock::now();
  bool is_logged = false;
  while (true) {
    const milliseconds time = TimeToStand(seen, options, bootstrap);
    if (steady_clock::now() - since >= time) return seen;
    if (waited >= kMostWaits * time) return KeepsBeingLost(time, options, bootstrap);
    if (!is_logged) LogWait(seen, time, options, bootstrap);
    if (options.is_to_stop && options.is_to_stop()) {
      return MakeError(Code::kContended,
                       "stopped while it waited for the record of store '" + options.store + "'");
    }
    const milliseconds pause = std::min(kPollInterval, time);
    std::this_thread::sleep_for(pause);
    waited += pause;
    BOOST_OUTCOME_TRY(again, ReadRecord(bootstrap, options.store));
    is_logged = again.record.has_value() == seen.record.has_value();
    if (again.text == seen.text) continue;
    seen = std::move(again);
    since = steady_clock::now();
  }
}

// Whether a server that would create a store must ask first.
Result<bool> MustAskMembers(Bootstrap& bootstrap, const RecordSnapshot& seen,
                            const JoinOptions& options) {
  if (options.create != CreateMode::kAuto || AsksMembers(seen)) return false;
  if (TimeOfMembers(bootstrap, options).count() == 0) return false;
  return bootstrap.MayHaveMembers(options.store);
}

// Writes a text that is unique and that each member of a live store replaces: a note if there is no
// record, or the record of the lost store with another `restored`. Writes nothing if another change
// came first.
// Requires (unchecked): the join lock is held, so that no other server is about to replace what was
// `seen`.
Status AskMembers(Bootstrap& bootstrap, const RecordSnapshot& seen, const JoinOptions& options) {
  StoreRecord question = seen.record.value_or(
      StoreRecord{options.store, RandomId(), options.fabric, options.parameters, 0, {}});
  question.restored = RandomId();
  BOOST_OUTCOME_TRYV(
      bootstrap.CompareAndSwap(options.store, seen.text, EncodeStoreRecord(question)));
  return Ok();
}

// The refusal of --create=join.
Status CheckMayCreate(Verdict verdict, const JoinOptions& options, const Bootstrap& bootstrap) {
  if (verdict == Verdict::kWhole || options.create != CreateMode::kJoin) return Ok();
  const std::string name = Named(options.store, bootstrap);
  const std::string remedy =
      "; start the first server of a store with --create=new or without "
      "--create";
  if (verdict == Verdict::kAbsent)
    return MakeError(Code::kNotFound, "there is no " + name + " to join" + remedy);
  return MakeError(Code::kNodeUnreachable,
                   name + " is lost with its server 0, and --create=join creates none" + remedy);
}

struct Unreachable {
  Error error;
  bool comes_back;
};

// What a client is told of a server that it cannot reach.
Error WithRemedy(Error error, const MemberRecord& member, Liveness liveness) {
  if (liveness != Liveness::kDead) return error;
  if (MayReturn(member)) {
    error.message += ", and its memory is in " + member.region + ": start it again, with " +
                     FlagToReturn(member);
    return error;
  }
  error.message +=
      member.server == ServerId{0}
          ? ", and what the store kept is gone: a memory server that starts now creates it anew"
          : ", and the keys it held are lost: save the others with gossamer dump --salvage, and "
            "start the store's servers anew";
  return error;
}

// The first server of the record that is not alive.
std::optional<Unreachable> FindUnreachable(const StoreRecord& record, const FindOptions& options,
                                           const Bootstrap& bootstrap) {
  if (record.AwaitedSetOf(ServerId{0}) != 0) {
    return Unreachable{MakeError(Code::kNodeUnreachable, RootIsAwaited(record, bootstrap)), true};
  }
  if (record.Find(ServerId{0}) == nullptr) {
    return Unreachable{MakeError(Code::kNodeUnreachable,
                                 Named(options.store, bootstrap) +
                                     " is lost: its server 0, which held the root, has stopped"),
                       false};
  }
  if (!options.probe) return std::nullopt;
  for (const MemberRecord& member : record.servers) {
    const Probed probed = options.probe(record, member);
    if (probed.liveness == Liveness::kAlive) continue;
    Error error = ServerUnreachable(record, member, probed, bootstrap);
    const bool may_be_back =
        probed.liveness == Liveness::kDead ? MayReturn(member) : member.comes_back();
    return Unreachable{WithRemedy(std::move(error), member, probed.liveness), may_be_back};
  }
  return std::nullopt;
}

}  // namespace

Result<CreateMode> ParseCreateMode(std::string_view name) {
  if (name == "auto") return CreateMode::kAuto;
  if (name == "new") return CreateMode::kNew;
  if (name == "join") return CreateMode::kJoin;
  return MakeError(Code::kInvalidArgument,
                   "--create=" + std::string(name) + ": give auto, new or join");
}

Result<Joined> JoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                         const LivenessProbe& probe, const BringUp& bring_up) {
  BOOST_OUTCOME_TRY(CheckStoreName(options.store));
  Held lock;
  RecordSnapshot before;
  Judgement judgement;
  milliseconds waited{0};
  // Probe servers before taking the lock, because waiting for dead ones may outlast the lock.
  for (int attempt = 0; lock == nullptr; ++attempt) {
    if (attempt == kMaxSwapAttempts) {
      return MakeError(Code::kContended,
                       Named(options.store, bootstrap) + " keeps changing; try again");
    }
    BOOST_OUTCOME_TRY(judged, ReadSettledRecord(bootstrap, options, waited));
    BOOST_OUTCOME_TRY(found, Judge(judged.record, options, probe, bootstrap));
    BOOST_OUTCOME_TRYV(CheckMayCreate(found.verdict, options, bootstrap));
    BOOST_OUTCOME_TRY(locked, bootstrap.LockForJoin(options.store, kJoinPatience));
    BOOST_OUTCOME_TRY(now, ReadRecord(bootstrap, options.store));
    if (now.text != judged.text) continue;
    if (found.verdict != Verdict::kWhole) {
      BOOST_OUTCOME_TRY(must_ask, MustAskMembers(bootstrap, judged, options));
      if (must_ask) {
        BOOST_OUTCOME_TRYV(AskMembers(bootstrap, judged, options));
        continue;
      }
    }
    judgement = std::move(found);
    before = std::move(now);
    lock = std::move(locked);
  }

  Joined joined;
  joined.identity.incarnation = RandomId();
  StoreRecord& record = joined.record;
  if (judgement.verdict == Verdict::kWhole) {
    record = *before.record;
    Forget(record, judgement.forgotten);
    if (options.forget_dead) ForgetAwaited(record);
    record.restored = 0;
    if (record.next_server >= kMaxMemoryServers) {
      return MakeError(
          Code::kExhausted,
          fmt::format(
              "{} has had {} memory servers, which is the most: a store never gives the id of a "
              "server again, as pointers hold it. Write its data to a file (gossamer dump), stop "
              "its servers, and load the file into a store that is started anew",
              Named(options.store, bootstrap), kMaxMemoryServers));
    }
  } else {
    if (judgement.verdict == Verdict::kLost) LogLostStore(*before.record, probe, bootstrap);
    record = {options.store, RandomId(), options.fabric, options.parameters, 0, {}};
  }
  joined.identity.store_id = record.store_id;
  joined.identity.server = static_cast<ServerId>(record.next_server++);

  BOOST_OUTCOME_TRY(address, bring_up(joined.identity));
  BOOST_OUTCOME_TRYV(CheckAddress(address));
  record.servers.push_back({joined.identity.server, joined.identity.incarnation, HostName(),
                            OwnProcessIdentity(), address, options.region, options.saved, false,
                            FormatsText()});
  BOOST_OUTCOME_TRY(published, PublishRecord(bootstrap, before.text, record));
  if (!published) {
    return MakeError(Code::kContended,
                     "the record of " + Named(options.store, bootstrap) +
                         " was changed by another memory server, or lost, while this one started; "
                         "start it again");
  }
  return joined;
}

Result<StoreRecord> FindStore(Bootstrap& bootstrap, const FindOptions& options) {
  const auto deadline = steady_clock::now() + options.patience;
  const auto return_deadline = steady_clock::now() + options.return_patience;
  const auto log_at = steady_clock::now() + kLongEnoughToTell;
  bool is_logged = false;
  while (true) {
    BOOST_OUTCOME_TRY(found, ReadRecord(bootstrap, options.store));
    if (found.record) {
      StoreRecord& record = *found.record;
      const std::optional<Unreachable> lost = FindUnreachable(record, options, bootstrap);
      if (!lost) return std::move(record);
      if (!lost->comes_back || steady_clock::now() >= return_deadline) return lost->error;
      if (steady_clock::now() >= log_at && !std::exchange(is_logged, true)) {
        LOG(INFO) << "waiting for up to " << options.return_patience.count()
                  << " ms: " << lost->error.message;
      }
    } else if (steady_clock::now() >= deadline) {
      break;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return MakeError(
      Code::kNotFound,
      fmt::format(
          "there is no {}; start a memory server: gossamer-memory --memory=1GiB --store={} "
          "--bootstrap={} (if one runs, the record was lost, and it puts it back within {} ms)",
          Named(options.store, bootstrap), options.store, bootstrap.url(),
          bootstrap.republish_wait().count()));
}

Error ServerUnreachable(const StoreRecord& record, const MemberRecord& member, const Probed& probed,
                        const Bootstrap& bootstrap) {
  const std::string subject = Describe(member) + " of " + Named(record.store, bootstrap);
  const std::string why = probed.why ? ": " + probed.why->message : "";
  if (probed.why && probed.why->code != Code::kNodeUnreachable) {
    return MakeError(probed.why->code, subject + why);
  }
  switch (probed.liveness) {
    case Liveness::kDead: return MakeError(Code::kNodeUnreachable, subject + " is dead");
    case Liveness::kUnreachable:
      return MakeError(Code::kNodeUnreachable,
                       subject + " lives as process " + ProcessIdOf(member.process) +
                           " on this host, but does not answer at its address" + why);
    default: return MakeError(Code::kNodeUnreachable, subject + " does not answer" + why);
  }
}

bool MayReturn(const MemberRecord& member) {
  if (member.region.empty()) return false;
  // Only the process that systemd starts next sees whether there is any.
  if (member.region == kKeptBySystemd) return true;
  const ProcessState state = LookUpProcess(member.process);
  // Of a process of this machine, and of this container, the file would be seen.
  const bool is_here = state == ProcessState::kGone && member.host == HostName();
  return !is_here || ::access(member.region.c_str(), F_OK) == 0;
}

Liveness JudgeSilence(const StoreRecord& record, const MemberRecord& member) {
  const ProcessState state = LookUpProcess(member.process);
  if (state == ProcessState::kRunning) return Liveness::kUnreachable;
  const bool dead =
      state == ProcessState::kGone || (state == ProcessState::kOtherBoot && record.fabric == "shm");
  return dead ? Liveness::kDead : Liveness::kSilent;
}

}  // namespace gossamer
