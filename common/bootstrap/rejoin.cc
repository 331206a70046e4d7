#include "common/bootstrap/rejoin.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/process.h"
#include "common/random_id.h"

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
Status CheckIsGone(const StoreRecord& other, const Returning& returning, const LivenessProbe& probe,
                   const Bootstrap& bootstrap) {
  const MemberRecord* const root = other.Find(ServerId{0});
  const bool is_gone =
      root == nullptr || (probe(other, *root).liveness == Liveness::kDead && !MayReturn(*root));
  if (is_gone) return Ok();
  return MakeError(Code::kInvalidArgument,
                   Named(other.store, bootstrap) + " is another one now (" +
                       IdText(other.store_id) + ", " + Describe(*root) +
                       "), and the region is of " + IdText(returning.identity.store_id) +
                       ": stop the memory servers of the one whose data may go, or give another "
                       "--store");
}

// The record that this server's entry is to be added to.
Result<StoreRecord> WithoutSelf(const RecordSnapshot& seen, const JoinOptions& options,
                                const Returning& returning, const LivenessProbe& probe,
                                const Bootstrap& bootstrap) {
  const MemberIdentity& self = returning.identity;
  const bool is_ours = seen.record && seen.record->store_id == self.store_id;
  if (seen.record && !is_ours) {
    BOOST_OUTCOME_TRYV(CheckIsGone(*seen.record, returning, probe, bootstrap));
  }
  if (!is_ours) {
    LOG(WARNING) << "the record of " << Named(options.store, bootstrap)
                 << " was gone: putting it back as the region has noted it";
  }
  StoreRecord record = is_ours ? *seen.record : Noted(options, returning);
  const MemberRecord* const entry = record.Find(self.server);
  if (entry != nullptr && is_ours &&
      std::ranges::find(returning.earlier, entry->incarnation) == returning.earlier.end()) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("the record of {} has another {}: this region is not the one that "
                                 "the store goes on with; give --region of that one, or "
                                 "--create=new for a new server in this one's place",
                                 Named(options.store, bootstrap), Describe(*entry)));
  }
  std::erase_if(record.servers,
                [&self](const MemberRecord& member) { return member.server == self.server; });
  const auto next = static_cast<uint16_t>(ToInteger(self.server) + 1);
  record.next_server = std::max(record.next_server, next);
  return record;
}

}  // namespace

Result<Joined> RejoinStore(Bootstrap& bootstrap, const JoinOptions& options,
                           const Returning& returning, const LivenessProbe& probe,
                           const BringUp& bring_up) {
  BOOST_OUTCOME_TRY(CheckStoreName(options.store));
  BOOST_OUTCOME_TRY(lock, bootstrap.LockForJoin(options.store, kJoinPatience));
  const Held until_the_end = std::move(lock);
  const MemberIdentity& self = returning.identity;
  std::string address;
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, options.store));
    BOOST_OUTCOME_TRY(record, WithoutSelf(seen, options, returning, probe, bootstrap));
    BOOST_OUTCOME_TRYV(CheckAgree(record, options));
    if (address.empty()) {
      BOOST_OUTCOME_TRY(served, bring_up(self));
      BOOST_OUTCOME_TRYV(CheckAddress(served));
      address = std::move(served);
    }
    PutMember(record, {self.server, self.incarnation, HostName(), OwnProcessIdentity(), address,
                       options.region});
    BOOST_OUTCOME_TRY(published, PublishRecord(bootstrap, seen.text, record));
    if (published) return Joined{self, std::move(record), returning.earlier};
  }
  return MakeError(Code::kContended,
                   Named(options.store, bootstrap) + " keeps changing; start this server again");
}

}  // namespace gossamer
