#include "common/bootstrap/member.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/process.h"
#include "common/random_id.h"
#include "proto/store_record.h"

namespace gossamer {
namespace {

constexpr int kLooksPerJudgement = 10;

std::string ProcessOf(const MemberRecord& member) {
  return Describe(member) + " process " + ProcessIdOf(member.process);
}

}  // namespace

Member::Member(Bootstrap& bootstrap, const Joined& joined, LivenessProbe probe)
    : bootstrap_(bootstrap),
      self_(*joined.record.Find(joined.identity.server)),
      earlier_(joined.earlier),
      probe_(std::move(probe)),
      known_(joined.record) {}

Look Member::LookAfterRecord() {
  Result<Held> presence = bootstrap_.Announce(known_.store);
  if (!presence) return {Finding::kNoBootstrap, presence.error().message};
  presence_ = std::move(presence).value();
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    const Result<RecordSnapshot> seen = ReadRecord(bootstrap_, known_.store);
    if (!seen) {
      const bool unreadable = seen.error().code == Code::kCorruption;
      return {unreadable ? Finding::kUnreadable : Finding::kNoBootstrap,
              seen.error().message +
                  (unreadable ? "; this server puts its own back once it is gone" : "")};
    }
    const RecordSnapshot& now = seen.value();
    const std::optional<Look> look = !now.record ? PutBack(now.text)
                                     : now.record->store_id == known_.store_id
                                         ? Merge(*now.text, *now.record)
                                         : MeetOther(*now.text, *now.record);
    if (look) return *look;
  }
  return {Finding::kNoBootstrap, Named(known_.store, bootstrap_) + " keeps changing"};
}

std::optional<Look> Member::Publish(const std::optional<std::string>& expected, StoreRecord record,
                                    Look done) {
  const Result<bool> swapped =
      bootstrap_.CompareAndSwap(known_.store, expected, EncodeStoreRecord(record));
  if (!swapped) return Look{Finding::kNoBootstrap, swapped.error().message};
  if (!swapped.value()) return std::nullopt;
  known_ = std::move(record);
  return done;
}

std::optional<Look> Member::PutBack(const std::optional<std::string>& note) {
  StoreRecord record = known_;
  record.restored = RandomId();
  return Publish(note, std::move(record),
                 {Finding::kPutBack,
                  "the record of " + Named(known_.store, bootstrap_) +
                      " was gone although this store lives: put back (was memcached flushed or "
                      "restarted, or does it lack memory? was a file removed?)"});
}

std::optional<Look> Member::Merge(const std::string& text, const StoreRecord& record) {
  const MemberRecord* entry = record.Find(self_.server);
  if (entry != nullptr && std::ranges::count(earlier_, entry->incarnation) != 0) entry = nullptr;
  if (entry != nullptr && entry->incarnation != self_.incarnation) {
    return Look{
        Finding::kIdTaken,
        fmt::format("the record of {} has another server, {}, under the id {} of this one: clients "
                    "do not find the data of this server any more, and the record stays as it is. "
                    "Save what is found with gossamer dump --salvage, then stop all servers of the "
                    "store, start them anew and load the file",
                    Named(known_.store, bootstrap_), ProcessOf(*entry), ToInteger(self_.server))};
  }
  if (entry != nullptr && record.next_server >= known_.next_server) {
    known_ = record;
    return Look{};
  }
  StoreRecord merged = record;
  merged.next_server = std::max(merged.next_server, known_.next_server);
  if (entry == nullptr) PutMember(merged, self_);
  return Publish(text, std::move(merged),
                 {Finding::kMerged, "the record of " + Named(known_.store, bootstrap_) +
                                        " was put back by a server that did not know all: added "
                                        "what it lacked of this server"});
}

Liveness Member::OwnRoot() const {
  if (self_.server == ServerId{0}) return Liveness::kAlive;
  const MemberRecord* root = known_.Find(ServerId{0});
  return root == nullptr ? Liveness::kDead : probe_(known_, *root).liveness;
}

void Member::JudgeOther(const std::string& text, const StoreRecord& other) {
  if (text == judged_text_ && judgement_looks_left_-- > 0) return;
  judged_text_ = text;
  judgement_looks_left_ = kLooksPerJudgement - 1;
  const MemberRecord* root = other.Find(ServerId{0});
  other_root_ = root == nullptr ? Liveness::kDead : probe_(other, *root).liveness;
  own_root_ = OwnRoot();
}

std::optional<Look> Member::MeetOther(const std::string& text, const StoreRecord& other) {
  JudgeOther(text, other);
  const std::string name = Named(known_.store, bootstrap_);
  if (own_root_ == Liveness::kDead) {
    return Look{Finding::kStoreLost, name + " is another one now (" + IdText(other.store_id) +
                                         "). The one of this server (" + IdText(known_.store_id) +
                                         ") is lost with its server 0, which held the root: stop "
                                         "this server, it serves nobody any more"};
  }
  if (other_root_ == Liveness::kDead && own_root_ == Liveness::kAlive) {
    StoreRecord record = known_;
    record.restored = RandomId();
    return Publish(text, std::move(record),
                   {Finding::kTookBack, name + " was another one (" + IdText(other.store_id) +
                                            "), whose server 0 is gone: the record of this one (" +
                                            IdText(known_.store_id) + ") is back in its place"});
  }
  const MemberRecord* root = other.Find(ServerId{0});
  return Look{Finding::kOtherStore,
              name + " is another one now (" + IdText(other.store_id) +
                  (root == nullptr ? std::string() : ", " + ProcessOf(*root)) +
                  "): new clients open that one, and " +
                  "clients that have the store of this server (" + IdText(known_.store_id) +
                  ") open go on. Two stores have one name: stop the memory servers of the one "
                  "whose data may go. If that is the other one, this one puts its record back"};
}

Status Member::Leave() {
  const Held until_the_end = std::exchange(presence_, nullptr);
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(before, ReadRecord(bootstrap_, known_.store));
    if (before.record && before.record->store_id != known_.store_id) return Ok();
    StoreRecord after = before.record ? *before.record : known_;
    const auto gone = std::erase_if(after.servers, [&](const MemberRecord& member) {
      return member.server == self_.server && member.incarnation == self_.incarnation;
    });
    if (gone == 0) return Ok();
    if (!before.record) after.restored = RandomId();
    std::optional<std::string> text;
    if (!after.servers.empty()) text = EncodeStoreRecord(after);
    BOOST_OUTCOME_TRY(swapped, bootstrap_.CompareAndSwap(known_.store, before.text, text));
    if (swapped) return Ok();
  }
  return MakeError(Code::kContended, Named(known_.store, bootstrap_) + " keeps changing");
}

}  // namespace gossamer
