#include "compute/gateway/worker/large_records.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/worker/large_run.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

constexpr size_t kCopiedTogether = 512;
// A copy that goes on says so after so long.
constexpr uint64_t kCopyNewsMs = kRecordPatienceMs / 6;

// Changes a record that is alive.
class RecordChange final : public ValueModifier {
 public:
  explicit RecordChange(std::function<void(LargeRecord&)> edit) : edit_(std::move(edit)) {}
  // Only if it still is what was seen.
  RecordChange(std::function<void(LargeRecord&)> edit, std::string seen)
      : edit_(std::move(edit)), seen_(std::move(seen)) {}

  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    std::optional<LargeRecord> record = value ? LargeRecord::Parse(*value) : std::nullopt;
    is_done_ = record && !record->is_dead && (!seen_ || *seen_ == *value);
    if (!is_done_) return {};
    edit_(*record);
    ++record->version;
    bytes_ = record->Encode();
    return {Kind::kPut, bytes_, Expiry::Never()};
  }
  bool is_done() const { return is_done_; }
  // What it is now.
  const std::string& bytes() const { return bytes_; }

 private:
  const std::function<void(LargeRecord&)> edit_;
  const std::optional<std::string> seen_;
  std::string bytes_;
  bool is_done_ = false;
};

class DeleteHeader final : public ValueModifier {
 public:
  explicit DeleteHeader(const LargeHeader& seen) : seen_(seen) {}

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    const std::optional<LargeHeader> header = ParseLargeHeader(value, expiry);
    return header && IsSame(*header, seen_) ? Change{Kind::kDelete, {}, {}} : Change{};
  }

 private:
  const LargeHeader seen_;
};

Task<Result<bool>> ChangeRecord(Session& session, uint64_t id, RecordChange& change) {
  const std::string key = RecordKeyOf(id);
  BOOST_OUTCOME_CO_TRYV(co_await session.AsyncModify(key, change));
  co_return change.is_done();
}

// The header that `key` has, if it is one of that id.
Task<Result<std::optional<LargeHeader>>> FindHeader(Session& session, std::string_view key,
                                                    uint64_t id) {
  using Found = std::optional<LargeHeader>;
  const Result<ExpiringValue> value = co_await session.AsyncGetWithExpiry(key);
  // RENAME may have noted a key that the store does not take.
  if (IsAbsent(value)) co_return Found();
  if (!value) co_return value.error();
  Found header = ParseLargeHeader(value.value().value, value.value().expiry);
  if (!header || header->id != id) co_return Found();
  header->items = {};
  co_return header;
}

// The sweep at one composite.
class Sweeper {
 public:
  Sweeper(Session& session, uint64_t id, LargeSweep& done)
      : session_(session), id_(id), done_(done) {}

  Task<Status> Run() {
    const std::string record_key = RecordKeyOf(id_);
    const Result<std::string> found = co_await session_.AsyncGet(record_key);
    if (!found && found.error().code != Code::kNotFound) co_return found.error();
    const std::optional<LargeRecord> record =
        found ? LargeRecord::Parse(found.value()) : std::nullopt;
    if (found && !record) co_return Ok();  // of a later version of this program
    // Items without one: whoever has changed them last did so after they were deleted.
    if (!record || record->is_dead) co_return co_await Collect();
    std::vector<Owner> owners;
    for (const std::string& key : record->keys) {
      BOOST_OUTCOME_CO_TRY(header, co_await FindHeader(session_, key, id_));
      if (!header) continue;
      owners.push_back({key, *header});
      if (header->state == LargeHeader::State::kOpen) {
        // Who has removed the last item has ended before it could say so.
        BOOST_OUTCOME_CO_TRYV(co_await LargeRun::NoteBehind(session_, key, *header));
      }
      if (header->state == LargeHeader::State::kPerhapsEmpty) {
        BOOST_OUTCOME_CO_TRYV(co_await LookAtEmpty(key, *header));
      }
    }
    if (record->since_ms + kRecordPatienceMs > session_.StoreTimeMs()) co_return Ok();
    if (owners.empty()) {
      RecordChange dying([](LargeRecord& one) { one.is_dead = true; }, found.value());
      BOOST_OUTCOME_CO_TRY(is_dead, co_await ChangeRecord(session_, id_, dying));
      if (is_dead) co_return co_await Collect();
    } else if (record->keys.size() > 1) {
      co_return co_await EndRename(std::move(owners), found.value());
    }
    co_return Ok();
  }

 private:
  struct Owner {
    std::string key;
    LargeHeader header;
  };

  Task<Status> Collect() {
    const RangeDeletion items =
        co_await session_.AsyncDeleteRange(KeyRange({}, std::nullopt, ItemPrefixOf(id_)), {});
    done_.items += items.deleted;
    if (!items.status) co_return items.status;
    const std::string record_key = RecordKeyOf(id_);
    const Status record = co_await session_.AsyncDelete(record_key);
    if (!record && record.error().code != Code::kNotFound) co_return record;
    ++done_.collected;
    co_return Ok();
  }

  Task<Status> LookAtEmpty(std::string_view key, LargeHeader header) {
    if (header.since_ms + kEmptyPatienceMs > session_.StoreTimeMs()) co_return Ok();
    BOOST_OUTCOME_CO_TRY(is_empty, co_await LargeRun::Settle(session_, key, header));
    if (!is_empty) co_return Ok();
    DeleteHeader deletion(header);
    co_return co_await session_.AsyncModify(key, deletion);
  }

  // Of a RENAME that has ended in its middle: the last of the keys is the one that stays.
  Task<Status> EndRename(std::vector<Owner> owners, std::string seen) {
    // Nobody has noted a key while the headers were looked at: so these are in the record's order,
    // and those that come now are not the same ones.
    RecordChange claim([](LargeRecord&) {}, std::move(seen));
    BOOST_OUTCOME_CO_TRY(is_claimed, co_await ChangeRecord(session_, id_, claim));
    if (!is_claimed) co_return Ok();
    const std::string last = std::move(owners.back().key);
    owners.pop_back();
    for (const Owner& one : owners) {
      DeleteHeader deletion(one.header);
      BOOST_OUTCOME_CO_TRYV(co_await session_.AsyncModify(one.key, deletion));
    }
    RecordChange change([&last](LargeRecord& one) { one.keys = {last}; }, claim.bytes());
    BOOST_OUTCOME_CO_TRYV(co_await ChangeRecord(session_, id_, change));
    co_return Ok();
  }

  Session& session_;
  const uint64_t id_;
  LargeSweep& done_;
};

}  // namespace

Task<Status> PutLargeRecord(Session& session, uint64_t id, std::string_view key) {
  LargeRecord record;
  record.since_ms = session.StoreTimeMs();
  record.keys = {std::string(key)};
  const std::string record_key = RecordKeyOf(id);
  const std::string bytes = record.Encode();
  co_return co_await session.AsyncPut(record_key, bytes);
}

Task<Result<std::optional<uint64_t>>> NoteLargeKey(Session& session, uint64_t id,
                                                   std::string_view key) {
  if (key.size() > kMaxKeyBytes) {
    co_return MakeError(Code::kInvalidArgument, "a key of " + std::to_string(key.size()) +
                                                    " bytes: stores take at most " +
                                                    std::to_string(kMaxKeyBytes));
  }
  const uint64_t now_ms = session.StoreTimeMs();
  RecordChange change([key, now_ms](LargeRecord& record) {
    std::erase(record.keys, key);
    record.keys.emplace_back(key);
    record.since_ms = now_ms;
  });
  BOOST_OUTCOME_CO_TRY(is_alive, co_await ChangeRecord(session, id, change));
  co_return is_alive ? std::optional(LargeRecord::Parse(change.bytes())->version) : std::nullopt;
}

Task<Status> ForgetLargeKey(Session& session, uint64_t id, std::string_view key, uint64_t version) {
  RecordChange change([key, version](LargeRecord& record) {
    if (record.version == version) std::erase(record.keys, key);
  });
  BOOST_OUTCOME_CO_TRYV(co_await ChangeRecord(session, id, change));
  co_return Ok();
}

Task<Result<bool>> HasLarge(Session& session, std::string_view key, uint64_t id) {
  BOOST_OUTCOME_CO_TRY(header, co_await FindHeader(session, key, id));
  co_return header.has_value();
}

Task<Result<LargeHeader>> CopyLarge(Session& session, const LargeHeader& header,
                                    std::string_view key) {
  LargeHeader copy = header;
  copy.id = NewLargeId();
  copy.since_ms = session.StoreTimeMs();
  BOOST_OUTCOME_CO_TRYV(co_await PutLargeRecord(session, copy.id, key));
  ScanOptions options;
  options.prefix = ItemPrefixOf(header.id);
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  uint64_t told_ms = copy.since_ms;
  bool has_more = true;
  while (has_more) {
    std::vector<KeyValue> items;
    while (items.size() < kCopiedTogether) {
      has_more = co_await cursor->AsyncNext();
      if (!has_more) break;
      const std::string_view name = cursor->key().substr(kItemPrefixBytes);
      items.push_back({ItemKeyOf(copy.id, name), std::string(cursor->value()), {}});
    }
    std::vector<KeyValueView> views;
    for (const KeyValue& item : items) views.push_back({item.key, item.value, {}});
    std::vector<Status> results(views.size(), Ok());
    co_await session.AsyncMultiPut(views, results);
    for (const Status& result : results) {
      if (!result) co_return result.error();
    }
    const uint64_t now_ms = session.StoreTimeMs();
    if (has_more && now_ms < told_ms + kCopyNewsMs) continue;
    told_ms = now_ms;
    BOOST_OUTCOME_CO_TRY(is_alive, co_await NoteLargeKey(session, copy.id, key));
    if (!is_alive) co_return MakeError(Code::kContended, "the copy has taken too long: try again");
  }
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  co_return copy;
}

Task<Result<LargeSweep>> SweepLarge(Session& session, std::function<bool()> goes_on) {
  LargeSweep done;
  std::string from = RecordKeyOf(1);
  Status first_failure = Ok();
  while (goes_on()) {
    ScanOptions options;
    options.from = from;
    options.prefix = kReserved;
    options.limit = 1;
    options.keys_only = true;
    std::optional<uint64_t> id;
    {
      const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
      const bool has_one = co_await cursor->AsyncNext();
      BOOST_OUTCOME_CO_TRYV(cursor->status());
      if (has_one) id = LargeIdOf(cursor->key());
    }
    if (!id) break;
    ++done.composites;
    Sweeper sweeper(session, *id, done);
    const Status status = co_await sweeper.Run();
    if (!status && first_failure) first_failure = status;
    from = RecordKeyOf(*id) + '\xff';  // behind its items
  }
  if (!first_failure) co_return first_failure.error();
  co_return done;
}

}  // namespace gossamer::gateway
