#include "common/bootstrap/record_snapshot.h"

#include <fmt/core.h>

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

std::string Describe(const MemberRecord& member) {
  return fmt::format("server {} (host {}, address {})", ToInteger(member.server), member.host,
                     member.address);
}

std::string Named(const std::string& store, const Bootstrap& bootstrap) {
  return "store '" + store + "' at " + bootstrap.url();
}

}  // namespace gossamer
