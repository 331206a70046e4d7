#include "compute/gateway/commands/composite_command.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "common/random.h"
#include "common/random_id.h"
#include "compute/gateway/commands/number_text.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/words.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kTooLarge =
    "ERR a script makes hashes and sets of at most 1 MiB in Gossamer, with all names and values, "
    "and "
    "so do others where a name is too long to be a key";
constexpr std::string_view kTooLargeHere =
    "ERR a script cannot use this hash or set: it has more than 32 KiB, and its items are keys of "
    "their own";
constexpr uint64_t kScanCount = 10;  // unless COUNT says another one
constexpr std::string_view kDamaged =
    "ERR the value is no hash and no set, though the store says so: another program has put it";
constexpr std::string_view kReplyTooLong = "ERR the reply would be too long: ask for fewer items";
constexpr size_t kMostReplyBytes = size_t{64} << 20;

uint64_t RandomBelow(uint64_t bound) {
  thread_local Random random(RandomId());
  return random.Below(bound);
}

}  // namespace

bool CompositeCommand::Has(CommandId id) {
  switch (id) {
    case CommandId::kHDel:
    case CommandId::kHExists:
    case CommandId::kHGet:
    case CommandId::kHGetAll:
    case CommandId::kHIncrBy:
    case CommandId::kHIncrByFloat:
    case CommandId::kHKeys:
    case CommandId::kHLen:
    case CommandId::kHMget:
    case CommandId::kHRandField:
    case CommandId::kHScan:
    case CommandId::kHSet:
    case CommandId::kHSetnx:
    case CommandId::kHStrlen:
    case CommandId::kHVals:
    case CommandId::kSAdd:
    case CommandId::kSCard:
    case CommandId::kSIsMember:
    case CommandId::kSMembers:
    case CommandId::kSMIsMember:
    case CommandId::kSPop:
    case CommandId::kSRandMember:
    case CommandId::kSRem:
    case CommandId::kSScan: return true;
    default: return false;
  }
}

std::string CompositeCommand::Parse(const Command& command,
                                    const std::vector<std::string_view>& arguments, bool is_resp3) {
  assert(Has(command.id));
  id_ = command.id;
  type_ = command.name.starts_with('h') ? CompositeType::kHash : CompositeType::kSet;
  is_resp3_ = is_resp3;
  with_values_ = false;
  keeps_reply_ = false;
  late_refusal_.clear();
  operands_.assign(arguments.begin() + 2, arguments.end());
  switch (id_) {
    case CommandId::kHSet:
      answers_ok_ = command.name == "hmset";
      if (operands_.size() % 2 != 0) return WrongNumberOfArguments(command.name);
      break;
    case CommandId::kHIncrBy: {
      const std::optional<int64_t> by = ParseInteger(operands_[1]);
      if (!by) return std::string(kNoInteger);
      number_ = *by;
      break;
    }
    case CommandId::kHIncrByFloat: {
      const std::optional<long double> by = ParseFloat(operands_[1]);
      if (!by) return std::string(kNoFloat);
      if (std::isinf(*by)) return "ERR value is NaN or Infinity";
      float_ = *by;
      break;
    }
    case CommandId::kHRandField:
    case CommandId::kSRandMember:
    case CommandId::kSPop: return ParseRandom(arguments);
    case CommandId::kHScan:
    case CommandId::kSScan: return ParseScan(arguments);
    default: break;
  }
  return {};
}

// HRANDFIELD key [count [WITHVALUES]], SRANDMEMBER key [count], SPOP key [count]
std::string CompositeCommand::ParseRandom(const std::vector<std::string_view>& arguments) {
  has_count_ = arguments.size() > 2;
  if (!has_count_) return {};
  const bool may_have_values = id_ == CommandId::kHRandField;
  if (arguments.size() > (may_have_values ? 4 : 3)) return std::string(kSyntaxError);
  const std::optional<int64_t> count = ParseInteger(arguments[2]);
  if (id_ == CommandId::kSPop && (!count || *count < 0)) {
    return "ERR value is out of range, must be positive";
  }
  if (!count) return std::string(kNoInteger);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (*count < -kMost) {
    return "ERR value is out of range, value must between -9223372036854775807 and "
           "9223372036854775807";
  }
  number_ = *count;
  if (arguments.size() == 3) return {};
  if (!IsWord(arguments[3], "withvalues")) return std::string(kSyntaxError);
  with_values_ = true;
  return number_ < -kMost / 2 || number_ > kMost / 2 ? "ERR value is out of range" : "";
}

// key cursor [MATCH pattern] [COUNT count] [NOVALUES]. Of a small composite everything comes at
// once, whatever the cursor, as in Redis's small hashes.
std::string CompositeCommand::ParseScan(const std::vector<std::string_view>& arguments) {
  pattern_ = "*";
  scan_count_ = kScanCount;
  with_values_ = type_ == CompositeType::kHash;
  const std::string_view text = arguments[2];
  const auto [behind, failure] = std::from_chars(text.begin(), text.end(), cursor_);
  if (failure != std::errc() || behind != text.end()) return std::string(kInvalidCursor);
  late_refusal_ = ParseScanOptions(arguments);
  return {};
}

std::string CompositeCommand::ParseScanOptions(const std::vector<std::string_view>& arguments) {
  for (size_t i = 3; i < arguments.size(); ++i) {
    const bool has_next = i + 1 < arguments.size();
    if (IsWord(arguments[i], "match") && has_next) {
      pattern_ = arguments[++i];
      if (pattern_.size() > kMostPatternBytes) return std::string(kPatternTooLong);
    } else if (IsWord(arguments[i], "count") && has_next) {
      const std::optional<int64_t> count = ParseInteger(arguments[++i]);
      if (!count) return std::string(kNoInteger);
      if (*count < 1) return std::string(kSyntaxError);
      scan_count_ = std::min(static_cast<uint64_t>(*count), kMostPerScan);
    } else if (IsWord(arguments[i], "novalues") && with_values_) {
      with_values_ = false;
    } else {
      return std::string(kSyntaxError);
    }
  }
  return {};
}

KeyEffect CompositeCommand::Refuse(std::string_view line) {
  reply_.clear();
  Writer().Error(line);
  return KeyEffect::kNone;
}

// ---- Changes

KeyEffect CompositeCommand::Apply(KeyState& state) {
  if (!IsChange()) {
    Read(KeyLook(state));
    return KeyEffect::kNone;
  }
  reply_.clear();
  if (state.value && !state.is_composite) return Refuse(kWrongType);
  if (state.value) {
    const std::optional<CompositeType> type = TypeOfComposite(*state.value);
    if (!type) return Refuse(kDamaged);
    if (*type != type_) return Refuse(kWrongType);
    if (ParseLargeHeader(*state.value)) return Refuse(kTooLargeHere);
  }
  std::optional<CompositeEdit> edit = CompositeEdit::Of(type_, state.value);
  if (!edit) return Refuse(kDamaged);
  if (!Edit(*edit)) return KeyEffect::kNone;
  if (edit->count() == 0) {
    state.Remove();
    return KeyEffect::kWritten;
  }
  if (edit->bytes() > kMaxValueBytes - kLargeHeaderBytes) {
    state.wants_large = type_;
    return Refuse(kTooLarge);
  }
  if (!state.value) state.expiry = Expiry::Never();
  state.value = edit->Encode();
  state.is_composite = true;
  return KeyEffect::kWritten;
}

bool CompositeCommand::IsChange() const {
  switch (id_) {
    case CommandId::kHDel:
    case CommandId::kHIncrBy:
    case CommandId::kHIncrByFloat:
    case CommandId::kHSet:
    case CommandId::kHSetnx:
    case CommandId::kSAdd:
    case CommandId::kSPop:
    case CommandId::kSRem: return true;
    default: return false;
  }
}

bool CompositeCommand::Edit(CompositeEdit& edit) {
  switch (id_) {
    case CommandId::kHSet: return SetFields(edit);
    case CommandId::kHSetnx: {
      const bool is_there = edit.Find(operands_[0]).has_value();
      if (!is_there) edit.Set(operands_[0], operands_[1]);
      Writer().Integer(is_there ? 0 : 1);
      return !is_there;
    }
    case CommandId::kHIncrBy: return Increment(edit);
    case CommandId::kHIncrByFloat: return IncrementByFloat(edit);
    case CommandId::kSAdd: return AddMembers(edit);
    case CommandId::kSPop: return Pop(edit);
    default: return RemoveItems(edit);
  }
}

bool CompositeCommand::SetFields(CompositeEdit& edit) {
  int64_t added = 0;
  for (size_t i = 0; i < operands_.size(); i += 2) {
    added += edit.Set(operands_[i], operands_[i + 1]) ? 1 : 0;
  }
  answers_ok_ ? Writer().Ok() : Writer().Integer(added);
  return true;
}

bool CompositeCommand::Increment(CompositeEdit& edit) {
  const std::optional<size_t> place = edit.Find(operands_[0]);
  const std::optional<int64_t> old = place ? ParseInteger(edit.ValueAt(*place)) : 0;
  int64_t sum = 0;
  if (!old) {
    Refuse(kHashValueNoInteger);
  } else if (__builtin_add_overflow(*old, number_, &sum)) {
    Refuse(kOverflow);
  } else {
    edit.Set(operands_[0], edit.Keep(std::to_string(sum)));
    Writer().Integer(sum);
    return true;
  }
  return false;
}

bool CompositeCommand::IncrementByFloat(CompositeEdit& edit) {
  const std::optional<size_t> place = edit.Find(operands_[0]);
  const std::optional<long double> old = place ? ParseFloat(edit.ValueAt(*place)) : 0;
  const long double sum = old.value_or(0) + float_;
  if (!old) {
    Refuse(kHashValueNoFloat);
  } else if (std::isnan(sum) || std::isinf(sum)) {
    Refuse(kNan);
  } else {
    const std::string_view text = edit.Keep(FloatText(sum));
    edit.Set(operands_[0], text);
    Writer().Bulk(text);
    return true;
  }
  return false;
}

bool CompositeCommand::AddMembers(CompositeEdit& edit) {
  int64_t added = 0;
  for (const std::string_view member : operands_) added += edit.Set(member, {}) ? 1 : 0;
  Writer().Integer(added);
  return added != 0;
}

bool CompositeCommand::RemoveItems(CompositeEdit& edit) {
  int64_t removed = 0;
  for (const std::string_view name : operands_) {
    const std::optional<size_t> place = edit.Find(name);
    if (!place) continue;
    edit.Remove(*place);
    ++removed;
  }
  Writer().Integer(removed);
  return removed != 0;
}

bool CompositeCommand::Pop(CompositeEdit& edit) {
  ReplyWriter reply = Writer();
  const size_t count =
      has_count_
          ? static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(number_), edit.count()))
          : std::min<size_t>(edit.count(), 1);
  if (has_count_) reply.Set(count);
  if (!has_count_ && count == 0) reply.Null();
  for (size_t i = 0; i < count; ++i) {
    const size_t place = edit.PlaceOf(RandomBelow(edit.count()));
    reply.Bulk(edit.NameAt(place));
    edit.Remove(place);
  }
  return count != 0;
}

// ---- Reads

void CompositeCommand::Read(const KeyLook& look) {
  if (std::exchange(keeps_reply_, false)) return;
  reply_.clear();
  if (look.value && !look.is_composite) return void(Refuse(kWrongType));
  std::optional<std::string_view> small = look.value;
  if (look.value) {
    const std::optional<CompositeType> type = TypeOfComposite(*look.value);
    if (type != type_) return void(Refuse(type ? kWrongType : kDamaged));
    const std::optional<LargeHeader> header = ParseLargeHeader(*look.value);
    if (header && header->state != LargeHeader::State::kFilling) return void(Refuse(kTooLargeHere));
    if (header) small = header->items;
    if (small->empty()) small.reset();
  }
  if (look.value && !late_refusal_.empty()) return void(Refuse(late_refusal_));
  const CompositeView view(type_, small.value_or(""));
  switch (id_) {
    case CommandId::kHLen:
    case CommandId::kSCard: return Writer().Integer(view.count());
    case CommandId::kHGet:
    case CommandId::kHExists:
    case CommandId::kHStrlen:
    case CommandId::kSIsMember: return ReadOne(view);
    case CommandId::kHMget:
    case CommandId::kSMIsMember: return ReadSome(small);
    default: break;
  }
  std::vector<CompositeItem> items;
  CompositeView rest = view;
  while (const std::optional<CompositeItem> item = rest.Next()) items.push_back(*item);
  if (small && !rest.has_ended()) {
    Refuse(kDamaged);
  } else if (IsScan()) {
    AnswerScan(0, items);
  } else {
    AnswerAll(items);
  }
}

void CompositeCommand::AnswerAll(const std::vector<CompositeItem>& items) {
  reply_.clear();
  if (id_ == CommandId::kHRandField || id_ == CommandId::kSRandMember) {
    Draw(items);
  } else {
    List(items);
  }
}

void CompositeCommand::ReadOne(const CompositeView& view) {
  const std::optional<CompositeItem> item = view.Find(operands_[0]);
  if (id_ == CommandId::kHGet) {
    item ? Writer().Bulk(item->value) : Writer().Null();
  } else if (id_ == CommandId::kHStrlen) {
    Writer().Integer(item ? static_cast<int64_t>(item->value.size()) : 0);
  } else {
    Writer().Integer(item ? 1 : 0);
  }
}

void CompositeCommand::ReadSome(std::optional<std::string_view> bytes) {
  std::optional<CompositeEdit> edit = CompositeEdit::Of(type_, bytes);
  if (!edit) return void(Refuse(kDamaged));
  ReplyWriter reply = Writer();
  reply.Array(operands_.size());
  for (const std::string_view name : operands_) {
    const std::optional<size_t> place = edit->Find(name);
    if (id_ == CommandId::kSMIsMember) {
      reply.Integer(place ? 1 : 0);
    } else {
      place ? reply.Bulk(edit->ValueAt(*place)) : reply.Null();
    }
  }
}

void CompositeCommand::List(const std::vector<CompositeItem>& items) {
  ReplyWriter reply = Writer();
  switch (id_) {
    case CommandId::kHGetAll: reply.Map(items.size()); break;
    case CommandId::kSMembers: reply.Set(items.size()); break;
    default: reply.Array(items.size());
  }
  for (const CompositeItem& item : items) {
    if (id_ != CommandId::kHVals) reply.Bulk(item.name);
    if (id_ == CommandId::kHVals || id_ == CommandId::kHGetAll) reply.Bulk(item.value);
  }
}

void CompositeCommand::Draw(const std::vector<CompositeItem>& items) {
  if (!has_count_) {
    return items.empty() ? Writer().Null() : Writer().Bulk(items[RandomBelow(items.size())].name);
  }
  std::vector<size_t> drawn;
  const bool may_repeat = number_ < 0;
  const auto wanted = static_cast<uint64_t>(may_repeat ? -number_ : number_);
  if (may_repeat && !items.empty()) {
    if (wanted > kMostReplyBytes / 8) return void(Refuse(kReplyTooLong));
    while (drawn.size() < wanted) drawn.push_back(RandomBelow(items.size()));
  }
  // Each of those left is taken with the same chance (Knuth, algorithm S).
  for (size_t i = 0; i < items.size() && !may_repeat && drawn.size() < wanted; ++i) {
    if (RandomBelow(items.size() - i) < wanted - drawn.size()) drawn.push_back(i);
  }
  ListDrawn(items, drawn);
}

void CompositeCommand::ListDrawn(const std::vector<CompositeItem>& items,
                                 const std::vector<size_t>& drawn) {
  ReplyWriter reply = Writer();
  const bool has_pairs = with_values_ && is_resp3_;
  reply.Array(with_values_ && !has_pairs ? 2 * drawn.size() : drawn.size());
  for (const size_t place : drawn) {
    if (has_pairs) reply.Array(2);
    reply.Bulk(items[place].name);
    if (with_values_) reply.Bulk(items[place].value);
    if (reply_.size() > kMostReplyBytes) return void(Refuse(kReplyTooLong));
  }
}

void CompositeCommand::AnswerScan(uint64_t next_cursor, const std::vector<CompositeItem>& items) {
  std::vector<const CompositeItem*> found;
  for (const CompositeItem& item : items) {
    if (MatchesGlob(pattern_, item.name)) found.push_back(&item);
  }
  ReplyWriter reply = Answer();
  reply.Array(2);
  reply.Bulk(std::to_string(next_cursor));
  reply.Array(with_values_ ? 2 * found.size() : found.size());
  for (const CompositeItem* const item : found) {
    reply.Bulk(item->name);
    if (with_values_) reply.Bulk(item->value);
  }
}

// ---- On a large composite

bool CompositeCommand::IsOfItems() const {
  switch (id_) {
    case CommandId::kHDel:
    case CommandId::kHExists:
    case CommandId::kHGet:
    case CommandId::kHIncrBy:
    case CommandId::kHIncrByFloat:
    case CommandId::kHMget:
    case CommandId::kHSet:
    case CommandId::kHSetnx:
    case CommandId::kHStrlen:
    case CommandId::kSAdd:
    case CommandId::kSIsMember:
    case CommandId::kSMIsMember:
    case CommandId::kSRem: return true;
    default: return false;
  }
}

void CompositeCommand::AddItemChanges(uint64_t id, std::vector<ItemChange>& changes) const {
  assert(IsOfItems());
  using Action = ItemChange::Action;
  switch (id_) {
    case CommandId::kHSet:
    case CommandId::kHSetnx: {
      const Action action = id_ == CommandId::kHSet ? Action::kSet : Action::kSetIfAbsent;
      for (size_t i = 0; i < operands_.size(); i += 2) {
        changes.emplace_back(action, ItemKeyOf(id, operands_[i]), operands_[i + 1]);
      }
      return;
    }
    case CommandId::kHIncrBy:
      changes.push_back(ItemChange::Increment(ItemKeyOf(id, operands_[0]), number_));
      return;
    case CommandId::kHIncrByFloat:
      changes.push_back(ItemChange::IncrementByFloat(ItemKeyOf(id, operands_[0]), float_));
      return;
    default: break;
  }
  Action action = Action::kRead;
  if (id_ == CommandId::kSAdd) action = Action::kSetIfAbsent;
  if (id_ == CommandId::kHDel || id_ == CommandId::kSRem) action = Action::kRemove;
  for (const std::string_view name : operands_) changes.emplace_back(action, ItemKeyOf(id, name));
}

void CompositeCommand::AnswerItems(std::span<const ItemChange> changes) {
  const auto were_there = std::ranges::count_if(changes, &ItemChange::was_there);
  const auto count = static_cast<int64_t>(changes.size());
  const ItemChange& first = changes.front();
  switch (id_) {
    case CommandId::kHSet:
      return answers_ok_ ? Answer().Ok() : Answer().Integer(count - were_there);
    case CommandId::kHSetnx:
    case CommandId::kSAdd: return Answer().Integer(count - were_there);
    case CommandId::kHDel:
    case CommandId::kSRem: return Answer().Integer(were_there);
    case CommandId::kHIncrBy:
      return first.text() ? Answer().Integer(*ParseInteger(*first.text()))
                          : void(Refuse(first.refusal()));
    case CommandId::kHIncrByFloat:
      return first.text() ? Answer().Bulk(*first.text()) : void(Refuse(first.refusal()));
    default: break;
  }
  std::vector<std::optional<std::string_view>> values;
  for (const ItemChange& one : changes) {
    values.push_back(one.text() ? std::optional<std::string_view>(*one.text()) : std::nullopt);
  }
  AnswerValues(values);
}

void CompositeCommand::AnswerValues(std::span<const std::optional<std::string_view>> values) {
  ReplyWriter reply = Answer();
  const std::optional<std::string_view> first = values.front();
  switch (id_) {
    case CommandId::kHGet: return reply.BulkOrNull(first);
    case CommandId::kHStrlen: return reply.Integer(static_cast<int64_t>(first.value_or("").size()));
    case CommandId::kHExists:
    case CommandId::kSIsMember: return reply.Integer(first ? 1 : 0);
    default: break;
  }
  reply.Array(values.size());
  for (const std::optional<std::string_view>& value : values) {
    id_ == CommandId::kHMget ? reply.BulkOrNull(value) : reply.Integer(value ? 1 : 0);
  }
}

std::optional<uint64_t> CompositeCommand::CountToDraw() const {
  const bool draws = IsPop() || id_ == CommandId::kHRandField || id_ == CommandId::kSRandMember;
  if (!draws || (has_count_ && number_ < 0)) return std::nullopt;
  return has_count_ ? static_cast<uint64_t>(number_) : 1;
}

void CompositeCommand::AnswerDrawn(const std::vector<CompositeItem>& items) {
  ReplyWriter reply = Answer();
  if (!has_count_) return items.empty() ? reply.Null() : reply.Bulk(items.front().name);
  if (IsPop()) {
    reply.Set(items.size());
    for (const CompositeItem& item : items) reply.Bulk(item.name);
    return;
  }
  std::vector<size_t> all(items.size());
  std::iota(all.begin(), all.end(), size_t{0});
  ListDrawn(items, all);
}

bool CompositeCommand::WantsValues() const {
  return with_values_ || id_ == CommandId::kHGetAll || id_ == CommandId::kHVals;
}

}  // namespace gossamer::gateway
