#include "compute/gateway/commands/large_composite.h"

#include <cmath>
#include <utility>

#include "common/random_id.h"
#include "compute/gateway/commands/number_text.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

constexpr char kItemMark = 'i';
constexpr size_t kRecordKeyBytes = kItemPrefixBytes - 1;
constexpr size_t kRecordBytes = 1 + 2 * sizeof(uint64_t);

constexpr size_t kTimeBytes = 6;
constexpr int kNonceBits = 14;
constexpr uint64_t kIdMask = (uint64_t{1} << (8 * kLargeIdBytes)) - 1;
static_assert(kLargeHeaderBytes == 1 + kLargeIdBytes + kTimeBytes + sizeof(uint16_t));

// So many of its lowest bytes, the highest of them first: keys are in the order of ids.
void AppendNumber(uint64_t number, size_t bytes, std::string& to) {
  while (bytes-- != 0) to += static_cast<char>(number >> (8 * bytes));
}
uint64_t NumberAt(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (const char byte : bytes.substr(at, count)) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

constexpr char LetterOf(CompositeType type) { return type == CompositeType::kHash ? 'H' : 'S'; }

}  // namespace

bool HasReservedKey(const Command& command, const std::vector<std::string_view>& arguments) {
  if (command.kind == CommandKind::kScript) {
    return arguments.size() > 3 && arguments[2] != "0" && IsReserved(arguments[3]);
  }
  if (command.first_key == 0) return false;
  const auto words = static_cast<ptrdiff_t>(arguments.size());
  const ptrdiff_t last = command.last_key < 0 ? words + command.last_key : command.last_key;
  for (ptrdiff_t i = command.first_key; i <= last && i < words; i += command.key_step) {
    if (IsReserved(arguments[static_cast<size_t>(i)])) return true;
  }
  return false;
}

std::string LargeHeader::Encode() const {
  std::string bytes;
  bytes.reserve(kLargeHeaderBytes + items.size());
  bytes += LetterOf(type);
  AppendNumber(id, kLargeIdBytes, bytes);
  AppendNumber(since_ms, kTimeBytes, bytes);
  const auto number = static_cast<uint64_t>(state);
  AppendNumber(number << kNonceBits | nonce, sizeof(uint16_t), bytes);
  bytes += items;
  return bytes;
}

std::optional<LargeHeader> ParseLargeHeader(std::string_view bytes) {
  if (bytes.size() < kLargeHeaderBytes) return std::nullopt;
  const bool is_hash = bytes[0] == LetterOf(CompositeType::kHash);
  if (!is_hash && bytes[0] != LetterOf(CompositeType::kSet)) return std::nullopt;
  const uint64_t last = NumberAt(bytes, 1 + kLargeIdBytes + kTimeBytes, sizeof(uint16_t));
  const auto state = static_cast<LargeHeader::State>(last >> kNonceBits);
  if (state > LargeHeader::State::kPerhapsEmpty) return std::nullopt;
  return LargeHeader{.type = is_hash ? CompositeType::kHash : CompositeType::kSet,
                     .state = state,
                     .id = NumberAt(bytes, 1, kLargeIdBytes),
                     .nonce = static_cast<uint16_t>(last & ((1u << kNonceBits) - 1)),
                     .since_ms = NumberAt(bytes, 1 + kLargeIdBytes, kTimeBytes),
                     .items = bytes.substr(kLargeHeaderBytes)};
}

std::optional<LargeHeader> ParseLargeHeader(std::optional<std::string_view> value, Expiry expiry) {
  if (!value || !expiry.is_composite()) return std::nullopt;
  return ParseLargeHeader(*value);
}

std::string LargeRecord::Encode() const {
  std::string bytes;
  bytes += static_cast<char>(is_dead ? 1 : 0);
  AppendNumber(since_ms, sizeof since_ms, bytes);
  AppendNumber(version, sizeof version, bytes);
  for (const std::string& key : keys) {
    bytes += static_cast<char>(key.size());
    bytes += key;
  }
  return bytes;
}

std::optional<LargeRecord> LargeRecord::Parse(std::string_view bytes) {
  if (bytes.size() < kRecordBytes || static_cast<uint8_t>(bytes[0]) > 1) return std::nullopt;
  LargeRecord record{.is_dead = bytes[0] == 1,
                     .since_ms = NumberAt(bytes, 1, sizeof(uint64_t)),
                     .version = NumberAt(bytes, 1 + sizeof(uint64_t), sizeof(uint64_t)),
                     .keys = {}};
  bytes.remove_prefix(kRecordBytes);
  while (!bytes.empty()) {
    const size_t length = static_cast<uint8_t>(bytes[0]);
    if (1 + length > bytes.size()) return std::nullopt;
    record.keys.emplace_back(bytes.substr(1, length));
    bytes.remove_prefix(1 + length);
  }
  return record;
}

// 0 is the LargeSweeper's turn.
uint64_t NewLargeId() {
  uint64_t id = 0;
  while (id == 0) id = RandomId() & kIdMask;
  return id;
}

uint16_t NewNonce() { return static_cast<uint16_t>(RandomId() & ((1u << kNonceBits) - 1)); }

std::string RecordKeyOf(uint64_t id) {
  std::string key(kReserved);
  AppendNumber(id, kLargeIdBytes, key);
  return key;
}

std::string ItemPrefixOf(uint64_t id) { return RecordKeyOf(id) + kItemMark; }

std::optional<uint64_t> LargeIdOf(std::string_view key) {
  const bool is_one = IsReserved(key) && key.size() >= kRecordKeyBytes;
  return is_one ? std::optional(NumberAt(key, kReserved.size(), kLargeIdBytes)) : std::nullopt;
}

ValueModifier::Change ItemChange::Modify(std::optional<std::string_view> value, Expiry /*expiry*/) {
  was_there_ = value.has_value();
  text_.reset();
  refusal_ = {};
  switch (action_) {
    case Action::kRead: text_ = value; return {};
    case Action::kSet: return {Kind::kPut, value_, Expiry::Never()};
    case Action::kSetIfAbsent:
      return was_there_ ? Change{} : Change{Kind::kPut, value_, Expiry::Never()};
    case Action::kIncrement: {
      const std::optional<int64_t> old = value ? ParseInteger(*value) : 0;
      int64_t sum = 0;
      if (!old) {
        refusal_ = kHashValueNoInteger;
      } else if (__builtin_add_overflow(*old, by_, &sum)) {
        refusal_ = kOverflow;
      } else {
        text_ = std::to_string(sum);
      }
      break;
    }
    case Action::kIncrementByFloat: {
      const std::optional<long double> old = value ? ParseFloat(*value) : 0;
      const long double sum = old.value_or(0) + by_float_;
      if (!old) {
        refusal_ = kHashValueNoFloat;
      } else if (std::isnan(sum) || std::isinf(sum)) {
        refusal_ = kNan;
      } else {
        text_ = FloatText(sum);
      }
      break;
    }
    case Action::kRemove: return {Kind::kDelete, {}, {}};
  }
  return text_ ? Change{Kind::kPut, *text_, Expiry::Never()} : Change{};
}

}  // namespace gossamer::gateway
