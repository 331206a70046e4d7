#include "common/bootstrap/rejoin.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/bootstrap/restore.h"
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

// Whether this server may take the name from the store of `other`, which is open.
Status CheckIsGone(const StoreRecord& other, const JoinOptions& options, const Returning& returning,
                   const LivenessProbe& probe, const Bootstrap& bootstrap) {
  const bool is_loaded = returning.set != 0;
  const bool is_own = other.store_id == returning.identity.store_id ||
                      std::ranges::count(options.sets, other.set) != 0;
  const MemberRecord* const own = is_own ? other.Find(returning.identity.server) : nullptr;
  // This server has the files of that one, on its host, and not its memory.
  const auto is_lost_here = [&](const MemberRecord& member) {
    return is_loaded && &member == own && member.host == HostName();
  };
  const auto is_dead = [&](const MemberRecord& member) {
    const Liveness liveness = probe(other, member).liveness;
    const bool is_over = is_lost_here(member) || options.replace_store;
    return liveness == Liveness::kDead || (liveness == Liveness::kSilent && is_over);
  };
  const MemberRecord* const root = other.Find(ServerId{0});
  if (root == nullptr) return Ok();
  if (is_dead(*root) && (is_lost_here(*root) || !MayReturn(*root))) return Ok();
  if (is_loaded && own != nullptr && std::ranges::all_of(other.servers, is_dead)) return Ok();
  const std::string now = Named(other.store, bootstrap);
  if (is_loaded && is_own) {
    const auto lives = std::ranges::find_if_not(other.servers, is_dead);
    const MemberRecord& met = lives == other.servers.end() ? *root : *lives;
    return MakeError(Code::kInvalidArgument,
                     now + " went on after the file was saved that this server would load, with " +
                         Describe(met) +
                         ": to go back to what was saved, stop all its memory servers, and start "
                         "each with its file (the first with --replace_store, if one cannot be "
                         "reached, and has ended); to go on without what this server held, give "
                         "another --save, and --forget_dead");
  }
  return MakeError(
      Code::kInvalidArgument,
      now + " is another one now (" + IdText(other.store_id) + ", " + Describe(*root) + "), and " +
          (is_loaded ? "the saved file" : "the region") + " is of " +
          IdText(returning.identity.store_id) +
          ": stop the memory servers of the one whose data may go, or give another --store");
}

// Whether the store, which is not open, may go back further: whether no server of it may still have
// what no file has. Without what server 0 held, that is of no use to anybody.
Status CheckMayGoBack(const StoreRecord& record, const JoinOptions& options, ServerId self,
                      const LivenessProbe& probe, const Bootstrap& bootstrap) {
  if (self == ServerId{0}) return Ok();
  for (const MemberRecord& member : record.servers) {
    const bool is_in_files = !member.sets.empty() || IsInSavedFile(member);
    if (member.server == self || is_in_files) continue;
    const Liveness liveness = probe(record, member).liveness;
    if (liveness == Liveness::kDead) continue;
    if (liveness == Liveness::kSilent && options.replace_store) continue;
    return MakeError(
        Code::kNodeUnreachable,
        fmt::format("{} would go back to what was saved, as what server {} held is lost; but {} "
                    "does not answer, and may have what no file has: start that one, then this one "
                    "again; if its machine was restarted, start this one with --replace_store",
                    Named(record.store, bootstrap), ToInteger(self), Describe(member)));
  }
  return Ok();
}

// The record without this server's entry, whose next server id is above this one's, and which does
// not await it.
StoreRecord MakeRoom(StoreRecord record, ServerId server) {
  std::erase_if(record.servers,
                [server](const MemberRecord& member) { return member.server == server; });
  std::erase(record.awaits, server);
  const auto next = static_cast<uint16_t>(ToInteger(server) + 1);
  record.next_server = std::max(record.next_server, next);
  return record;
}

Error HasChanged(const JoinOptions& options, const Bootstrap& bootstrap) {
  return MakeError(Code::kContended,
                   Named(options.store, bootstrap) + " keeps changing; start this server again");
}

// The record that this server's entry is to be added to, if the store went on without the file that
// it has loaded, or if nothing is known of that.
Result<StoreRecord> GoneBack(const RecordSnapshot& seen, const JoinOptions& options,
                             const Returning& returning, const LivenessProbe& probe,
                             const Bootstrap& bootstrap) {
  const ServerId server = returning.identity.server;
  if (seen.record && !seen.record->is_open()) {
    BOOST_OUTCOME_TRY(set, ChooseSet(*seen.record, server, options.sets, bootstrap));
    if (set != returning.set) return HasChanged(options, bootstrap);
    if (set != seen.record->set) {
      BOOST_OUTCOME_TRYV(CheckMayGoBack(*seen.record, options, server, probe, bootstrap));
    }
  }
  const bool is_of_set = seen.record && seen.record->set == returning.set;
  if (is_of_set && (!seen.record->is_open() || seen.record->Find(server) == nullptr)) {
    return MakeRoom(*seen.record, server);
  }
  if (seen.record && seen.record->is_open()) {
    BOOST_OUTCOME_TRYV(CheckIsGone(*seen.record, options, returning, probe, bootstrap));
  }
  StoreRecord record = Noted(options, returning);
  record.store_id = RandomId();
  record.awaits.clear();
  for (const MemberRecord& member : record.servers) record.awaits.push_back(member.server);
  record.servers.clear();
  record.set = returning.set;
  record.save = 0;
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
  if (returning.set != 0 && !is_last) return GoneBack(seen, options, returning, probe, bootstrap);
  if (entry != nullptr && !is_last) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("the record of {} has another {}: this region is not the one that "
                                 "the store goes on with; give --region of that one, or "
                                 "--create=new for a new server in this one's place",
                                 Named(options.store, bootstrap), Describe(*entry)));
  }
  if (is_ours) {
    StoreRecord record = MakeRoom(*seen.record, self.server);
    const bool was_down = returning.set != 0 && seen.record->is_open();
    return was_down ? AwaitIfAllWereDown(std::move(record), returning.set, probe)
                    : std::move(record);
  }
  if (seen.record) {
    BOOST_OUTCOME_TRYV(CheckIsGone(*seen.record, options, returning, probe, bootstrap));
  }
  LOG(WARNING) << "the record of " << Named(options.store, bootstrap)
               << " was gone: putting it back as the region has noted it";
  return MakeRoom(AwaitTheSilent(Noted(options, returning), probe), self.server);
}

// Takes the life of this server that is lost out of the record of a store that is not open: another
// server that is refused because of that (CheckMayGoBack) may go back then.
Status TellOfLoss(const RecordSnapshot& seen, const MemberIdentity& self, Bootstrap& bootstrap) {
  const bool is_unopened = seen.record && !seen.record->is_open();
  const MemberRecord* const lost = is_unopened ? seen.record->Find(self.server) : nullptr;
  const bool is_here = lost != nullptr && seen.record->Awaits(self.server) &&
                       seen.record->store_id == self.store_id && lost->host == HostName();
  if (!is_here) return Ok();
  StoreRecord after = *seen.record;
  std::erase_if(after.servers,
                [&](const MemberRecord& member) { return member.server == self.server; });
  BOOST_OUTCOME_TRYV(PublishRecord(bootstrap, seen.text, after));
  return Ok();
}

// Waits for so long that servers that live have put a lost record back, and their own entries;
// ends before that once `is_there`.
Status AwaitMembers(Bootstrap& bootstrap, const JoinOptions& options,
                    const std::function<bool(const RecordSnapshot&)>& is_there) {
  const auto patience = options.patience.value_or(bootstrap.republish_wait());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  BOOST_OUTCOME_TRY(may_have_members, bootstrap.MayHaveMembers(options.store));
  while (may_have_members && std::chrono::steady_clock::now() < deadline) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, options.store));
    if (is_there(seen)) return Ok();
    if (options.is_to_stop && options.is_to_stop()) {
      return MakeError(Code::kContended,
                       "stopped while it waited for the record of store '" + options.store + "'");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Ok();
}

// What is known of the record, but for servers that do not live in a store that is not open.
Result<RecordSnapshot> ReadLivingRecord(Bootstrap& bootstrap, const std::string& store,
                                        const LivenessProbe& probe) {
  BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, store));
  if (seen.record) seen.record = AwaitTheSilent(*std::move(seen.record), probe);
  return std::move(seen);
}

}  // namespace

Result<uint64_t> SetToBeginWith(Bootstrap& bootstrap, const std::string& store, ServerId self,
                                const std::vector<uint64_t>& sets, const LivenessProbe& probe) {
  BOOST_OUTCOME_TRY(seen, ReadLivingRecord(bootstrap, store, probe));
  if (!seen.record) return sets.front();
  if (!seen.record->is_open()) return ChooseSet(*seen.record, self, sets, bootstrap);
  const bool was_opened_without =
      seen.record->Find(self) == nullptr && std::ranges::count(sets, seen.record->set) != 0;
  return was_opened_without ? seen.record->set : sets.front();
}

Result<Joined> RejoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                           const Returning& returning, const LivenessProbe& probe,
                           const BringUp& bring_up) {
  BOOST_OUTCOME_TRY(CheckStoreName(options.store));
  if (returning.set != 0) {
    assert(std::ranges::count(options.sets, returning.set) != 0);
    const auto is_there = [](const RecordSnapshot& seen) { return seen.record.has_value(); };
    BOOST_OUTCOME_TRYV(AwaitMembers(bootstrap, options, is_there));
  }
  BOOST_OUTCOME_TRY(lock, bootstrap.LockForJoin(options.store, kJoinPatience));
  const Held until_the_end = std::move(lock);
  MemberIdentity self = returning.identity;
  std::string address;
  std::optional<std::string> stood;
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(seen, ReadLivingRecord(bootstrap, options.store, probe));
    Result<StoreRecord> without = WithoutSelf(seen, options, returning, probe, bootstrap);
    if (!without) {
      BOOST_OUTCOME_TRYV(TellOfLoss(seen, self, bootstrap));
      return without.error();
    }
    StoreRecord record = std::move(without).value();
    BOOST_OUTCOME_TRYV(CheckAgree(record, options));
    if (options.forget_dead) {
      BOOST_OUTCOME_TRYV(CheckMayForget(record, bootstrap));
      ForgetAwaited(record, bootstrap);
    }
    const bool goes_back_further =
        seen.record && !seen.record->is_open() && seen.record->store_id != record.store_id;
    if (goes_back_further && stood != seen.text) {
      // It may have been lost since the store was opened, and put back as it was before.
      stood = seen.text;
      const auto has_changed = [&](const RecordSnapshot& now) { return now.text != stood; };
      BOOST_OUTCOME_TRYV(AwaitMembers(bootstrap, options, has_changed));
      continue;
    }
    if (!address.empty() && record.store_id != self.store_id) break;  // as which it serves
    if (address.empty()) {
      self.store_id = record.store_id;
      BOOST_OUTCOME_TRY(served, bring_up(self));
      BOOST_OUTCOME_TRYV(CheckAddress(served));
      address = std::move(served);
    }
    PutMember(record, {self.server, self.incarnation, HostName(), OwnProcessIdentity(), address,
                       options.region, options.saved, false, FormatsText(), options.sets});
    BOOST_OUTCOME_TRY(published, PublishRecord(bootstrap, seen.text, record));
    if (!published) continue;
    if (returning.set != 0 && (!seen.record || seen.record->store_id != record.store_id)) {
      LOG(WARNING) << fmt::format("{} goes back to what was saved, to set {:016x}, as {}",
                                  Named(options.store, bootstrap), record.set,
                                  IdText(record.store_id));
    }
    if (record.is_open() && seen.record && !seen.record->is_open()) {
      LOG(INFO) << fmt::format("{} is open, restored from set {:016x}",
                               Named(options.store, bootstrap), record.set);
    }
    return Joined{self, std::move(record), returning.earlier};
  }
  return HasChanged(options, bootstrap);
}

}  // namespace gossamer
