#include "compute/gateway/worker/key_move.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/worker/large_records.h"
#include "compute/gateway/worker/large_run.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

// Others write the old key whenever it has been copied.
constexpr int kMostTries = 64;
// Of values, before the keys that are left are not looked at.
constexpr uint64_t kMostRead = uint64_t{1} << 20;
constexpr uint64_t kNodeBytes = 128;  // of a pair in a map
constexpr std::string_view kContended =
    "TRYAGAIN others change the key all the time: both keys exist now";

Fingerprint Of(std::optional<std::string_view> value, Expiry expiry) {
  return value ? Fingerprint(*value, expiry) : Fingerprint();
}

// Puts a value where there is none, or `replaceable`, or anything.
class PutIf final : public ValueModifier {
 public:
  PutIf(std::string_view value, Expiry expiry, bool must_be_absent,
        const Fingerprint& replaceable = {})
      : value_(value),
        expiry_(expiry),
        must_be_absent_(must_be_absent),
        replaceable_(replaceable) {}

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    has_put_ = !must_be_absent_ || !value || Of(value, expiry) == replaceable_;
    return has_put_ ? Change{Kind::kPut, value_, expiry_} : Change{};
  }
  bool wants_value() const override { return must_be_absent_; }
  bool has_put() const { return has_put_; }

 private:
  const std::string_view value_;
  const Expiry expiry_;
  const bool must_be_absent_;
  const Fingerprint replaceable_;
  bool has_put_ = false;
};

// What a key has, if that is a large composite without items, so that the key counts as absent.
// Otherwise as of a key that is absent.
Task<Result<Fingerprint>> AsEmpty(Session& session, std::string_view value, Expiry expiry) {
  const std::optional<LargeHeader> header = ParseLargeHeader(value, expiry);
  if (!header || header->state != LargeHeader::State::kPerhapsEmpty) co_return Fingerprint();
  const Fingerprint seen(value, expiry);
  BOOST_OUTCOME_CO_TRY(is_empty, co_await LargeRun::IsEmpty(session, header->id));
  co_return is_empty ? seen : Fingerprint();
}

Task<Result<Fingerprint>> FindEmpty(Session& session, std::string_view key) {
  const Result<ExpiringValue> found = co_await session.AsyncGetWithExpiry(key);
  if (IsAbsent(found)) co_return Fingerprint();
  if (!found) co_return found.error();
  co_return co_await AsEmpty(session, found.value().value, found.value().expiry);
}

class DeleteSeen final : public ValueModifier {
 public:
  explicit DeleteSeen(const Fingerprint& seen) : seen_(seen) {}

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    is_seen_ = Of(value, expiry) == seen_;
    return is_seen_ ? Change{Kind::kDelete, {}, {}} : Change{};
  }
  bool is_seen() const { return is_seen_; }

 private:
  const Fingerprint seen_;
  bool is_seen_ = false;
};

}  // namespace

bool KeyMove::Has(CommandId id) {
  return id == CommandId::kRename || id == CommandId::kRenamenx || id == CommandId::kCopy ||
         id == CommandId::kMsetnx;
}

Result<KeyMove> KeyMove::Parse(const Command& command,
                               const std::vector<std::string_view>& arguments) {
  KeyMove move(command.id);
  if (move.id_ == CommandId::kMsetnx) {
    BOOST_OUTCOME_TRYV(move.ParsePairs(arguments));
    return move;
  }
  move.from_ = arguments[1];
  move.to_ = arguments[2];
  move.must_be_absent_ = move.id_ == CommandId::kRenamenx;
  if (move.id_ == CommandId::kCopy) {
    BOOST_OUTCOME_TRYV(move.ParseCopy(arguments));
  }
  return move;
}

// COPY source destination [DB index] [REPLACE]
Status KeyMove::ParseCopy(const std::vector<std::string_view>& arguments) {
  must_be_absent_ = true;
  for (size_t i = 3; i < arguments.size(); ++i) {
    if (IsWord(arguments[i], "replace")) {
      must_be_absent_ = false;
    } else if (IsWord(arguments[i], "db") && i + 1 < arguments.size()) {
      const std::optional<int64_t> database = ParseInteger(arguments[++i]);
      if (!database) return Refusal(kNoInteger);
      if (*database != 0) return Refusal("ERR DB index is out of range");
    } else {
      return Refusal(kSyntaxError);
    }
  }
  if (from_ == to_) return Refusal("ERR source and destination objects are the same");
  return Ok();
}

Status KeyMove::ParsePairs(const std::vector<std::string_view>& arguments) {
  if (arguments.size() % 2 == 0) return Refusal(WrongNumberOfArguments("msetnx"));
  for (size_t i = 1; i < arguments.size(); i += 2) {
    const size_t bytes = arguments[i + 1].size();
    if (bytes > kMaxValueBytes) return Refusal(ValueTooLong(bytes));
    pairs_.insert_or_assign(std::string(arguments[i]), arguments[i + 1]);
  }
  return Ok();
}

uint64_t KeyMove::held_bytes() const {
  uint64_t bytes = from_.size() + to_.size();
  for (const auto& [key, value] : pairs_) bytes += key.size() + value.size() + kNodeBytes;
  return bytes;
}

Task<void> KeyMove::Run(Session& session, std::string& out, bool is_resp3) {
  Task<std::string> task = id_ == CommandId::kMsetnx ? SetAll(session) : Move(session);
  const std::string refusal = co_await std::move(task);
  ReplyWriter reply(out, is_resp3);
  if (!refusal.empty()) co_return reply.Error(refusal);
  id_ == CommandId::kRename ? reply.Ok() : reply.Integer(number_);
}

Task<std::string> KeyMove::Move(Session& session) {
  number_ = 0;
  Fingerprint put_before;  // by an earlier try
  for (int i = 0; i < kMostTries; ++i) {
    const Result<ExpiringValue> found = co_await session.AsyncGetWithExpiry(from_);
    const bool is_absent = IsAbsent(found);
    if (!found && !is_absent) co_return ErrorLine(found.error());
    if (is_absent) co_return co_await AnswerToAbsent(session, put_before);
    if (from_ == to_) co_return "";
    const auto& [value, expiry] = found.value();
    const std::optional<LargeHeader> header = ParseLargeHeader(value, expiry);
    const bool is_large = header && header->state != LargeHeader::State::kFilling;
    // Of one that is filling the small form is moved: the keys of its items are the old key's.
    std::string moved(header && !is_large ? header->items : value);
    if (header && moved.empty()) co_return co_await AnswerToAbsent(session, put_before);
    if (is_large) {
      Result<std::optional<std::string>> large = co_await MoveLarge(session, *header);
      if (!large) co_return ErrorLine(large.error());
      if (!large.value() && put_id_ != 0) co_return co_await GiveUp(session, put_before);
      if (!large.value()) co_return co_await AnswerToAbsent(session, put_before);
      moved = *std::move(large.value());
    }
    Fingerprint replaceable = put_before;
    if (must_be_absent_ && number_ == 0) {
      const Result<Fingerprint> empty = co_await FindEmpty(session, to_);
      if (!empty) co_return ErrorLine(empty.error());
      replaceable = empty.value();
    }
    PutIf put(moved, expiry, must_be_absent_, replaceable);
    const Status done = co_await session.AsyncModify(to_, put);
    if (!done) co_return ErrorLine(done.error());
    if (!put.has_put()) {
      if (is_large) static_cast<void>(co_await ForgetLargeKey(session, header->id, to_, noted_));
      co_return "";
    }
    put_before = Fingerprint(moved, expiry);
    if (is_large) {
      // It may have become garbage, or the sweep may have forgotten this key, if this has lasted
      // for very long.
      const Result<std::optional<uint64_t>> noted =
          co_await NoteLargeKey(session, ParseLargeHeader(moved)->id, to_);
      if (!noted) co_return ErrorLine(noted.error());
      if (!noted.value()) co_return co_await GiveUp(session, put_before);
      noted_ = *noted.value();
      put_id_ = header->id;
    }
    number_ = 1;
    if (id_ == CommandId::kCopy) co_return "";
    const Result<bool> is_deleted = co_await DeleteIf(session, from_, Fingerprint(value, expiry));
    if (!is_deleted) co_return ErrorLine(is_deleted.error());
    if (!is_deleted.value()) continue;
    // If that fails, the sweep of large composites does it.
    if (is_large) static_cast<void>(co_await ForgetLargeKey(session, header->id, from_, noted_));
    co_return "";
  }
  co_return std::string(kContended);
}

Task<std::string> KeyMove::AnswerToAbsent(Session& session, const Fingerprint& put) {
  if (number_ == 0) co_return id_ == CommandId::kCopy ? "" : "ERR no such key";
  if (put_id_ == 0) co_return "";  // somebody else has deleted it since
  const std::string record_key = RecordKeyOf(put_id_);
  const Result<std::string> found = co_await session.AsyncGet(record_key);
  if (!found && found.error().code != Code::kNotFound) co_return ErrorLine(found.error());
  const std::optional<LargeRecord> record =
      found ? LargeRecord::Parse(found.value()) : std::nullopt;
  if (!record) co_return "";
  // If others have renamed the old key, too: two keys may not have the items of one.
  for (const std::string& key : record->keys) {
    if (key == from_ || key == to_) continue;
    const Result<bool> is_owner = co_await HasLarge(session, key, put_id_);
    if (!is_owner) co_return ErrorLine(is_owner.error());
    if (is_owner.value()) co_return co_await GiveUp(session, put);
  }
  co_return "";
}

// The items of the new key are garbage.
Task<std::string> KeyMove::GiveUp(Session& session, const Fingerprint& put) {
  const Result<bool> is_deleted = co_await DeleteIf(session, to_, put);
  if (!is_deleted) co_return ErrorLine(is_deleted.error());
  number_ = 0;
  co_return id_ == CommandId::kCopy ? "TRYAGAIN the copy has taken too long" : "ERR no such key";
}

Task<Result<std::optional<std::string>>> KeyMove::MoveLarge(Session& session,
                                                            const LargeHeader& header) {
  using Moved = std::optional<std::string>;
  if (header.state == LargeHeader::State::kPerhapsEmpty) {
    BOOST_OUTCOME_CO_TRY(is_empty, co_await LargeRun::IsEmpty(session, header.id));
    if (is_empty) co_return Moved();
  }
  if (id_ == CommandId::kCopy) {
    BOOST_OUTCOME_CO_TRY(copy, co_await CopyLarge(session, header, to_));
    co_return Moved(copy.Encode());
  }
  BOOST_OUTCOME_CO_TRY(noted, co_await NoteLargeKey(session, header.id, to_));
  noted_ = noted.value_or(0);
  LargeHeader moved = header;
  moved.state = LargeHeader::State::kOpen;
  // Beside the nonce: no two headers that anybody compares are the same by chance.
  moved.since_ms = NewLargeId() & kLatestHeaderMs;
  moved.nonce = NewNonce();
  co_return noted ? Moved(moved.Encode()) : Moved();
}

Task<Result<bool>> KeyMove::DeleteIf(Session& session, std::string_view key,
                                     const Fingerprint& seen) {
  DeleteSeen deletion(seen);
  const Status done = co_await session.AsyncModify(key, deletion);
  if (!done) co_return done.error();
  co_return deletion.is_seen();
}

Task<std::string> KeyMove::SetAll(Session& session) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : pairs_) keys.push_back(key);
  Values values;
  values.set_most_bytes(kMostRead);  // what they have does not matter
  co_await session.AsyncMultiGet(keys, values);
  std::vector<Fingerprint> empty(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (values.is_left_out(i)) co_return "";  // there is one
    const Result<std::string_view> value = values[i];
    if (!value && value.error().code != Code::kNotFound) co_return ErrorLine(value.error());
    if (!value) continue;
    const Result<Fingerprint> as_empty = co_await AsEmpty(session, value.value(), values.expiry(i));
    if (!as_empty) co_return ErrorLine(as_empty.error());
    empty[i] = as_empty.value();
    if (empty[i] == Fingerprint()) co_return "";
  }
  std::vector<PutIf> puts;
  puts.reserve(pairs_.size());
  std::vector<KeyModifier> modifiers;
  for (const auto& [key, value] : pairs_) {
    const Fingerprint& replaceable = empty[modifiers.size()];
    modifiers.push_back({key, &puts.emplace_back(value, Expiry::Never(), true, replaceable)});
  }
  std::vector<Status> results(puts.size(), Ok());
  co_await session.AsyncMultiModify(modifiers, results);
  std::vector<std::string_view> set;
  std::string refusal;
  for (size_t i = 0; i < puts.size(); ++i) {
    if (!results[i]) refusal = ErrorLine(results[i].error());
    if (results[i] && puts[i].has_put()) set.push_back(keys[i]);
  }
  number_ = set.size() == keys.size() ? 1 : 0;
  if (number_ == 1) co_return "";
  const Status taken_back = co_await TakeBack(session, set);
  if (refusal.empty() && !taken_back) refusal = ErrorLine(taken_back.error());
  co_return refusal;
}

Task<Status> KeyMove::TakeBack(Session& session, const std::vector<std::string_view>& set) {
  Status status = Ok();
  for (const std::string_view key : set) {
    const Fingerprint seen(pairs_.find(std::string(key))->second, Expiry::Never());
    const Result<bool> done = co_await DeleteIf(session, key, seen);
    if (!done) status = done.error();
  }
  co_return status;
}

}  // namespace gossamer::gateway
