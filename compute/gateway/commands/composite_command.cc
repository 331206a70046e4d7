#include "compute/gateway/commands/composite_command.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>
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
    "ERR a hash or a set has at most 1 MiB in Gossamer, with all its names and values";
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
  with_values_ = false;
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

// key cursor [MATCH pattern] [COUNT count] [NOVALUES]. Everything comes at once, whatever the
// cursor, as in Redis's small hashes.
std::string CompositeCommand::ParseScan(const std::vector<std::string_view>& arguments) {
  pattern_ = "*";
  with_values_ = type_ == CompositeType::kHash;
  uint64_t cursor = 0;
  const std::string_view text = arguments[2];
  const auto [behind, failure] = std::from_chars(text.begin(), text.end(), cursor);
  if (failure != std::errc() || behind != text.end()) return "ERR invalid cursor";
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
  }
  std::optional<CompositeEdit> edit = CompositeEdit::Of(type_, state.value);
  if (!edit) return Refuse(kDamaged);
  if (!Edit(*edit)) return KeyEffect::kNone;
  if (edit->count() == 0) {
    state.Remove();
    return KeyEffect::kWritten;
  }
  if (edit->bytes() > kMaxValueBytes) return Refuse(kTooLarge);
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
    Refuse("ERR hash value is not an integer");
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
    Refuse("ERR hash value is not a float");
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
  reply_.clear();
  if (look.value && !look.is_composite) return void(Refuse(kWrongType));
  const std::string_view bytes = look.value.value_or("");
  if (look.value) {
    const std::optional<CompositeType> type = TypeOfComposite(bytes);
    if (type != type_) return void(Refuse(type ? kWrongType : kDamaged));
  }
  if (look.value && !late_refusal_.empty()) return void(Refuse(late_refusal_));
  const CompositeView view(type_, bytes);
  switch (id_) {
    case CommandId::kHLen:
    case CommandId::kSCard: return Writer().Integer(view.count());
    case CommandId::kHGet:
    case CommandId::kHExists:
    case CommandId::kHStrlen:
    case CommandId::kSIsMember: return ReadOne(view);
    case CommandId::kHMget:
    case CommandId::kSMIsMember: return ReadSome(look.value);
    default: break;
  }
  std::vector<CompositeItem> items;
  CompositeView rest = view;
  while (const std::optional<CompositeItem> item = rest.Next()) items.push_back(*item);
  if (look.value && !rest.has_ended()) {
    Refuse(kDamaged);
  } else if (id_ == CommandId::kHRandField || id_ == CommandId::kSRandMember) {
    Draw(items);
  } else if (id_ == CommandId::kHScan || id_ == CommandId::kSScan) {
    Scan(items);
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
  ReplyWriter reply = Writer();
  if (!has_count_) {
    return items.empty() ? reply.Null() : reply.Bulk(items[RandomBelow(items.size())].name);
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
  const bool has_pairs = with_values_ && is_resp3_;
  reply.Array(with_values_ && !has_pairs ? 2 * drawn.size() : drawn.size());
  for (const size_t place : drawn) {
    if (has_pairs) reply.Array(2);
    reply.Bulk(items[place].name);
    if (with_values_) reply.Bulk(items[place].value);
    if (reply_.size() > kMostReplyBytes) return void(Refuse(kReplyTooLong));
  }
}

void CompositeCommand::Scan(const std::vector<CompositeItem>& items) {
  std::vector<const CompositeItem*> found;
  for (const CompositeItem& item : items) {
    if (MatchesGlob(pattern_, item.name)) found.push_back(&item);
  }
  ReplyWriter reply = Writer();
  reply.Array(2);
  reply.Bulk("0");
  reply.Array(with_values_ ? 2 * found.size() : found.size());
  for (const CompositeItem* const item : found) {
    reply.Bulk(item->name);
    if (with_values_) reply.Bulk(item->value);
  }
}

}  // namespace gossamer::gateway
