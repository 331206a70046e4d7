#include "common/bootstrap/rejoin.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/process.h"
#include "common/random_id.h"
#include "proto/formats.h"

namespace gossamer {
namespace {

// The record as the region has noted it, or one of this server alone.
StoreRecord Noted(const JoinOptions& options, const Returning& returning) {
  std::string problem;
  std::optional<StoreRecord> known = ParseStoreRecord(returning.known, problem);
  const bool is_ours = known && known->store_id == returning.identity.store_id;
  StoreRecord record = is_ours ? *std::move(known) : StoreRecord{options.store,
                                                                 returning.identity.store_id,
                                                                 options.fabric,
                                                                 returning.parameters,
                                                                 0,
                                                                 {}};
  record.store = options.store;
  record.restored = RandomId();
  return record;
}

// Whether this server may take the name from the store of `other`.
Status CheckIsGone(const StoreRecord& other, const JoinOptions& options, const Returning& returning,
                   const LivenessProbe& probe, const Bootstrap& bootstrap) {
  const auto is_alive = [&](const MemberRecord& member) {
    return probe(other, member).liveness != Liveness::kDead ||
           (MayReturn(member) && !options.replace_store);
  };
  const MemberRecord* const root = other.Find(ServerId{0});
  const bool awaits_root = other.AwaitedSetOf(ServerId{0}) != 0;
  const bool is_there = root != nullptr
                            ? is_alive(*root)
                            : awaits_root && std::ranges::any_of(other.servers, is_alive);
  if (!is_there) return Ok();
  const std::string now = Named(other.store, bootstrap);
  const uint64_t awaited = other.AwaitedSetOf(returning.identity.server);
  if (returning.set != 0 && awaited != 0) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("{} has begun with its files of set {:016x}, and awaits server {} with that; "
                    "this server has loaded set {:016x}: give --load=FILE of the former; or choose "
                    "a set of which all servers have a file, stop the servers that run, move later "
                    "files of theirs to another directory, and start each, server 0 first, with "
                    "--load=FILE of it",
                    now, awaited, ToInteger(returning.identity.server), returning.set));
  }
  if (awaited != 0) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("{} has gone back to what was saved, and awaits server {} with its file of set "
                    "{:016x}: {}, and start it again",
                    now, ToInteger(returning.identity.server), awaited,
                    options.region.empty() ? "stop this server" : "remove " + options.region));
  }
  if (root == nullptr) {
    return MakeError(Code::kInvalidArgument,
                     now +
                         " was restored from saved files, and awaits other servers: stop its "
                         "memory servers, and start this one with --replace_store; or give "
                         "another --store");
  }
  const bool was_in_it =
      other.store_id == returning.identity.store_id || other.store_id == returning.been_in;
  if (returning.set != 0 && was_in_it) {
    return MakeError(
        Code::kInvalidArgument,
        now + " went on after the file was saved that this server would load, with " +
            Describe(*root) +
            ": to go back to what was saved, stop all its memory servers, move files "
            "that were saved later to another directory, and start each, server 0 "
            "first, with --load=FILE of one set; to go on without what this server held, give "
            "another --save, and --forget_dead");
  }
  return MakeError(
      Code::kInvalidArgument,
      now + " is another one now (" + IdText(other.store_id) + ", " + Describe(*root) + "), and " +
          (returning.set == 0 ? "the region" : "the saved file") + " is of " +
          IdText(returning.identity.store_id) +
          ": if the data of that one may go, stop its memory servers, and start this one with "
          "--replace_store; otherwise give another --store");
}

// A region may have been given with a wrong --store, under which clients would find what is in use
// under the right one.
Status CheckIsOf(const std::string& store, const Returning& returning) {
  std::string problem;
  const std::optional<StoreRecord> known = ParseStoreRecord(returning.known, problem);
  if (!known || known->store == store) return Ok();
  return MakeError(Code::kInvalidArgument,
                   fmt::format("this server's memory is of store '{0}', and --store says '{1}': "
                               "give --store={0}, or another --region",
                               known->store, store));
}

// The record without this server's entry, whose next server id is above this one's.
StoreRecord MakeRoom(StoreRecord record, ServerId server) {
  std::erase_if(record.servers,
                [server](const MemberRecord& member) { return member.server == server; });
  const auto next = static_cast<uint16_t>(ToInteger(server) + 1);
  record.next_server = std::max(record.next_server, next);
  return record;
}

// Whether the store awaits this server with the file that it has loaded.
bool IsAwaited(const RecordSnapshot& seen, const Returning& returning) {
  return seen.record && returning.set != 0 &&
         seen.record->AwaitedSetOf(returning.identity.server) == returning.set;
}

// The record that this server's entry is to be added to, if the store went on without the file that
// it has loaded, or if nothing is known of that.
Result<StoreRecord> GoneBack(const RecordSnapshot& seen, const JoinOptions& options,
                             const Returning& returning, const LivenessProbe& probe,
                             const Bootstrap& bootstrap) {
  const ServerId server = returning.identity.server;
  const bool is_awaited = IsAwaited(seen, returning);
  if (is_awaited && seen.record->store_id == returning.been_in) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format(
            "server {} has been back in {} already, and what it held then is lost: to go on "
            "without that, start a new memory server with --forget_dead; to go back to what "
            "was saved, stop all its memory servers, and start each, server 0 first, with "
            "--load=FILE of one set",
            ToInteger(server), Named(options.store, bootstrap)));
  }
  if (is_awaited) return MakeRoom(*seen.record, server);
  if (seen.record) {
    BOOST_OUTCOME_TRYV(CheckIsGone(*seen.record, options, returning, probe, bootstrap));
  }
  StoreRecord record = Noted(options, returning);
  record.store_id = RandomId();
  record.save = 0;
  // A server that was awaited when the file was saved is awaited with the set of then, the others
  // with this one.
  for (const MemberRecord& member : std::exchange(record.servers, {})) {
    if (member.saved) record.awaited.push_back({member.server, returning.set});
  }
  std::ranges::sort(record.awaited, {}, &AwaitedRecord::server);
  LOG(WARNING) << Named(options.store, bootstrap) << " goes back to what was saved, as "
               << IdText(record.store_id);
  return MakeRoom(std::move(record), server);
}

// Likewise, for any server.
Result<StoreRecord> WithoutSelf(const RecordSnapshot& seen, const JoinOptions& options,
                                const Returning& returning, const LivenessProbe& probe,
                                const Bootstrap& bootstrap) {
  const MemberIdentity& self = returning.identity;
  const bool is_ours = seen.record && seen.record->store_id == self.store_id;
  const MemberRecord* const entry = is_ours ? seen.record->Find(self.server) : nullptr;
  const bool is_last =
      entry != nullptr && std::ranges::count(returning.earlier, entry->incarnation) != 0;
  // A record that was put back may name an earlier life than the last one. The server knows then
  // that its file is not of the last one.
  const bool is_known_last = returning.been_in == 0 ? is_last : returning.is_of_last_life;
  if (returning.set != 0 && (IsAwaited(seen, returning) || !is_known_last)) {
    return GoneBack(seen, options, returning, probe, bootstrap);
  }
  if (entry != nullptr && !is_last) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("the record of {} has another {}: what this server has is not what "
                    "the store goes on with; give --region or --save of that one, or "
                    "--create=new for a new server in this one's place",
                    Named(options.store, bootstrap), Describe(*entry)));
  }
  if (is_ours) {
    StoreRecord record = *seen.record;
    // Who put it back may have known fewer servers: no id is given again.
    const uint16_t known = Noted(options, returning).next_server;
    record.next_server = std::max(record.next_server, known);
    return MakeRoom(std::move(record), self.server);
  }
  if (seen.record) {
    BOOST_OUTCOME_TRYV(CheckIsGone(*seen.record, options, returning, probe, bootstrap));
  }
  LOG(WARNING) << "the record of " << Named(options.store, bootstrap)
               << " was gone: putting it back as the region has noted it";
  return MakeRoom(Noted(options, returning), self.server);
}

// Servers that live put a lost record back; until then, nothing is known of the store.
Status AwaitLostRecord(Bootstrap& bootstrap, const JoinOptions& options) {
  const auto patience = options.patience.value_or(bootstrap.republish_wait());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  BOOST_OUTCOME_TRY(may_have_members, bootstrap.MayHaveMembers(options.store));
  while (may_have_members && std::chrono::steady_clock::now() < deadline) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, options.store));
    if (seen.record) return Ok();
    if (options.is_to_stop && options.is_to_stop()) {
      return MakeError(Code::kContended,
                       "stopped while it waited for the record of store '" + options.store + "'");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Ok();
}

}  // namespace

Result<Joined> RejoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                           const Returning& returning, const LivenessProbe& probe,
                           const BringUp& bring_up) {
  BOOST_OUTCOME_TRY(CheckStoreName(options.store));
  BOOST_OUTCOME_TRYV(CheckIsOf(options.store, returning));
  if (returning.set != 0 && !returning.is_of_last_life) {
    BOOST_OUTCOME_TRYV(AwaitLostRecord(bootstrap, options));
  }
  BOOST_OUTCOME_TRY(lock, bootstrap.LockForJoin(options.store, kJoinPatience));
  const Held until_the_end = std::move(lock);
  MemberIdentity self = returning.identity;
  std::string address;
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, options.store));
    BOOST_OUTCOME_TRY(record, WithoutSelf(seen, options, returning, probe, bootstrap));
    BOOST_OUTCOME_TRYV(CheckAgree(record, options));
    if (!address.empty() && record.store_id != self.store_id) break;  // as which it serves
    if (address.empty()) {
      self.store_id = record.store_id;
      BOOST_OUTCOME_TRY(served, bring_up(self));
      BOOST_OUTCOME_TRYV(CheckAddress(served));
      address = std::move(served);
    }
    PutMember(record, {self.server, self.incarnation, HostName(), OwnProcessIdentity(), address,
                       options.region, options.saved, false, FormatsText()});
    BOOST_OUTCOME_TRY(published, PublishRecord(bootstrap, seen.text, record));
    if (published) return Joined{self, std::move(record), returning.earlier};
  }
  return MakeError(Code::kContended,
                   Named(options.store, bootstrap) + " keeps changing; start this server again");
}

}  // namespace gossamer
