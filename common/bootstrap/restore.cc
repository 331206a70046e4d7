#include "common/bootstrap/restore.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "common/bootstrap/record_snapshot.h"

namespace gossamer {
namespace {

void Await(StoreRecord& record, ServerId server) {
  const auto behind = std::ranges::lower_bound(record.awaits, server);
  if (behind == record.awaits.end() || *behind != server) record.awaits.insert(behind, server);
}

// "server 1", "server 1 and server 2", "server 1, server 2 and server 5"
std::string Names(const std::vector<ServerId>& servers) {
  std::string text;
  for (size_t i = 0; i < servers.size(); ++i) {
    const bool is_last = i + 1 == servers.size();
    text += fmt::format("{}server {}",
                        i == 0    ? ""
                        : is_last ? " and "
                                  : ", ",
                        ToInteger(servers[i]));
  }
  return text;
}

}  // namespace

StoreRecord AwaitTheSilent(StoreRecord record, const LivenessProbe& probe) {
  if (record.is_open()) return record;
  for (const MemberRecord& member : record.servers) {
    if (record.Awaits(member.server)) continue;
    if (probe(record, member).liveness != Liveness::kAlive) Await(record, member.server);
  }
  return record;
}

StoreRecord AwaitIfAllWereDown(StoreRecord record, uint64_t set, const LivenessProbe& probe) {
  assert(record.is_open() && set != 0);
  for (const MemberRecord& member : record.servers) {
    if (probe(record, member).liveness == Liveness::kAlive) return record;
  }
  for (const MemberRecord& member : record.servers) {
    if (member.saved.value_or(0) != 0) Await(record, member.server);
  }
  if (!record.is_open()) record.set = set;
  return record;
}

Result<uint64_t> ChooseSet(const StoreRecord& record, ServerId self,
                           const std::vector<uint64_t>& sets, const Bootstrap& bootstrap) {
  assert(!record.is_open() && !sets.empty());
  const std::string name =
      fmt::format("{} comes back from set {:016x}", Named(record.store, bootstrap), record.set);
  const MemberRecord* const other = record.Find(self);
  if (other != nullptr && !record.Awaits(self)) {
    return MakeError(Code::kInvalidArgument,
                     name + ", and " + Describe(*other) +
                         " serves in this one's place: stop that one, or this one");
  }
  if (!record.Awaits(self)) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("{}, which was saved without server {}: to have it join, start it "
                                 "with another --save, once the store is open",
                                 name, ToInteger(self)));
  }
  if (std::ranges::count(sets, record.set) != 0) return record.set;
  const auto find_without = [&record](uint64_t set) {
    return std::ranges::find_if(record.servers, [&](const MemberRecord& member) {
      return !record.Awaits(member.server) && std::ranges::count(member.sets, set) == 0;
    });
  };
  for (const uint64_t set : sets) {
    if (find_without(set) == record.servers.end()) return set;
  }
  const auto without = find_without(sets.front());
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("{}, of which server {} has no file, and of none of its sets do all servers have "
                  "one that have started: {} has none of set {:016x}, its newest. Stop all, and "
                  "start each with a file of the same set (--load=FILE)",
                  name, ToInteger(self), Describe(*without), sets.front()));
}

Status CheckMayForget(const StoreRecord& record, const Bootstrap& bootstrap) {
  if (!record.Awaits(ServerId{0})) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      Named(record.store, bootstrap) +
          " awaits server 0, which has the root: nothing can be read without it. Start "
          "it with its saved file; --forget_dead is for other servers");
}

void ForgetAwaited(StoreRecord& record, const Bootstrap& bootstrap) {
  if (record.is_open()) return;
  assert(CheckMayForget(record, bootstrap));
  LOG(WARNING) << Named(record.store, bootstrap) << " opens without " << Names(record.awaits)
               << ": the keys that they held are lost; `gossamer repair` says which";
  std::erase_if(record.servers,
                [&](const MemberRecord& member) { return record.Awaits(member.server); });
  record.awaits.clear();
  for (MemberRecord& member : record.servers) member.sets.clear();
}

Result<StoreRecord> LeaveUnopened(Bootstrap& bootstrap, const std::string& store,
                                  const MemberIdentity& self) {
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, store));
    if (!seen.record || EntryOf(*seen.record, self) == nullptr) return StoreRecord();
    if (seen.record->is_open()) return *std::move(seen.record);
    StoreRecord after = *seen.record;
    std::erase_if(after.servers,
                  [&](const MemberRecord& member) { return member.server == self.server; });
    Await(after, self.server);
    std::optional<std::string> text;
    if (!after.servers.empty()) text = EncodeStoreRecord(after);
    BOOST_OUTCOME_TRY(swapped, bootstrap.CompareAndSwap(store, seen.text, text));
    if (swapped) return *std::move(seen.record);
  }
  return MakeError(Code::kContended, Named(store, bootstrap) + " keeps changing");
}

std::string NotOpen(const StoreRecord& record, const Bootstrap& bootstrap) {
  return fmt::format(
      "{} comes back from saved files (set {:016x}), and opens once {} {} there: "
      "start {} with its saved file; to go on without what one held that will not "
      "come back, start one of the others again, with --forget_dead",
      Named(record.store, bootstrap), record.set, Names(record.awaits),
      record.awaits.size() == 1 ? "is" : "are", record.awaits.size() == 1 ? "it" : "each");
}

}  // namespace gossamer
