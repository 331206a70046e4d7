#include "compute/gateway/commands/value_change.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "compute/gateway/commands/number_text.h"
#include "compute/gateway/protocol/words.h"
#include "proto/key.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kTooLong =
    "ERR string exceeds maximum allowed size: values have at most 1 MiB";

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

// The first and the last position of what is asked for of `size` ones; negative ones count from the
// end. nullopt: there is none.
std::optional<std::pair<int64_t, int64_t>> PositionsOf(int64_t size, int64_t first, int64_t last) {
  if (first < 0 && last < 0 && first > last) return std::nullopt;
  if (first < 0) first = std::max<int64_t>(0, size + first);
  if (last < 0) last = std::max<int64_t>(0, size + last);
  last = std::min(last, size - 1);
  if (first > last || size == 0) return std::nullopt;
  return std::pair(first, last);
}

// Bits of a value that Redis takes.
constexpr int64_t kMostBits = int64_t{1} << 32;
constexpr std::string_view kTooMuchTogether =
    "the answers to this and other commands are too long together: nothing of it was done, send "
    "fewer at a time";
constexpr std::string_view kNoIdleTimes = "ERR Gossamer does not note when a key was last used";
constexpr std::string_view kNoFrequencies = "ERR Gossamer does not count how often a key is used";

bool BitOf(std::string_view value, uint64_t offset) {
  if (offset / 8 >= value.size()) return false;
  return (static_cast<uint8_t>(value[offset / 8]) >> (7 - offset % 8) & 1) != 0;
}

// The hexadecimal XXH3 of 64 bits, as Redis's DIGEST.
std::string DigestOf(std::string_view value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const XXH64_hash_t hash = XXH3_64bits(value.data(), value.size());
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash >> shift & 15];
  return text;
}

bool Holds(const ValueChange::Comparison& comparison, std::string_view value) {
  bool is_equal = comparison.with == value;
  if (comparison.is_of_digests) is_equal = IsWord(comparison.with, DigestOf(value));
  return is_equal == comparison.wants_equal;
}

std::string InvalidTime(std::string_view command) {
  return "ERR invalid expire time in '" + std::string(command) + "' command";
}

}  // namespace

std::string_view RangeOf(std::string_view value, int64_t first, int64_t last) {
  const auto range = PositionsOf(static_cast<int64_t>(value.size()), first, last);
  if (!range) return {};
  return value.substr(static_cast<size_t>(range->first),
                      static_cast<size_t>(range->second - range->first + 1));
}

std::string_view TypeName(std::string_view value, bool is_composite) {
  if (!is_composite) return "string";
  const std::optional<CompositeType> type = TypeOfComposite(value);
  return type ? NameOf(*type) : "unknown";
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
                               const std::vector<std::string_view>& arguments, bool is_resp3) {
  id_ = command.id;
  SetKey(arguments[HasSubcommands(command) ? 2 : 1]);
  set_ = {};
  if (CompositeCommand::Has(id_)) return composite_.Parse(command, arguments, is_resp3);
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
    case CommandId::kExpire: return ParseExpire(command, arguments);
    case CommandId::kGetEx: return ParseGetEx(arguments);
    case CommandId::kGetBit:
    case CommandId::kSetBit: return ParseBits(arguments);
    case CommandId::kBitCount: late_refusal_ = ParseBitRange(arguments); break;
    case CommandId::kObject:
    case CommandId::kMemory: return ParseObject(arguments);
    case CommandId::kDelEx: {
      size_t i = 2;
      if (arguments.size() == i) break;
      const bool is_known = ParseComparison(arguments, i, set_.comparison);
      if (!is_known || i + 1 != arguments.size()) return std::string(kSyntaxError);
      break;
    }
    case CommandId::kTtl:
      is_absolute_ = command.name.ends_with("time");
      is_in_seconds_ = !command.name.starts_with('p');
      break;
    case CommandId::kSetnx:
    case CommandId::kGetSet:
      operand_ = arguments[2];
      set_.must_be_absent = id_ == CommandId::kSetnx;
      set_.returns_old = id_ == CommandId::kGetSet;
      break;
    case CommandId::kAppend: operand_ = arguments[2]; break;
    default: return ParseNumbers(arguments);
  }
  return {};
}

std::string ValueChange::ParseNumbers(const std::vector<std::string_view>& arguments) {
  switch (id_) {
    case CommandId::kGetRange: {
      const std::optional<int64_t> first = ParseInteger(arguments[2]);
      const std::optional<int64_t> last = ParseInteger(arguments[3]);
      if (!first || !last) return std::string(kNoInteger);
      by_ = *first;
      last_ = *last;
      break;
    }
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
      late_refusal_ = by ? std::string_view() : kNoFloat;
      by_float_ = by.value_or(0);
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
    default: break;  // of the key alone
  }
  return {};
}

// SET key value [NX | XX | IFEQ … | IFNE … | IFDEQ … | IFDNE …] [GET]
//     [EX seconds | PX milliseconds | EXAT … | PXAT … | KEEPTTL]
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
    } else if (options.comparison || !ParseComparison(arguments, i, options.comparison)) {
      return std::string(kSyntaxError);
    }
    const int conditions = (options.must_be_absent ? 1 : 0) + (options.must_exist ? 1 : 0) +
                           (options.comparison ? 1 : 0);
    if (conditions > 1) return std::string(kSyntaxError);
  }
  return refusal;
}

bool ValueChange::ParseComparison(const std::vector<std::string_view>& arguments, size_t& i,
                                  std::optional<Comparison>& comparison) {
  const std::string_view option = arguments[i];
  const bool is_equal = IsWord(option, "ifeq") || IsWord(option, "ifdeq");
  const bool is_known = is_equal || IsWord(option, "ifne") || IsWord(option, "ifdne");
  if (!is_known || i + 1 == arguments.size()) return false;
  const bool is_of_digests = IsWord(option, "ifdeq") || IsWord(option, "ifdne");
  comparison = {.with = arguments[++i], .wants_equal = is_equal, .is_of_digests = is_of_digests};
  return true;
}

// BITCOUNT key [start end [BYTE | BIT]]
std::string ValueChange::ParseBitRange(const std::vector<std::string_view>& arguments) {
  by_ = 0;
  last_ = -1;
  is_in_bits_ = false;
  if (arguments.size() == 2) return {};
  if (arguments.size() < 4 || arguments.size() > 5) return std::string(kSyntaxError);
  const std::optional<int64_t> first = ParseInteger(arguments[2]);
  const std::optional<int64_t> last = ParseInteger(arguments[3]);
  if (!first || !last) return std::string(kNoInteger);
  by_ = *first;
  last_ = *last;
  is_in_bits_ = arguments.size() == 5 && IsWord(arguments[4], "bit");
  const bool is_known = arguments.size() == 4 || is_in_bits_ || IsWord(arguments[4], "byte");
  return is_known ? std::string() : std::string(kSyntaxError);
}

// GETBIT key offset, SETBIT key offset bit
std::string ValueChange::ParseBits(const std::vector<std::string_view>& arguments) {
  const std::optional<int64_t> offset = ParseInteger(arguments[2]);
  if (!offset || *offset < 0 || *offset >= kMostBits) {
    return "ERR bit offset is not an integer or out of range";
  }
  by_ = *offset;
  if (id_ == CommandId::kGetBit) return {};
  if (arguments[3] != "0" && arguments[3] != "1") {
    return "ERR bit is not an integer or out of range";
  }
  last_ = arguments[3] == "1" ? 1 : 0;
  return {};
}

// OBJECT ENCODING key and its kin, MEMORY USAGE key [SAMPLES count]
std::string ValueChange::ParseObject(const std::vector<std::string_view>& arguments) {
  const std::string_view word = arguments[1];
  if (id_ == CommandId::kMemory) {
    property_ = Property::kBytes;
    if (arguments.size() == 3) return {};
    if (arguments.size() != 5 || !IsWord(arguments[3], "samples")) return std::string(kSyntaxError);
    const std::optional<int64_t> samples = ParseInteger(arguments[4]);
    if (!samples) return std::string(kNoInteger);
    return *samples < 0 ? std::string(kSyntaxError) : std::string();
  }
  if (IsWord(word, "refcount")) {
    property_ = Property::kReferences;
  } else if (IsWord(word, "idletime")) {
    property_ = Property::kIdleTime;
  } else if (IsWord(word, "freq")) {
    property_ = Property::kFrequency;
  } else {
    property_ = Property::kEncoding;
  }
  return {};
}

bool ValueChange::wants_value() const {
  switch (id_) {
    case CommandId::kDel:
    case CommandId::kExists:
    case CommandId::kExpire:
    case CommandId::kPersist:
    case CommandId::kTtl: return false;
    case CommandId::kDelEx: return set_.comparison.has_value();
    default: return true;
  }
}

bool ValueChange::IsOfStrings() const {
  switch (id_) {
    case CommandId::kDel:
    case CommandId::kExists:
    case CommandId::kExpire:
    case CommandId::kMemory:
    case CommandId::kMget:
    case CommandId::kObject:
    case CommandId::kPersist:
    case CommandId::kSetnx:
    case CommandId::kTtl:
    case CommandId::kType: return false;
    case CommandId::kDelEx: return set_.comparison.has_value();
    case CommandId::kSet: return set_.returns_old || set_.comparison.has_value();
    default: return true;
  }
}

void ValueChange::Read(const KeyLook& look) {
  error_ = {};
  text_.reset();
  if (CompositeCommand::Has(id_)) return composite_.Read(look);
  if (look.is_composite && IsOfStrings()) return void(Refuse(kWrongType));
  ReadValue(look);
}

void ValueChange::ReadValue(const KeyLook& look) {
  const std::string_view value = look.value.value_or("");
  number_ = look.value ? 1 : 0;
  switch (id_) {
    case CommandId::kStrlen: number_ = static_cast<int64_t>(value.size()); break;
    case CommandId::kGetRange: text_ = RangeOf(value, by_, last_); break;
    case CommandId::kGetBit: number_ = BitOf(value, static_cast<uint64_t>(by_)) ? 1 : 0; break;
    case CommandId::kBitCount:
      CountBits(value);
      if (look.value) error_ = late_refusal_;
      break;
    case CommandId::kTtl: TellTime(look); break;
    case CommandId::kGet: text_ = look.value; break;
    case CommandId::kMget:
      if (!look.is_composite) text_ = look.value;
      break;
    case CommandId::kDigest:
      if (look.value) text_ = DigestOf(value);
      break;
    case CommandId::kType:
      text_ = look.value ? TypeName(value, look.is_composite) : std::string_view("none");
      break;
    case CommandId::kObject:
    case CommandId::kMemory: DescribeObject(look); break;
    default: break;
  }
}

void ValueChange::CountBits(std::string_view value) {
  const int64_t size = static_cast<int64_t>(value.size()) * (is_in_bits_ ? 8 : 1);
  number_ = 0;
  const std::optional<std::pair<int64_t, int64_t>> range = PositionsOf(size, by_, last_);
  if (!range) return;
  if (!is_in_bits_) {
    const auto first = static_cast<size_t>(range->first);
    const auto count = static_cast<size_t>(range->second - range->first + 1);
    for (const char c : value.substr(first, count))
      number_ += std::popcount(static_cast<uint8_t>(c));
    return;
  }
  for (int64_t i = range->first; i <= range->second; ++i) {
    number_ += BitOf(value, static_cast<uint64_t>(i)) ? 1 : 0;
  }
}

// As Redis names what it would hold them in, where there is a name for that.
void ValueChange::DescribeObject(const KeyLook& look) {
  if (!look.value) return;
  const std::string_view value = *look.value;
  switch (property_) {
    case Property::kEncoding: {
      constexpr size_t kLongestEmbedded = 44;
      const bool is_number = !look.is_composite && ParseInteger(value);
      const bool is_short = value.size() <= kLongestEmbedded;
      text_ = look.is_composite ? "listpack" : is_number ? "int" : is_short ? "embstr" : "raw";
      break;
    }
    case Property::kReferences: number_ = 1; break;
    case Property::kBytes: number_ = static_cast<int64_t>(key_.size() + value.size()); break;
    case Property::kIdleTime: error_ = kNoIdleTimes; break;
    case Property::kFrequency: error_ = kNoFrequencies; break;
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

size_t ValueChange::answer_bytes() const {
  if (CompositeCommand::Has(id_)) return composite_.reply().size();
  if (id_ == CommandId::kEval) return script_->reply().size();
  return text_ ? text_->size() : 0;
}

void ValueChange::GiveBackMemory() {
  text_.reset();
  script_.reset();
  composite_.GiveBackMemory();
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
  has_set_ = false;
  if (CompositeCommand::Has(id_)) return composite_.Apply(state);
  if (id_ == CommandId::kEval) return script_->Run(state);
  if (state.is_composite && IsOfStrings()) {
    Refuse(kWrongType);
    return Effect::kNone;
  }
  switch (id_) {
    case CommandId::kExpire: return Expire(state);
    case CommandId::kPersist: return Persist(state);
    case CommandId::kBitCount:
    case CommandId::kDigest:
    case CommandId::kExists:
    case CommandId::kGet:
    case CommandId::kGetBit:
    case CommandId::kGetRange:
    case CommandId::kMemory:
    case CommandId::kMget:
    case CommandId::kObject:
    case CommandId::kStrlen:
    case CommandId::kTtl:
    case CommandId::kType: ReadValue(KeyLook(state)); return Effect::kNone;
    case CommandId::kDel:
    case CommandId::kDelEx: return DeleteIf(state);
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

ValueChange::Effect ValueChange::DeleteIf(State& state) {
  const bool may = state.value && (!set_.comparison || Holds(*set_.comparison, *state.value));
  number_ = may ? 1 : 0;
  if (!may) return Effect::kNone;
  state.Remove();
  return Effect::kWritten;
}

ValueChange::Effect ValueChange::Persist(State& state) {
  number_ = state.value && !state.expiry.is_never() ? 1 : 0;
  if (number_ == 0) return Effect::kNone;
  state.expiry = Expiry::Never();
  return Effect::kTouched;
}

// In Redis's units, rounded as there.
void ValueChange::TellTime(const KeyLook& look) {
  if (!look.value || look.expiry.is_never()) {
    number_ = look.value ? -1 : -2;
    return;
  }
  const auto at = static_cast<int64_t>(look.expiry.at_ms());
  number_ = is_absolute_ ? at : std::max<int64_t>(at - static_cast<int64_t>(look.now_ms), 0);
  if (is_in_seconds_) number_ = (number_ + 500) / 1000;
}

void ValueChange::SetTime(State& state, Expiry expiry) {
  const uint64_t at = expiry.Resolve([&] { return state.now_ms; }, state.expiry.at_ms());
  state.expiry = at == 0 ? Expiry::Never() : Expiry::At(at);
  if (at != 0 && at <= state.now_ms) state.Remove();
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
    case CommandId::kSetBit: return SetBit(value);
    case CommandId::kGetDel: {
      text_ = std::exchange(value, std::nullopt);
      return text_.has_value();
    }
    default: return Set(state);
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
  if (!old || !late_refusal_.empty()) return Refuse(kNoFloat);
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

bool ValueChange::SetBit(std::optional<std::string>& value) {
  const auto offset = static_cast<uint64_t>(by_);
  if (offset / 8 >= kMaxValueBytes) return Refuse(kTooLong);
  if (!value) value.emplace();
  number_ = BitOf(*value, offset) ? 1 : 0;
  if (value->size() <= offset / 8) value->resize(offset / 8 + 1, '\0');
  const auto mask = static_cast<uint8_t>(0x80u >> (offset % 8));
  auto byte = static_cast<uint8_t>((*value)[offset / 8]);
  byte = static_cast<uint8_t>(last_ != 0 ? byte | mask : byte & ~mask);
  (*value)[offset / 8] = static_cast<char>(byte);
  return true;
}

bool ValueChange::Set(State& state) {
  if (operand_.size() > kMaxValueBytes) return Refuse(kTooLong);
  const std::optional<std::string>& value = state.value;
  bool may = value ? !set_.must_be_absent : !set_.must_exist;
  if (set_.comparison) {
    may = value ? Holds(*set_.comparison, *value) : !set_.comparison->wants_equal;
  }
  if (set_.returns_old) text_ = value;
  has_set_ = may;
  if (may) state.SetPlain(operand_);
  return may;
}

void ValueChange::Answer(ReplyWriter& reply) const {
  if (CompositeCommand::Has(id_)) return reply.Raw(composite_.reply());
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
    case CommandId::kDelEx:
    case CommandId::kExists:
    case CommandId::kGetBit:
    case CommandId::kSetBit:
    case CommandId::kBitCount:
    case CommandId::kStrlen:
    case CommandId::kTtl: return reply.Integer(number_);
    case CommandId::kEval: return reply.Raw(script_->reply());
    case CommandId::kType: return reply.Simple(*text_);
    case CommandId::kObject:
    case CommandId::kMemory:
      if (property_ == Property::kEncoding || number_ == 0) break;
      return reply.Integer(number_);
    case CommandId::kSetnx: return reply.Integer(has_set_ ? 1 : 0);
    case CommandId::kSet:
      if (!set_.returns_old) return has_set_ ? reply.Ok() : reply.Null();
      break;
    default: break;
  }
  reply.BulkOrNull(text_);
}

ValueModifier::Change KeyChanges::Modify(std::optional<std::string_view> value, Expiry expiry) {
  values_.GiveBack();
  replies_.GiveBack();
  is_too_long_ = false;
  is_outdated_ = false;
  outcome_ = Outcome::kDone;
  // The value, and what it becomes.
  if (value && !is_never_put_off_ && !values_.Take(2 * value->size())) {
    outcome_ = Outcome::kPutOff;
    return {};
  }
  if (expected_) {
    is_outdated_ = *expected_ != (value ? Fingerprint(*value, expiry) : Fingerprint());
    if (is_outdated_) return {};
  }
  if (const std::optional<LargeHeader> header = ParseLargeHeader(value, expiry)) {
    if (empty_ && IsSame(*header, *empty_)) return OnEmpty(*header);
    if (large_ && IsSame(*header, *large_)) {
      header_ = *large_;
      outcome_ = Outcome::kIsLarge;
      return {};
    }
    expires_ = !expiry.is_never();
    if (const std::optional<Change> change = OnLarge(*header, expiry)) return *change;
  }
  return OnValue(value, expiry);
}

ValueModifier::Change KeyChanges::OnEmpty(const LargeHeader& header) {
  const Change change = OnValue(std::nullopt, Expiry::Never());
  if (change.kind != Kind::kPut) return {};
  if (may_write_) return change;
  header_ = header;
  outcome_ = Outcome::kPerhapsEmpty;
  return {};
}

ValueModifier::Change KeyChanges::OnValue(std::optional<std::string_view> value, Expiry expiry) {
  state_ = {.value = {},
            .expiry = expiry.OfPlain(),
            .now_ms = terms_.now_ms,
            .is_composite = expiry.is_composite()};
  if (value) state_.value.emplace(*value);
  auto effect = ValueChange::Effect::kNone;
  is_too_long_ = !ApplyAll(effect);
  if (is_too_long_) return {};
  if (state_.wants_large && !HasScript()) {
    const bool may_fill = !value || (expiry.is_composite() && CanBeLarge(*value));
    // What is watched would be changed by that.
    if (may_fill && !expected_) {
      if (value) return Fill(*state_.wants_large, *value, expiry, Outcome::kFillsFirst);
      header_ = {};
      header_.type = *state_.wants_large;
      outcome_ = Outcome::kIsCreated;
      return {};
    }
  }
  if (effect == ValueChange::Effect::kNone) return {};
  if (!state_.value) return {Kind::kDelete, {}, {}};
  const Expiry after = state_.is_composite ? state_.expiry.OfComposite() : state_.expiry;
  if (effect == ValueChange::Effect::kTouched) return {Kind::kTouch, {}, after};
  const bool may_grow = state_.is_composite && state_.value->size() > kMostSmallBytes;
  if (may_grow && !ParseLargeHeader(*state_.value) && CanBeLarge(*state_.value)) {
    return Fill(*TypeOfComposite(*state_.value), *state_.value, after, Outcome::kFills);
  }
  return {Kind::kPut, *state_.value, after};
}

std::optional<ValueModifier::Change> KeyChanges::OnLarge(const LargeHeader& header, Expiry expiry) {
  header_ = header;
  header_.items = {};
  switch (header.state) {
    case LargeHeader::State::kFilling:
      if (!Any(&ValueChange::MayChangeItems)) return std::nullopt;
      if (header.since_ms + kFillPatienceMs > terms_.now_ms) {
        outcome_ = Outcome::kPutOff;
        return Change{};
      }
      return Fill(header.type, header.items, expiry, Outcome::kFillsFirst);
    case LargeHeader::State::kOpen:
      // A script by itself is refused. Beside others, each is done by itself.
      if (!Any(&ValueChange::WantsItems) || (HasScript() && !HasSeveral())) return std::nullopt;
      outcome_ = Outcome::kIsLarge;
      return Change{};
    case LargeHeader::State::kPerhapsEmpty: outcome_ = Outcome::kPerhapsEmpty; return Change{};
  }
  return std::nullopt;
}

ValueModifier::Change KeyChanges::Fill(CompositeType type, std::string_view items, Expiry expiry,
                                       Outcome outcome) {
  outcome_ = outcome;
  header_ = {.type = type,
             .state = LargeHeader::State::kFilling,
             .id = NewLargeId(),
             .nonce = NewNonce(),
             .since_ms = terms_.now_ms,
             .items = items};
  filling_ = header_.Encode();
  header_.items = {};
  return {Kind::kPut, filling_, expiry.OfComposite()};
}

bool KeyChanges::AddsItemsTo(CompositeType type) const {
  bool adds = false;
  for (ValueChange* one = first_; one != nullptr; one = one->next_) {
    const CompositeCommand* const command = one->composite();
    if (command == nullptr || command->type() != type || !command->IsOfItems()) return false;
    adds = adds || command->AddsItems();
  }
  return adds;
}

bool KeyChanges::CanBeLarge(std::string_view small) const {
  const std::optional<CompositeType> type = TypeOfComposite(small);
  if (!type) return false;
  CompositeView view(*type, small);
  while (const std::optional<CompositeItem> item = view.Next()) {
    if (kItemPrefixBytes + item->name.size() > terms_.max_key_bytes) return false;
  }
  return view.has_ended();
}

bool KeyChanges::ApplyAll(KeyEffect& effect) {
  for (ValueChange* one = first_; one != nullptr; one = one->next_) {
    effect = std::max(effect, one->Apply(state_));
    if (!replies_.Take(one->answer_bytes())) return false;
  }
  return true;
}

void KeyChanges::SetResult(const Status& result) {
  is_outdated_ = result && is_outdated_;
  Status own = result;
  if (is_outdated_) own = MakeError(Code::kContended);  // the transaction says why
  if (result && is_too_long_) own = MakeError(Code::kContended, std::string(kTooMuchTogether));
  for (ValueChange* one = first_; one != nullptr; one = one->next_) {
    one->result = own;
    if (!own) one->GiveBackMemory();
  }
  Forget();
}

void KeyChanges::Forget() {
  state_ = {};
  filling_ = {};
  values_.GiveBack();
}

bool KeyChanges::wants_value() const { return expected_ || Any(&ValueChange::wants_value); }

}  // namespace gossamer::gateway
