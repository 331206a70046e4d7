// OpenStore: memory servers that join later, come back, or could not be reached at first.
#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "common/bootstrap/bootstrap.h"
#include "compute/session/registration.h"
#include "compute/store/open_store.h"

namespace gossamer {

void OpenStore::NoteUnreachable(ServerId server, uint64_t incarnation, const Error& why,
                                Endpoint::Clock::time_point began) {
  const Endpoint::Clock::time_point now = control_->Now();
  unreachable_.insert_or_assign(server,
                                Unreachable{incarnation, why, now + RestAfterTry(now - began)});
}

Status OpenStore::LearnServer(ServerId server, uint64_t gone) {
  const std::lock_guard lock(learn_mutex_);
  const ServerInfo* const before = shared_->servers.Find(server);
  // Found for an earlier search.
  if (before != nullptr && (gone == 0 || before->incarnation != gone)) return Ok();
  const Endpoint::Clock::time_point began = control_->Now();
  const auto known = unreachable_.find(server);
  const bool rests = known != unreachable_.end() && began < known->second.until;
  if (rests && known->second.incarnation == 0) return known->second.why;
  const Result<StoreRecord> found = FindRecordOf(server, gone);
  const MemberRecord* const member = found ? found.value().Find(server) : nullptr;
  const uint64_t incarnation = found ? member->incarnation : 0;
  if (found && rests && incarnation == known->second.incarnation) return known->second.why;
  Status learnt = found ? AddServer(found.value(), *member) : found.error();
  if (learnt) {
    unreachable_.erase(server);
  } else {
    NoteUnreachable(server, incarnation, learnt.error(), began);
  }
  return learnt;
}

Result<StoreRecord> OpenStore::FindRecordOf(ServerId server, uint64_t gone) {
  const std::string name = fmt::format("memory server {}", ToInteger(server));
  const Error unknown = MakeError(Code::kNodeUnreachable,
                                  name + " is named by the tree, but not by the store's record");
  if (bootstrap_ == nullptr) return unknown;
  Result<StoreRecord> found = FindStore(*bootstrap_, {.store = record_.store});
  // Not NotFound: for a key that would mean that it is absent, but here the record was lost.
  if (!found) return MakeError(Code::kNodeUnreachable, found.error().message);
  const StoreRecord& record = found.value();
  const MemberRecord* member = record.Find(server);
  if (record.store_id != record_.store_id) {
    return MakeError(Code::kNodeUnreachable,
                     name + " cannot be found: another store has the name '" + record_.store +
                         "' now. Open the store again, to have that one");
  }
  if (member == nullptr && record.AwaitedSetOf(server) != 0) {
    return MakeError(Code::kNodeUnreachable,
                     name +
                         " has not come back with its file since the store was restored from "
                         "saved files: start it");
  }
  // A record that was lost and put back may lack the server for a while.
  if (member == nullptr && record.restored != 0) {
    return MakeError(Code::kNodeUnreachable,
                     fmt::format("{} is not in the store's record, which was lost and put back: it "
                                 "adds itself within {} ms, or has left the store",
                                 name, bootstrap_->republish_wait().count()));
  }
  if (member == nullptr && ToInteger(server) < record.next_server) {
    shared_->servers.NoteLeft(server);
    return HasLeft(server);
  }
  if (member == nullptr) return unknown;
  if (gone != 0 && member->incarnation == gone) {
    return CannotBeReached(server, member->address, "it has not come back yet");
  }
  return found;
}

Result<std::chrono::milliseconds> OpenStore::LearnServers() {
  constexpr std::chrono::milliseconds kNone{0};
  if (bootstrap_ == nullptr) return kNone;  // all servers were made known when the store was opened
  BOOST_OUTCOME_TRY(record, FindStore(*bootstrap_, {.store = record_.store}));
  if (record.store_id == record_.store_id && record.restored == 0) {
    for (const MemberRecord& member : Members()) {
      if (record.Find(member.server) == nullptr) shared_->servers.NoteLeft(member.server);
    }
  }
  Status all = Ok();
  for (const MemberRecord& member : record.servers) {
    // Or that of one that has come back since.
    const ServerInfo* const known = shared_->servers.Find(member.server);
    const bool is_back =
        known != nullptr && member.comes_back() && known->incarnation != member.incarnation;
    Status learnt = LearnServer(member.server, is_back ? known->incarnation : 0);
    if (!learnt && all) all = std::move(learnt);
  }
  if (!all) return all.error();
  const std::lock_guard lock(learn_mutex_);
  const Endpoint::Clock::time_point now = control_->Now();
  if (std::exchange(restored_, record.restored) != record.restored) restored_since_ = now;
  const Endpoint::Clock::duration left = restored_since_ + bootstrap_->republish_wait() - now;
  if (record.restored == 0 || left <= kNone) return kNone;
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

}  // namespace gossamer
