#include "common/bootstrap/record_snapshot.h"

#include <fmt/core.h>

#include <algorithm>

namespace gossamer {
namespace {

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

}  // namespace

Result<RecordSnapshot> ReadRecord(Bootstrap& bootstrap, const std::string& store) {
  BOOST_OUTCOME_TRYV(CheckStoreName(store));  // Get takes names of notes, too.
  RecordSnapshot snapshot;
  BOOST_OUTCOME_TRY(text, bootstrap.Get(store));
  if (text) {
    BOOST_OUTCOME_TRY(record, Parse(*text, store, bootstrap));
    if (!record.servers.empty()) snapshot.record = std::move(record);
  }
  snapshot.text = std::move(text);
  return snapshot;
}

Result<bool> PublishRecord(Bootstrap& bootstrap, const std::optional<std::string>& before,
                           const StoreRecord& record) {
  const std::string text = EncodeStoreRecord(record);
  Result<bool> swapped = bootstrap.CompareAndSwap(record.store, before, text);
  if (swapped) return swapped;
  const Result<std::optional<std::string>> now = bootstrap.Get(record.store);
  if (now && now.value() == text) return true;
  return swapped;
}

Status CheckAgree(const StoreRecord& record, const JoinOptions& options) {
  const auto agree = [&record](const char* flag, const auto& theirs, const auto& ours) -> Status {
    if (theirs == ours) return Ok();
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("store '{0}' was created with {1}={2}, this server was started with {1}={3}; "
                    "start it with the former, or give another --store",
                    record.store, flag, theirs, ours));
  };
  const StoreParameters& theirs = record.parameters;
  const StoreParameters& ours = options.parameters;
  BOOST_OUTCOME_TRYV(agree("--fabric", record.fabric, options.fabric));
  BOOST_OUTCOME_TRYV(agree("--node_bytes", theirs.node_bytes, ours.node_bytes));
  BOOST_OUTCOME_TRYV(agree("--max_key_bytes", theirs.max_key_bytes, ours.max_key_bytes));
  return agree("--inline_value_bytes", theirs.inline_value_bytes, ours.inline_value_bytes);
}

Status CheckAddress(const std::string& address) {
  if (IsValidToken(address)) return Ok();
  return MakeError(Code::kInvalidArgument,
                   fmt::format("address '{}' does not fit the record of a store: give --listen= "
                               "one of at most {} ASCII characters, without blanks",
                               address, kMaxTokenBytes));
}

void PutMember(StoreRecord& record, const MemberRecord& member) {
  std::erase_if(record.awaited,
                [&](const AwaitedRecord& one) { return one.server == member.server; });
  std::erase_if(record.servers,
                [&](const MemberRecord& other) { return other.server == member.server; });
  const auto after = std::ranges::find_if(
      record.servers, [&](const MemberRecord& other) { return other.server > member.server; });
  record.servers.insert(after, member);
}

std::string IdText(uint64_t store_id) { return "store id " + internal::Hex16(store_id); }

std::string Describe(const MemberRecord& member) {
  return fmt::format("server {} (host {}, address {})", ToInteger(member.server), member.host,
                     member.address);
}

const MemberRecord* EntryOf(const StoreRecord& record, const MemberIdentity& server) {
  const MemberRecord* const entry =
      record.store_id == server.store_id ? record.Find(server.server) : nullptr;
  return entry != nullptr && entry->incarnation == server.incarnation ? entry : nullptr;
}

std::string FlagToReturn(const MemberRecord& member) {
  if (!member.region.ends_with(".saved")) return "--region=" + member.region;
  return "--save=" + member.region.substr(0, member.region.rfind('/'));
}

std::string Named(const std::string& store, const Bootstrap& bootstrap) {
  return "store '" + store + "' at " + bootstrap.url();
}

}  // namespace gossamer
