// Internal to common/bootstrap: a store's record as it was read, and the wording of messages.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/bootstrap/membership.h"
#include "common/status.h"
#include "proto/store_record.h"

namespace gossamer {

// Attempts at a compare-and-swap before the record "keeps changing".
inline constexpr int kMaxSwapAttempts = 64;

// For a join lock: others may probe, or have died with memcached's lock.
inline constexpr std::chrono::milliseconds kJoinPatience{60'000};

// A record and its text, for compare-and-swap. A text without a record is the note of a memory
// server that asks whether the record was lost (membership.h).
struct RecordSnapshot {
  std::optional<std::string> text;
  std::optional<StoreRecord> record;
};

// Errors: those of Bootstrap::Get; Corruption for a text that is not a record of this store.
Result<RecordSnapshot> ReadRecord(Bootstrap& bootstrap, const std::string& store);

// As CompareAndSwap; but a change whose answer was lost may have been made.
Result<bool> PublishRecord(Bootstrap& bootstrap, const std::optional<std::string>& before,
                           const StoreRecord& record);

// Errors: InvalidArgument if the store was created with another fabric or other parameters than
// this server was started with; names the first that differs.
Status CheckAgree(const StoreRecord& record, const JoinOptions& options);

// Errors: InvalidArgument unless a record can hold `address`.
Status CheckAddress(const std::string& address);

// Puts the member in its place, by its id; replaces another incarnation of it. It is not awaited
// any more.
void PutMember(StoreRecord& record, const MemberRecord& member);

// The entry of that incarnation of the server; null if the record does not name it.
const MemberRecord* EntryOf(const StoreRecord& record, const MemberIdentity& server);

// "store id 00d1ce5eed5a1ad5"
std::string IdText(uint64_t store_id);
// "server 0 (host ant, address 10.0.0.1:7471)"
std::string Describe(const MemberRecord& member);
// "--region=PATH", or "--save=DIRECTORY" of one whose memory is in a saved file.
std::string FlagToReturn(const MemberRecord& member);
// "store 'default' at memcached://ant:11211"
std::string Named(const std::string& store, const Bootstrap& bootstrap);

}  // namespace gossamer
