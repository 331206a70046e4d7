#include "compute/gateway/commands/value_change.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "compute/gateway/protocol/words.h"
#include "proto/key.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kNoFloat = "ERR value is not a valid float";
constexpr std::string_view kOverflow = "ERR increment or decrement would overflow";
constexpr std::string_view kNan = "ERR increment would produce NaN or Infinity";
constexpr std::string_view kTooLong =
    "ERR string exceeds maximum allowed size: values have at most 1 MiB";
constexpr size_t kLongestFloat = 5 * 1024;

std::optional<long double> ParseFloat(std::string_view text) {
  if (text.empty() || text.size() >= kLongestFloat) return std::nullopt;
  if (IsBlank(text.front())) return std::nullopt;
  const std::string copy(text);  // strtold needs its end
  char* end = nullptr;
  errno = 0;
  const long double number = std::strtold(copy.c_str(), &end);
  const bool is_out_of_range = errno == ERANGE && (std::isinf(number) || number == 0);
  if (end != copy.c_str() + copy.size() || std::isnan(number) || is_out_of_range) {
    return std::nullopt;
  }
  return number;
}

// 17 digits behind the point at most, without zeros at the end, as Redis prints it.
std::string FloatText(long double number) {
  std::array<char, 5120> text;  // the largest long double has 4,933 digits
  const int length = std::snprintf(text.data(), text.size(), "%.17Lf", number);
  std::string_view view(text.data(), static_cast<size_t>(length));
  if (view.find('.') != std::string_view::npos) {
    view = view.substr(0, view.find_last_not_of('0') + 1);
    if (view.back() == '.') view.remove_suffix(1);
  }
  return view == "-0" ? "0" : std::string(view);
}

using Milliseconds = std::chrono::milliseconds;

// nullopt: more than Redis takes. It adds them to the time, unless they are one.
std::optional<int64_t> InMilliseconds(int64_t number, bool is_in_seconds, bool is_absolute) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  if (is_in_seconds && (number > kMost / 1000 || number < kLeast / 1000)) return std::nullopt;
  const int64_t ms = is_in_seconds ? number * 1000 : number;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t base = is_absolute ? 0 : std::chrono::duration_cast<Milliseconds>(now).count();
  if (ms > kMost - base) return std::nullopt;
  return ms;
}

std::string InvalidTime(std::string_view command) {
  return "ERR invalid expire time in '" + std::string(command) + "' command";
}

}  // namespace

std::string_view RangeOf(std::string_view value, int64_t first, int64_t last) {
  const auto size = static_cast<int64_t>(value.size());
  if (first < 0 && last < 0 && first > last) return {};
  if (first < 0) first = std::max<int64_t>(0, size + first);
  if (last < 0) last = std::max<int64_t>(0, size + last);
  last = std::min(last, size - 1);
  if (first > last || size == 0) return {};
  return value.substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1));
}

Fingerprint::Fingerprint(std::string_view value, Expiry expiry)
    : hash_(KeyHash(value)), bytes_(value.size()), expiry_(expiry), is_there_(true) {}

bool IsExpiryOption(std::string_view option) {
  return IsWord(option, "ex") || IsWord(option, "px") || IsWord(option, "exat") ||
         IsWord(option, "pxat");
}

std::string ParseExpiry(std::string_view option, std::string_view text, std::string_view command,
                        Expiry& expiry) {
  const std::optional<int64_t> number = ParseInteger(text);
  if (!number) return std::string(kNoInteger);
  const bool is_in_seconds = IsWord(option, "ex") || IsWord(option, "exat");
  const bool is_absolute = IsWord(option, "exat") || IsWord(option, "pxat");
  const std::optional<int64_t> ms = InMilliseconds(*number, is_in_seconds, is_absolute);
  if (!ms || *ms <= 0) return InvalidTime(command);
  expiry = is_absolute ? Expiry::At(static_cast<uint64_t>(*ms)) : Expiry::After(Milliseconds(*ms));
  return {};
}

std::string ValueChange::Parse(const Command& command,
                               const std::vector<std::string_view>& arguments) {
  id_ = command.id;
  SetKey(arguments[1]);
  set_ = {};
  switch (id_) {
    case CommandId::kSet: {
      SetOptions options;
      std::string refusal = ParseSetOptions(arguments, options);
      if (refusal.empty()) ParseSet(arguments[1], arguments[2], options);
      return refusal;
    }
    case CommandId::kSetEx: {
      SetOptions options;
      const std::string_view unit = command.name.starts_with('p') ? "px" : "ex";
      std::string refusal = ParseExpiry(unit, arguments[2], command.name, options.expiry);
      if (refusal.empty()) ParseSet(arguments[1], arguments[3], options);
      return refusal;
    }
    case CommandId::kGetRange: {
      const std::optional<int64_t> first = ParseInteger(arguments[2]);
      const std::optional<int64_t> last = ParseInteger(arguments[3]);
      if (!first || !last) return std::string(kNoInteger);
      by_ = *first;
      last_ = *last;
      break;
    }
    case CommandId::kExpire: return ParseExpire(command, arguments);
    case CommandId::kGetEx: return ParseGetEx(arguments);
    case CommandId::kTtl:
      is_absolute_ = command.name.ends_with("time");
      is_in_seconds_ = !command.name.starts_with('p');
      break;
    case CommandId::kIncr: by_ = 1; break;
    case CommandId::kDecr: by_ = -1; break;
    case CommandId::kIncrBy:
    case CommandId::kDecrBy: {
      const std::optional<int64_t> by = ParseInteger(arguments[2]);
      if (!by) return std::string(kNoInteger);
      const bool is_decrement = id_ == CommandId::kDecrBy;
      if (is_decrement && *by == std::numeric_limits<int64_t>::min()) {
        return "ERR decrement would overflow";
      }
      by_ = is_decrement ? -*by : *by;
      break;
    }
    case CommandId::kIncrByFloat: {
      const std::optional<long double> by = ParseFloat(arguments[2]);
      if (!by) return std::string(kNoFloat);
      by_float_ = *by;
      break;
    }
    case CommandId::kSetRange: {
      const std::optional<int64_t> offset = ParseInteger(arguments[2]);
      if (!offset) return std::string(kNoInteger);
      if (*offset < 0) return "ERR offset is out of range";
      by_ = *offset;
      operand_ = arguments[3];
      break;
    }
    case CommandId::kSetnx:
    case CommandId::kGetSet:
      operand_ = arguments[2];
      set_.must_be_absent = id_ == CommandId::kSetnx;
      set_.returns_old = id_ == CommandId::kGetSet;
      break;
    case CommandId::kAppend: operand_ = arguments[2]; break;
    default: break;  // of the key alone
  }
  return {};
}

// SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT … | PXAT … | KEEPTTL]
std::string ValueChange::ParseSetOptions(const std::vector<std::string_view>& arguments,
                                         SetOptions& options) {
  std::string refusal;  // of the time: syntax comes first
  bool has_time = false;
  for (size_t i = 3; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (IsWord(option, "nx")) {
      options.must_be_absent = true;
    } else if (IsWord(option, "xx")) {
      options.must_exist = true;
    } else if (IsWord(option, "get")) {
      options.returns_old = true;
    } else if (IsWord(option, "keepttl") && !has_time) {
      options.expiry = Expiry::Keep();
      has_time = true;
    } else if (IsExpiryOption(option) && !has_time && i + 1 < arguments.size()) {
      refusal = ParseExpiry(option, arguments[++i], "set", options.expiry);
      has_time = true;
    } else {
      return std::string(kSyntaxError);
    }
    if (options.must_be_absent && options.must_exist) return std::string(kSyntaxError);
  }
  return refusal;
}

bool ValueChange::wants_value() const {
  switch (id_) {
    case CommandId::kDel:
    case CommandId::kExists:
    case CommandId::kExpire:
    case CommandId::kPersist:
    case CommandId::kTtl:
    case CommandId::kType: return false;
    default: return true;
  }
}

void ValueChange::Read(const State& state) {
  number_ = state.value ? 1 : 0;
  switch (id_) {
    case CommandId::kStrlen:
      number_ = state.value ? static_cast<int64_t>(state.value->size()) : 0;
      break;
    case CommandId::kGetRange: text_ = RangeOf(state.value.value_or(""), by_, last_); break;
    case CommandId::kTtl: TellTime(state); break;
    case CommandId::kGet: text_ = state.value; break;
    default: break;
  }
}

// EXPIRE key time [NX | XX | GT | LT]
std::string ValueChange::ParseExpire(const Command& command,
                                     const std::vector<std::string_view>& arguments) {
  conditions_ = {};
  for (size_t i = 3; i < arguments.size(); ++i) {
    if (IsWord(arguments[i], "nx")) {
      conditions_.must_be_lasting = true;
    } else if (IsWord(arguments[i], "xx")) {
      conditions_.must_expire = true;
    } else if (IsWord(arguments[i], "gt")) {
      conditions_.must_be_later = true;
    } else if (IsWord(arguments[i], "lt")) {
      conditions_.must_be_earlier = true;
    } else {
      return "ERR Unsupported option " + std::string(arguments[i]);
    }
  }
  const bool compares = conditions_.must_be_later || conditions_.must_be_earlier;
  if (conditions_.must_be_lasting && (conditions_.must_expire || compares)) {
    return "ERR NX and XX, GT or LT options at the same time are not compatible";
  }
  if (conditions_.must_be_later && conditions_.must_be_earlier) {
    return "ERR GT and LT options at the same time are not compatible";
  }
  const std::optional<int64_t> number = ParseInteger(arguments[2]);
  if (!number) return std::string(kNoInteger);
  const bool is_in_seconds = !command.name.starts_with('p');
  const bool is_absolute = command.name.ends_with("at");
  const std::optional<int64_t> ms = InMilliseconds(*number, is_in_seconds, is_absolute);
  if (!ms) return InvalidTime(command.name);
  // What has passed already deletes the key.
  if (is_absolute) {
    set_.expiry = Expiry::At(static_cast<uint64_t>(std::max<int64_t>(*ms, 1)));
  } else {
    set_.expiry = *ms <= 0 ? Expiry::At(1) : Expiry::After(Milliseconds(*ms));
  }
  return {};
}

// GETEX key [EX seconds | PX milliseconds | EXAT … | PXAT … | PERSIST]
std::string ValueChange::ParseGetEx(const std::vector<std::string_view>& arguments) {
  set_.expiry = Expiry::Keep();
  late_refusal_.clear();
  if (arguments.size() == 2) return {};
  if (arguments.size() == 3 && IsWord(arguments[2], "persist")) {
    set_.expiry = Expiry::Never();
    return {};
  }
  if (arguments.size() != 4 || !IsExpiryOption(arguments[2])) return std::string(kSyntaxError);
  // Of an absent key, nobody asks for its time.
  late_refusal_ = ParseExpiry(arguments[2], arguments[3], "getex", set_.expiry);
  return {};
}

void ValueChange::ParseSet(std::string_view key, std::string_view value,
                           const SetOptions& options) {
  id_ = CommandId::kSet;
  SetKey(key);
  operand_ = value;
  set_ = options;
}

bool ValueChange::RunsAlone(uint64_t now_ms) {
  if (id_ != CommandId::kEval || script_->has_key()) return false;
  State nothing{.value = {}, .expiry = {}, .now_ms = now_ms};
  Apply(nothing);
  result = outcome::success();
  return true;
}

ValueChange::Effect ValueChange::Apply(State& state) {
  error_ = {};
  text_.reset();
  switch (id_) {
    case CommandId::kEval: return script_->Run(state);
    case CommandId::kExpire: return Expire(state);
    case CommandId::kPersist: return Persist(state);
    case CommandId::kExists:
    case CommandId::kGet:
    case CommandId::kGetRange:
    case CommandId::kStrlen:
    case CommandId::kTtl:
    case CommandId::kType: Read(state); return Effect::kNone;
    case CommandId::kDel:
      number_ = state.value ? 1 : 0;
      state.value.reset();
      state.expiry = Expiry::Never();
      return number_ != 0 ? Effect::kWritten : Effect::kNone;
    case CommandId::kGetEx:
      text_ = state.value;
      if (state.value) error_ = late_refusal_;
      if (!state.value || set_.expiry.keeps()) return Effect::kNone;
      SetTime(state, set_.expiry);
      return Effect::kTouched;
    default: break;
  }
  const bool was_there = state.value.has_value();
  if (!ApplyToValue(state)) return Effect::kNone;
  if (!was_there || !state.value) state.expiry = Expiry::Never();
  if (id_ == CommandId::kSet || id_ == CommandId::kSetnx || id_ == CommandId::kGetSet) {
    SetTime(state, set_.expiry);
  }
  return Effect::kWritten;
}

ValueChange::Effect ValueChange::Expire(State& state) {
  number_ = 0;
  if (!state.value) return Effect::kNone;
  const uint64_t before = state.expiry.at_ms();
  const uint64_t after = set_.expiry.Resolve([&] { return state.now_ms; }, before);
  // A key that never expires counts as one that does so at the end of all times.
  const bool is_later = before != 0 && after > before;
  const bool is_earlier = before == 0 || after < before;
  const bool may =
      (!conditions_.must_be_lasting || before == 0) && (!conditions_.must_expire || before != 0) &&
      (!conditions_.must_be_later || is_later) && (!conditions_.must_be_earlier || is_earlier);
  if (!may) return Effect::kNone;
  number_ = 1;
  SetTime(state, set_.expiry);
  return Effect::kTouched;
}

ValueChange::Effect ValueChange::Persist(State& state) {
  number_ = state.value && !state.expiry.is_never() ? 1 : 0;
  if (number_ == 0) return Effect::kNone;
  state.expiry = Expiry::Never();
  return Effect::kTouched;
}

// In Redis's units, rounded as there.
void ValueChange::TellTime(const State& state) {
  if (!state.value || state.expiry.is_never()) {
    number_ = state.value ? -1 : -2;
    return;
  }
  const auto at = static_cast<int64_t>(state.expiry.at_ms());
  number_ = is_absolute_ ? at : std::max<int64_t>(at - static_cast<int64_t>(state.now_ms), 0);
  if (is_in_seconds_) number_ = (number_ + 500) / 1000;
}

void ValueChange::SetTime(State& state, Expiry expiry) {
  const uint64_t at = expiry.Resolve([&] { return state.now_ms; }, state.expiry.at_ms());
  state.expiry = at == 0 ? Expiry::Never() : Expiry::At(at);
  if (at != 0 && at <= state.now_ms) {
    state.value.reset();
    state.expiry = Expiry::Never();
  }
}

bool ValueChange::ApplyToValue(State& state) {
  std::optional<std::string>& value = state.value;
  switch (id_) {
    case CommandId::kIncr:
    case CommandId::kDecr:
    case CommandId::kIncrBy:
    case CommandId::kDecrBy: return Increment(value);
    case CommandId::kIncrByFloat: return IncrementByFloat(value);
    case CommandId::kAppend: return Append(value);
    case CommandId::kSetRange: return SetRange(value);
    case CommandId::kGetDel: {
      text_ = std::exchange(value, std::nullopt);
      return text_.has_value();
    }
    default: return Set(value);
  }
}

bool ValueChange::Increment(std::optional<std::string>& value) {
  const std::optional<int64_t> old = value ? ParseInteger(*value) : 0;
  if (!old) return Refuse(kNoInteger);
  if (__builtin_add_overflow(*old, by_, &number_)) return Refuse(kOverflow);
  value = std::to_string(number_);
  return true;
}

bool ValueChange::IncrementByFloat(std::optional<std::string>& value) {
  const std::optional<long double> old = value ? ParseFloat(*value) : 0;
  if (!old) return Refuse(kNoFloat);
  const long double sum = *old + by_float_;
  if (std::isnan(sum) || std::isinf(sum)) return Refuse(kNan);
  value = FloatText(sum);
  text_ = value;
  return true;
}

bool ValueChange::Append(std::optional<std::string>& value) {
  const size_t before = value ? value->size() : 0;
  if (before + operand_.size() > kMaxValueBytes) return Refuse(kTooLong);
  if (!value) value.emplace();
  *value += operand_;
  number_ = static_cast<int64_t>(value->size());
  return true;
}

bool ValueChange::SetRange(std::optional<std::string>& value) {
  number_ = value ? static_cast<int64_t>(value->size()) : 0;
  if (operand_.empty()) return false;
  const auto offset = static_cast<uint64_t>(by_);
  if (offset > kMaxValueBytes || offset + operand_.size() > kMaxValueBytes) return Refuse(kTooLong);
  if (!value) value.emplace();
  if (value->size() < offset + operand_.size()) value->resize(offset + operand_.size(), '\0');
  value->replace(offset, operand_.size(), operand_);
  number_ = static_cast<int64_t>(value->size());
  return true;
}

bool ValueChange::Set(std::optional<std::string>& value) {
  if (operand_.size() > kMaxValueBytes) return Refuse(kTooLong);
  const bool may = value ? !set_.must_be_absent : !set_.must_exist;
  if (set_.returns_old) text_ = value;
  has_set_ = may;
  if (may) value = operand_;
  return may;
}

void ValueChange::Answer(ReplyWriter& reply) const {
  if (!error_.empty()) return reply.Error(error_);
  switch (id_) {
    case CommandId::kIncr:
    case CommandId::kDecr:
    case CommandId::kIncrBy:
    case CommandId::kDecrBy:
    case CommandId::kAppend:
    case CommandId::kSetRange:
    case CommandId::kExpire:
    case CommandId::kPersist:
    case CommandId::kDel:
    case CommandId::kExists:
    case CommandId::kStrlen:
    case CommandId::kTtl: return reply.Integer(number_);
    case CommandId::kEval: return reply.Raw(script_->reply());
    case CommandId::kType: return reply.Simple(number_ != 0 ? "string" : "none");
    case CommandId::kSetnx: return reply.Integer(has_set_ ? 1 : 0);
    case CommandId::kSet:
      if (!set_.returns_old) return has_set_ ? reply.Ok() : reply.Null();
      break;
    default: break;
  }
  reply.BulkOrNull(text_);
}

ValueModifier::Change KeyChanges::Modify(std::optional<std::string_view> value, Expiry expiry) {
  state_.value = value ? std::optional<std::string>(*value) : std::nullopt;
  state_.expiry = expiry;
  if (expected_) {
    is_outdated_ = *expected_ != (value ? Fingerprint(*value, expiry) : Fingerprint());
    if (is_outdated_) return {};
  }
  auto effect = ValueChange::Effect::kNone;
  for (ValueChange* one = first_; one != nullptr; one = one->next_) {
    effect = std::max(effect, one->Apply(state_));
  }
  if (effect == ValueChange::Effect::kNone) return {};
  if (!state_.value) return {Kind::kDelete, {}, {}};
  if (effect == ValueChange::Effect::kTouched) return {Kind::kTouch, {}, state_.expiry};
  return {Kind::kPut, *state_.value, state_.expiry};
}

bool KeyChanges::wants_value() const {
  if (expected_) return true;
  for (const ValueChange* one = first_; one != nullptr; one = one->next_) {
    if (one->wants_value()) return true;
  }
  return false;
}

}  // namespace gossamer::gateway
