#include "compute/gateway/worker/large_run.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <unordered_set>
#include <utility>

#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/worker/change_run.h"
#include "compute/gateway/worker/key_sampler.h"
#include "compute/gateway/worker/large_records.h"

namespace gossamer::gateway {
namespace {

// Of all names and values that a reply is made of.
constexpr size_t kMostListed = size_t{64} << 20;
constexpr size_t kItemOverhead = 64;  // of each, in memory
constexpr std::string_view kTooMuchHeld =
    "TRYAGAIN the replies of these commands are too long together: send fewer at a time";
constexpr std::string_view kListTooLong = "ERR the reply would be too long: use HSCAN or SSCAN";
// So many drawn items are drawn one by one; for more of them, all are read.
constexpr uint64_t kMostDrawn = 16;
// SPOP of more marks its set as perhaps empty before it begins, as HDEL of all fields does.
constexpr uint64_t kMostMarked = 100'000;
constexpr size_t kPoppedTogether = 1024;
constexpr int kMostDraws = 64;  // of one item that others have not removed meanwhile

// Puts another header in the place of one.
class HeaderChange final : public ValueModifier {
 public:
  HeaderChange(const LargeHeader& from, LargeHeader::State to, uint64_t now_ms)
      : seen_(from), next_(from) {
    seen_.items = {};
    next_.state = to;
    next_.since_ms = now_ms;
    next_.items = {};
    bytes_ = next_.Encode();
  }
  // Also if others have opened or marked the composite since, but not if it is filling.
  void TakeAnyState() { takes_any_state_ = true; }
  // The key does not expire any more.
  void ClearTime() { clears_time_ = true; }

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    const std::optional<LargeHeader> found = ParseLargeHeader(value, expiry);
    bool is_it = found && IsSame(*found, seen_);
    if (found && takes_any_state_) {
      is_it = found->id == seen_.id && found->state != LargeHeader::State::kFilling;
    }
    if (!is_it) return {};
    return {Kind::kPut, bytes_, clears_time_ ? Expiry::Never().OfComposite() : expiry};
  }
  const LargeHeader& next() const { return next_; }

 private:
  LargeHeader seen_;
  LargeHeader next_;
  std::string bytes_;
  bool takes_any_state_ = false;
  bool clears_time_ = false;
};

// Puts a header where there is nothing.
class InsertHeader final : public ValueModifier {
 public:
  explicit InsertHeader(const LargeHeader& header) : bytes_(header.Encode()) {}

  Change Modify(std::optional<std::string_view> value, Expiry /*expiry*/) override {
    if (value) return {};
    return {Kind::kPut, bytes_, Expiry::Never().OfComposite()};
  }
  bool wants_value() const override { return false; }

 private:
  const std::string bytes_;
};

ScanOptions ItemsOf(uint64_t id, bool keys_only) {
  ScanOptions options;
  options.prefix = ItemPrefixOf(id);
  options.keys_only = keys_only;
  return options;
}

}  // namespace

// Names and values that were scanned, with their bytes.
struct LargeRun::Items {
  std::vector<CompositeItem> views;
  std::deque<std::string> bytes;
  size_t total = 0;

  // Returns false if that is too much.
  bool Add(std::string_view name, std::string_view value) {
    total += name.size() + value.size() + kItemOverhead;
    if (total > kMostListed) return false;
    std::string& both = bytes.emplace_back(name);
    both += value;
    const std::string_view all = both;
    views.push_back({all.substr(0, name.size()), all.substr(name.size())});
    return true;
  }
};

// ---- Its form

Task<Result<bool>> LargeRun::IsEmpty(Session& session, uint64_t id) {
  ScanOptions options = ItemsOf(id, true);
  options.limit = 1;
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  const bool has_one = co_await cursor->AsyncNext();
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  co_return !has_one;
}

Task<Status> LargeRun::Fill(Session& session, std::string_view key, LargeHeader header) {
  const Result<ExpiringValue> found = co_await session.AsyncGetWithExpiry(key);
  if (!found && found.error().code == Code::kNotFound) co_return Ok();
  if (!found) co_return found.error();
  const std::optional<LargeHeader> now =
      ParseLargeHeader(found.value().value, found.value().expiry);
  if (!now || now->id != header.id || now->state != LargeHeader::State::kFilling) co_return Ok();
  // Before the items: the LargeSweeper takes those without a record for garbage.
  BOOST_OUTCOME_CO_TRYV(co_await PutLargeRecord(session, header.id, key));
  std::vector<std::string> keys;
  std::vector<KeyValueView> pairs;
  CompositeView view(header.type, now->items);
  keys.reserve(view.count());
  while (const std::optional<CompositeItem> item = view.Next()) {
    keys.push_back(ItemKeyOf(header.id, item->name));
    pairs.push_back({keys.back(), item->value, {}});
  }
  std::vector<Status> results(pairs.size(), Ok());
  co_await session.AsyncMultiPut(pairs, results);
  for (const Status& result : results) {
    if (!result) co_return result.error();
  }
  co_return co_await Open(session, key, *now);
}

Task<Status> LargeRun::Create(Session& session, std::string_view key, CompositeType type) {
  LargeHeader header;
  header.type = type;
  header.state = LargeHeader::State::kPerhapsEmpty;
  header.id = NewLargeId();
  header.nonce = NewNonce();
  header.since_ms = session.StoreTimeMs();
  BOOST_OUTCOME_CO_TRYV(co_await PutLargeRecord(session, header.id, key));
  InsertHeader insertion(header);
  co_return co_await session.AsyncModify(key, insertion);
}

Task<Status> LargeRun::Open(Session& session, std::string_view key, LargeHeader header) {
  HeaderChange opening(header, LargeHeader::State::kOpen, session.StoreTimeMs());
  co_return co_await session.AsyncModify(key, opening);
}

Task<Result<LargeHeader>> LargeRun::BeginAnew(Session& session, std::string_view key,
                                              LargeHeader header) {
  HeaderChange marking(header, LargeHeader::State::kPerhapsEmpty, session.StoreTimeMs());
  marking.ClearTime();
  BOOST_OUTCOME_CO_TRYV(co_await session.AsyncModify(key, marking));
  co_return marking.next();
}

Task<Result<LargeHeader>> LargeRun::NoteBefore(Session& session, std::string_view key,
                                               LargeHeader header, size_t count,
                                               std::function<bool(std::string_view)> removes) {
  ScanOptions options = ItemsOf(header.id, true);
  options.limit = count + 1;
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  while (co_await cursor->AsyncNext()) {
    if (!removes(cursor->key())) co_return header;
  }
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  HeaderChange marking(header, LargeHeader::State::kPerhapsEmpty, session.StoreTimeMs());
  BOOST_OUTCOME_CO_TRYV(co_await session.AsyncModify(key, marking));
  co_return marking.next();
}

Task<Status> LargeRun::NoteBehind(Session& session, std::string_view key, LargeHeader header) {
  BOOST_OUTCOME_CO_TRY(is_empty, co_await IsEmpty(session, header.id));
  if (!is_empty && header.state == LargeHeader::State::kOpen) co_return Ok();
  if (!is_empty) co_return co_await Open(session, key, header);
  // What others add meanwhile comes behind this, and begins anew: without a time.
  HeaderChange marking(header, LargeHeader::State::kPerhapsEmpty, session.StoreTimeMs());
  marking.TakeAnyState();
  marking.ClearTime();
  co_return co_await session.AsyncModify(key, marking);
}

Task<Result<bool>> LargeRun::Settle(Session& session, std::string_view key, LargeHeader header) {
  BOOST_OUTCOME_CO_TRY(is_empty, co_await IsEmpty(session, header.id));
  if (is_empty) co_return true;
  BOOST_OUTCOME_CO_TRYV(co_await Open(session, key, header));
  co_return false;
}

// ---- Changes

Task<void> LargeRun::Change(Session& session, std::vector<KeyChanges*> changes) {
  std::vector<KeyChanges*> of_items;
  for (KeyChanges* const group : changes) {
    size_t count = 0;
    bool are_of_items = true;
    ValueChange* last = nullptr;
    group->ForEach([&](ValueChange& one) {
      ++count;
      last = &one;
      are_of_items = are_of_items && one.composite() != nullptr && one.composite()->IsOfItems() &&
                     one.composite()->type() == group->header().type;
    });
    if (are_of_items) {
      of_items.push_back(group);
    } else if (count > 1) {
      co_await ChangeOneByOne(session, *group);
    } else if (last->composite()->type() != group->header().type) {
      last->composite()->AnswerError(kWrongType);
      group->SetResult(Ok());
    } else {
      const Status status = co_await ChangeAny(session, *group, *last->composite());
      group->SetResult(status);
    }
  }
  if (!of_items.empty()) co_await ChangeItems(session, std::move(of_items));
}

// Changes of items count as done before the header has gone, if it has. Where they have taken very
// long, others may have relied on that they were not done (kSettlingMs).
Task<Status> LargeRun::CheckHeader(Session& session, KeyChanges& group) {
  if (session.StoreTimeMs() <= group.terms().now_ms + kSettlingMs / 2) co_return Ok();
  BOOST_OUTCOME_CO_TRY(is_there, co_await HasLarge(session, group.key(), group.header().id));
  if (is_there) co_return Ok();
  co_return MakeError(Code::kMaybeApplied,
                      "this has taken long, and others have deleted, emptied or renamed the key "
                      "meanwhile: read it to find out");
}

// A reply that is held with others until all are given.
void LargeRun::TakeReply(KeyChanges& group, CompositeCommand& command) {
  if (!command.IsChange() && !group.TakeReply(command.reply().size())) {
    command.GiveBackMemory();
    command.AnswerError(kTooMuchHeld);
  }
}

Task<Status> LargeRun::ChangeAny(Session& session, KeyChanges& group, CompositeCommand& command) {
  LargeHeader header = group.header();
  if (!command.IsPop()) {
    BOOST_OUTCOME_CO_TRYV(co_await AnswerAny(session, command, header, nullptr));
    TakeReply(group, command);
    co_return Ok();
  }
  const size_t count = std::min<uint64_t>(*command.CountToDraw(), kMostMarked);
  const auto any = [](std::string_view) { return true; };
  BOOST_OUTCOME_CO_TRY(marked, co_await NoteBefore(session, group.key(), header, count, any));
  BOOST_OUTCOME_CO_TRYV(co_await AnswerAny(session, command, header, nullptr));
  co_return co_await NoteBehind(session, group.key(), marked);
}

Task<void> LargeRun::ChangeOneByOne(Session& session, KeyChanges& group) {
  std::vector<ValueChange*> all;
  group.ForEach([&](ValueChange& one) { all.push_back(&one); });
  ChangeTerms terms = group.terms();
  terms.now_ms = session.StoreTimeMs();
  for (ValueChange* const one : all) {
    std::vector<KeyChanges> alone;
    alone.emplace_back(*one, terms, group.memory());
    ChangeRun run;
    co_await run.Run(session, alone);
    if (CompositeCommand* const command = one->composite()) TakeReply(group, *command);
  }
}

Task<Result<LargeHeader>> LargeRun::NoteBefore(Session& session, KeyChanges& group) {
  if (!group.RemovesItems()) co_return group.header();
  std::vector<ItemChange> items;
  group.ForEach(
      [&](ValueChange& one) { one.composite()->AddItemChanges(group.header().id, items); });
  std::set<std::string_view> removed;
  for (const ItemChange& item : items) {
    if (item.action() == ItemChange::Action::kRemove) removed.insert(item.key());
  }
  const auto removes = [&removed](std::string_view key) { return removed.contains(key); };
  co_return co_await NoteBefore(session, group.key(), group.header(), removed.size(), removes);
}

Task<void> LargeRun::ChangeItems(Session& session, std::vector<KeyChanges*> groups) {
  std::vector<KeyChanges*> changes;
  std::vector<LargeHeader> headers;
  for (KeyChanges* const group : groups) {
    const Result<LargeHeader> header = co_await NoteBefore(session, *group);
    if (!header) {
      group->SetResult(header.error());
    } else if (header.value().state == LargeHeader::State::kPerhapsEmpty && group->HasSeveral()) {
      // What comes behind the last item's removal begins anew.
      co_await ChangeOneByOne(session, *group);
    } else {
      changes.push_back(group);
      headers.push_back(header.value());
    }
  }
  if (changes.empty()) co_return;
  std::vector<ItemChange> items;
  items.reserve(changes.size());
  std::vector<size_t> counts;  // of each command
  for (KeyChanges* const group : changes) {
    group->ForEach([&](ValueChange& one) {
      const size_t before = items.size();
      one.composite()->AddItemChanges(group->header().id, items);
      counts.push_back(items.size() - before);
    });
  }
  std::vector<KeyModifier> modifiers;
  modifiers.reserve(items.size());
  for (ItemChange& item : items) modifiers.push_back({item.key(), &item});
  std::vector<Status> results(items.size(), Ok());
  co_await session.AsyncMultiModify(modifiers, results);
  size_t at = 0;
  size_t command = 0;
  size_t number = 0;
  for (KeyChanges* const group : changes) {
    const LargeHeader& header = headers[number++];
    const Status lasted = co_await CheckHeader(session, *group);
    bool may_be_empty = header.state == LargeHeader::State::kPerhapsEmpty;
    group->ForEach([&](ValueChange& one) {
      const size_t count = counts[command++];
      const std::span<const ItemChange> own = std::span(items).subspan(at, count);
      one.result = lasted;
      for (size_t i = at; i < at + count; ++i) {
        // No item has a name that is too long for a key.
        const bool is_absent =
            !results[i] && results[i].error().code == Code::kInvalidArgument && !items[i].adds();
        if (!results[i] && !is_absent) one.result = results[i];
      }
      if (one.result) {
        one.composite()->AnswerItems(own);
        TakeReply(*group, *one.composite());
      }
      // Also where it was absent: the composite may have been empty before.
      const auto removes = [](const ItemChange& item) {
        return item.action() == ItemChange::Action::kRemove;
      };
      may_be_empty = may_be_empty || !one.result || std::ranges::any_of(own, removes);
      at += count;
    });
    // Whoever meets the composite next finds out what this could not.
    if (may_be_empty) static_cast<void>(co_await NoteBehind(session, group->key(), header));
    group->Forget();
  }
}

// ---- Reads

Task<bool> LargeRun::ReadItems(Session& session, std::vector<LargeLook> looks,
                               uint64_t most_bytes) {
  std::vector<std::string> keys;
  for (const LargeLook& one : looks) {
    for (const std::string_view name : one.look->composite()->names()) {
      keys.push_back(ItemKeyOf(one.header.id, name));
    }
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  Values values;
  values.set_most_bytes(most_bytes);
  co_await session.AsyncMultiGet(views, values);
  if (values.is_full()) co_return false;
  size_t at = 0;
  std::vector<std::optional<std::string_view>> found;
  for (const LargeLook& one : looks) {
    CompositeCommand& command = *one.look->composite();
    found.clear();
    std::string refusal;
    for (size_t i = 0; i < command.names().size(); ++i, ++at) {
      const Result<std::string_view> value = values[at];
      const bool is_absent = IsAbsent(value);
      if (!value && !is_absent) refusal = ErrorLine(value.error());
      found.push_back(value ? std::optional(value.value()) : std::nullopt);
    }
    refusal.empty() ? command.AnswerValues(found) : command.AnswerError(refusal);
    command.KeepReply();
  }
  co_return true;
}

Task<void> LargeRun::Read(Session& session, std::vector<LargeLook> looks,
                          ScanPositions& positions) {
  std::vector<LargeLook> of_items;
  for (const LargeLook& one : looks) {
    CompositeCommand& command = *one.look->composite();
    if (command.IsOfItems()) {
      of_items.push_back(one);
      continue;
    }
    const Status status = co_await AnswerAny(session, command, one.header, &positions);
    if (!status) command.AnswerError(ErrorLine(status.error()));
    command.KeepReply();
  }
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  if (!of_items.empty()) static_cast<void>(co_await ReadItems(session, std::move(of_items), kAll));
}

Task<Status> LargeRun::AnswerAny(Session& session, CompositeCommand& command,
                                 const LargeHeader& header, ScanPositions* positions) {
  if (!command.late_refusal().empty()) {
    command.AnswerError(command.late_refusal());
    co_return Ok();
  }
  if (command.WantsCount()) {
    BOOST_OUTCOME_CO_TRY(count, co_await Count(session, header.id));
    command.AnswerCount(count);
    co_return Ok();
  }
  if (command.IsScan() && positions != nullptr) {
    co_return co_await Scan(session, command, header.id, *positions);
  }
  const std::optional<uint64_t> drawn = command.CountToDraw();
  if (command.IsPop() && *drawn > kMostDrawn) {
    co_return co_await PopMany(session, command, header.id, *drawn);
  }
  if (drawn && (*drawn <= kMostDrawn || command.IsPop())) {
    BOOST_OUTCOME_CO_TRY(is_done, co_await Draw(session, command, header.id, *drawn));
    if (is_done) co_return Ok();
  }
  Items items;
  BOOST_OUTCOME_CO_TRYV(co_await ReadAll(session, header.id, command.WantsValues(), items));
  if (items.total > kMostListed) {
    command.AnswerError(kListTooLong);
  } else if (command.IsScan()) {
    command.AnswerScan(0, items.views);
  } else {
    command.AnswerAll(items.views);
  }
  co_return Ok();
}

Task<Status> LargeRun::PopMany(Session& session, CompositeCommand& command, uint64_t id,
                               uint64_t count) {
  Items all;
  BOOST_OUTCOME_CO_TRYV(co_await ReadAll(session, id, false, all));
  if (all.total > kMostListed) {
    command.AnswerError("ERR the set is too large for SPOP with that count: use a lower one");
    co_return Ok();
  }
  static thread_local std::mt19937_64 random{std::random_device{}()};
  std::ranges::shuffle(all.views, random);
  Items popped;
  for (size_t next = 0; popped.views.size() < count && next < all.views.size();) {
    const size_t wanted = std::min<size_t>(kPoppedTogether, count - popped.views.size());
    std::vector<ItemChange> changes;
    for (; changes.size() < wanted && next < all.views.size(); ++next) {
      changes.emplace_back(ItemChange::Action::kRemove, ItemKeyOf(id, all.views[next].name));
    }
    std::vector<KeyModifier> modifiers;
    for (ItemChange& one : changes) modifiers.push_back({one.key(), &one});
    std::vector<Status> results(changes.size(), Ok());
    co_await session.AsyncMultiModify(modifiers, results);
    for (size_t i = 0; i < changes.size(); ++i) {
      if (!results[i]) co_return results[i].error();
      if (changes[i].was_there()) popped.Add(changes[i].key().substr(kItemPrefixBytes), {});
    }
  }
  command.AnswerDrawn(popped.views);
  co_return Ok();
}

Task<Result<uint64_t>> LargeRun::Count(Session& session, uint64_t id) {
  const std::unique_ptr<ScanCursor> cursor = session.Scan(ItemsOf(id, true));
  uint64_t count = 0;
  while (co_await cursor->AsyncNext()) ++count;
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  co_return count;
}

Task<Status> LargeRun::ReadAll(Session& session, uint64_t id, bool with_values, Items& items) {
  const std::unique_ptr<ScanCursor> cursor = session.Scan(ItemsOf(id, !with_values));
  while (co_await cursor->AsyncNext()) {
    if (!items.Add(cursor->key().substr(kItemPrefixBytes), cursor->value())) co_return Ok();
  }
  co_return cursor->status();
}

Task<Status> LargeRun::Scan(Session& session, CompositeCommand& command, uint64_t id,
                            ScanPositions& positions) {
  ScanOptions options = ItemsOf(id, !command.WantsValues());
  options.limit = command.scan_count();
  options.to_bookmark = true;
  positions.GoOnAt(command.cursor(), options);
  const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
  Items items;
  while (co_await cursor->AsyncNext()) {
    if (!items.Add(cursor->key().substr(kItemPrefixBytes), cursor->value())) break;
  }
  if (!cursor->status() && options.resume_at != 0 &&
      cursor->status().error().code == Code::kInvalidArgument) {
    command.AnswerError(kInvalidCursor);
    co_return Ok();
  }
  BOOST_OUTCOME_CO_TRYV(cursor->status());
  if (items.total > kMostListed) {
    command.AnswerError("ERR the reply would be too long: ask for fewer items by COUNT");
    co_return Ok();
  }
  std::optional<ScanBookmark> next = cursor->bookmark();
  command.AnswerScan(next ? next->number : 0, items.views);
  if (next) positions.Add(next->number, std::move(next->key));
  co_return Ok();
}

Task<Result<bool>> LargeRun::Draw(Session& session, CompositeCommand& command, uint64_t id,
                                  uint64_t count) {
  Items items;
  std::unordered_set<std::string> drawn;
  KeySampler sampler;
  WalkTurns turns;  // a draw is short
  int misses = 0;
  while (drawn.size() < count && misses < kMostDraws) {
    BOOST_OUTCOME_CO_TRY(key, co_await sampler.Draw(session, turns, ItemsOf(id, true)));
    if (!key || items.total + key->size() > kMostListed) break;
    ItemChange change(command.IsPop() ? ItemChange::Action::kRemove : ItemChange::Action::kRead,
                      *key);
    BOOST_OUTCOME_CO_TRYV(co_await session.AsyncModify(change.key(), change));
    if (!change.was_there() || !drawn.insert(*key).second) {
      ++misses;
      continue;
    }
    misses = 0;
    const std::string name = key->substr(kItemPrefixBytes);
    if (!items.Add(name, change.text().value_or(""))) break;
  }
  // Where there are hardly more items than are wanted, the last ones are seldom met.
  if (misses == kMostDraws && !command.IsPop()) co_return false;
  command.AnswerDrawn(items.views);
  co_return true;
}

}  // namespace gossamer::gateway
