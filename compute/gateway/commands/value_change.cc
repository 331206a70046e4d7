#include "compute/gateway/commands/value_change.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "compute/gateway/protocol/words.h"
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

std::string_view ValueChange::Parse(const Command& command,
                                    const std::vector<std::string_view>& arguments) {
  id_ = command.id;
  SetKey(arguments[1]);
  set_ = {};
  switch (id_) {
    case CommandId::kIncr: by_ = 1; break;
    case CommandId::kDecr: by_ = -1; break;
    case CommandId::kIncrBy:
    case CommandId::kDecrBy: {
      const std::optional<int64_t> by = ParseInteger(arguments[2]);
      if (!by) return kNoInteger;
      const bool is_decrement = id_ == CommandId::kDecrBy;
      if (is_decrement && *by == std::numeric_limits<int64_t>::min()) {
        return "ERR decrement would overflow";
      }
      by_ = is_decrement ? -*by : *by;
      break;
    }
    case CommandId::kIncrByFloat: {
      const std::optional<long double> by = ParseFloat(arguments[2]);
      if (!by) return kNoFloat;
      by_float_ = *by;
      break;
    }
    case CommandId::kSetRange: {
      const std::optional<int64_t> offset = ParseInteger(arguments[2]);
      if (!offset) return kNoInteger;
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
    default: break;  // GETDEL
  }
  return {};
}

void ValueChange::ParseSet(std::string_view key, std::string_view value,
                           const SetOptions& options) {
  id_ = CommandId::kSet;
  SetKey(key);
  operand_ = value;
  set_ = options;
}

bool ValueChange::Apply(std::optional<std::string>& value) {
  error_ = {};
  text_.reset();
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
    case CommandId::kSetRange: return reply.Integer(number_);
    case CommandId::kSetnx: return reply.Integer(has_set_ ? 1 : 0);
    case CommandId::kSet:
      if (!set_.returns_old) return has_set_ ? reply.Ok() : reply.Null();
      break;
    default: break;
  }
  reply.BulkOrNull(text_);
}

ValueModifier::Change KeyChanges::Modify(std::optional<std::string_view> value) {
  value_ = value ? std::optional<std::string>(*value) : std::nullopt;
  bool has_written = false;
  for (ValueChange* one = first_; one != nullptr; one = one->next_) {
    has_written = one->Apply(value_) || has_written;
  }
  if (!has_written) return {Kind::kKeep, {}};
  return value_ ? Change{Kind::kPut, *value_} : Change{Kind::kDelete, {}};
}

}  // namespace gossamer::gateway
