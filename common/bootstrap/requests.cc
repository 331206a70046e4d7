#include "common/bootstrap/requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "common/bootstrap/record_snapshot.h"
#include "common/random_id.h"
#include "proto/crc32c.h"

namespace gossamer {
namespace {

Error KeepsChanging(const std::string& store, const Bootstrap& bootstrap) {
  return MakeError(Code::kContended, Named(store, bootstrap) + " keeps changing; try again");
}

// Changes the record by `change`, which returns an error to leave it as it is.
template <typename Change>
Result<StoreRecord> ChangeRecord(Bootstrap& bootstrap, const std::string& store, Change change) {
  for (int attempt = 0; attempt < kMaxSwapAttempts; ++attempt) {
    BOOST_OUTCOME_TRY(seen, ReadRecord(bootstrap, store));
    if (!seen.record) {
      return MakeError(Code::kNotFound, "there is no record of " + Named(store, bootstrap));
    }
    StoreRecord record = *std::move(seen.record);
    BOOST_OUTCOME_TRYV(change(record));
    BOOST_OUTCOME_TRY(published, PublishRecord(bootstrap, seen.text, record));
    if (published) return record;
  }
  return KeepsChanging(store, bootstrap);
}

}  // namespace

uint64_t SetOf(const StoreRecord& record) {
  std::string names = fmt::format("{:016x}", record.store_id);
  for (const MemberRecord& member : record.servers) {
    names += fmt::format(" {}:{:016x}", ToInteger(member.server), member.incarnation);
  }
  const auto bytes = std::as_bytes(std::span(names));
  const uint64_t set = uint64_t{Crc32c(1, bytes)} << 32 | Crc32c(0, bytes);
  return set == 0 ? 1 : set;
}

bool HaveAllSaved(const StoreRecord& record, uint64_t set) {
  return record.awaited.empty() &&
         std::ranges::all_of(record.servers,
                             [set](const MemberRecord& member) { return member.saved == set; });
}

Status CheckNoneAwaited(const StoreRecord& record) {
  if (record.awaited.empty()) return Ok();
  return MakeError(
      Code::kNodeUnreachable,
      fmt::format("store '{}' was restored from saved files, and server {} has not come back with "
                  "its file: start it; to go on without what it held, start a new memory server "
                  "with --forget_dead",
                  record.store, ToInteger(record.awaited.front().server)));
}

Result<StoreRecord> RequestSave(Bootstrap& bootstrap, const std::string& store) {
  return ChangeRecord(bootstrap, store, [](StoreRecord& record) -> Status {
    BOOST_OUTCOME_TRYV(CheckNoneAwaited(record));
    for (const MemberRecord& member : record.servers) {
      if (member.saved) continue;
      return MakeError(Code::kUnsupported, Describe(member) +
                                               " saves nothing: start it with --save=DIRECTORY, "
                                               "as all servers of the store");
    }
    record.save = RandomId();
    return Ok();
  });
}

Result<StoreRecord> NoteSaved(Bootstrap& bootstrap, const std::string& store,
                              const MemberIdentity& server, uint64_t set,
                              const std::string& region) {
  return ChangeRecord(bootstrap, store, [&](StoreRecord& record) -> Status {
    const MemberRecord* const entry = EntryOf(record, server);
    if (entry == nullptr) {
      return MakeError(Code::kNotFound,
                       "the record of store '" + store + "' does not name this server any more");
    }
    MemberRecord saved = *entry;
    saved.saved = set;
    saved.region = region;
    PutMember(record, saved);
    return Ok();
  });
}

Result<StoreRecord> RequestStop(Bootstrap& bootstrap, const std::string& store, ServerId server) {
  return ChangeRecord(bootstrap, store, [&](StoreRecord& record) -> Status {
    const MemberRecord* const entry = record.Find(server);
    if (entry == nullptr) {
      return MakeError(Code::kNotFound, fmt::format("{} has no memory server {}",
                                                    Named(store, bootstrap), ToInteger(server)));
    }
    MemberRecord asked = *entry;
    asked.stop = true;
    PutMember(record, asked);
    return Ok();
  });
}

}  // namespace gossamer
