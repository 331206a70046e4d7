// Large composites: hashes and sets of which each item is a key of the store.
//
// While a composite is small, its items are the bytes of one value (composite.h). Once they are
// more than kMostSmallBytes, each is a key of its own, behind the composite's id, and the value of
// the composite's key is a header, which names that id. An id is never used again: so whoever
// deletes, overwrites or renames the composite's key does that to the header alone, and the items
// of an id that no header names are garbage, which the LargeSweeper deletes.
//
//   key of the composite    -> LargeHeader, as a composite value
//   ffffffff id             -> LargeRecord: the keys whose headers may name the id
//   ffffffff id 'i' name    -> the item's value
//
// Clients have no keys that begin with kReserved, which is no part of any UTF-8 text.
//
// The states of a header:
//   filling        The items are still those of the small form, which is behind the header. Who has
//                  written the header copies them to keys, and opens it. Others wait with changes;
//                  after kFillPatienceMs one of them takes over, with another id.
//   open           Each item is a key. To change one, a client reads the header, and then changes
//                  the item's key. If the header has gone in between, the change counts as done
//                  just before that. Only where that has taken long, the client looks again.
//   perhaps empty  Somebody removes what may be the last items. Whether there are others is to be
//                  looked up, and if not, the key counts as absent. The header goes once it has
//                  been so for kEmptyPatienceMs, which no operation lasts: one that has read the
//                  open header before has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/composite.h"
#include "compute/gateway/protocol/reserved_keys.h"
#include "gossamer/modifier.h"

namespace gossamer::gateway {

// Whether a request names a key that is Gossamer's own.
bool HasReservedKey(const Command& command, const std::vector<std::string_view>& arguments);

// Of the items of a small composite, as it is stored.
inline constexpr size_t kMostSmallBytes = size_t{32} << 10;
// Of ids: 7 random bytes, of which a million hashes have two alike with a chance of 1 in 10^5.
inline constexpr size_t kLargeIdBytes = 7;
// Of a header: a type, the id, 6 bytes of time, and 2 for state and nonce. So few that the leaf has
// it, and no block.
inline constexpr size_t kLargeHeaderBytes = 16;
inline constexpr uint64_t kFillPatienceMs = 2'000;
// How long a command that wants the key to be absent waits behind the last one that removed an
// item.
inline constexpr uint64_t kSettlingMs = 1'000;
inline constexpr uint64_t kEmptyPatienceMs = 60'000;
// How long the LargeSweeper leaves alone what a record says.
inline constexpr uint64_t kRecordPatienceMs = 60'000;

inline constexpr uint64_t kLatestHeaderMs = (uint64_t{1} << 48) - 1;

struct LargeHeader {
  enum class State : uint8_t { kFilling, kOpen, kPerhapsEmpty };

  CompositeType type = CompositeType::kHash;
  State state = State::kOpen;
  uint64_t id = 0;
  uint16_t nonce = 0;      // 14 random bits: each key that gets the header has others
  uint64_t since_ms = 0;   // the store's time, when the state began; of kOpen, any number
  std::string_view items;  // of kFilling: a small composite

  std::string Encode() const;
};
// Whether nobody has written it in between, but for its items.
inline bool IsSame(const LargeHeader& a, const LargeHeader& b) {
  return a.id == b.id && a.nonce == b.nonce && a.state == b.state && a.since_ms == b.since_ms;
}
// nullopt if the bytes of a composite value are no header. `items` is a view into them.
std::optional<LargeHeader> ParseLargeHeader(std::string_view bytes);
// Of a value of the store, as `expiry` has it.
std::optional<LargeHeader> ParseLargeHeader(std::optional<std::string_view> value, Expiry expiry);

// The keys that may have the header of an id. There are two while RENAME goes on: the new one is
// the last.
struct LargeRecord {
  bool is_dead = false;  // no key has it, nor will have
  uint64_t since_ms = 0;
  uint64_t version = 0;  // each change has another one
  std::vector<std::string> keys;

  std::string Encode() const;
  static std::optional<LargeRecord> Parse(std::string_view bytes);
};

uint64_t NewLargeId();
uint16_t NewNonce();
std::string RecordKeyOf(uint64_t id);
// What the keys of all items begin with.
std::string ItemPrefixOf(uint64_t id);
inline std::string ItemKeyOf(uint64_t id, std::string_view name) {
  return ItemPrefixOf(id).append(name);
}
inline constexpr size_t kItemPrefixBytes = 4 + kLargeIdBytes + 1;
// Of a record's or an item's key; nullopt: it is neither.
std::optional<uint64_t> LargeIdOf(std::string_view key);

// Deletes a key.
class KeyDeletion final : public ValueModifier {
 public:
  Change Modify(std::optional<std::string_view> value, Expiry expiry) override {
    was_there_ = value.has_value();
    perhaps_empty_.reset();
    const std::optional<LargeHeader> header = ParseLargeHeader(value, expiry);
    if (header && header->state == LargeHeader::State::kPerhapsEmpty) perhaps_empty_ = header;
    return {Kind::kDelete, {}, {}};
  }
  bool wants_value() const override { return false; }
  bool was_there() const { return was_there_; }
  // Of a large composite that may have been absent: what the key had.
  const std::optional<LargeHeader>& perhaps_empty() const { return perhaps_empty_; }

 private:
  bool was_there_ = false;
  std::optional<LargeHeader> perhaps_empty_;
};

// What a command does to one item.
class ItemChange final : public ValueModifier {
 public:
  enum class Action : uint8_t {
    kRead,
    kSet,
    kSetIfAbsent,
    kIncrement,
    kIncrementByFloat,
    kRemove,
  };

  // `value`: of kSet and kSetIfAbsent; outlives this.
  ItemChange(Action action, std::string key, std::string_view value = {})
      : action_(action), key_(std::move(key)), value_(value) {}
  static ItemChange Increment(std::string key, int64_t by) {
    ItemChange change(Action::kIncrement, std::move(key));
    change.by_ = by;
    return change;
  }
  static ItemChange IncrementByFloat(std::string key, long double by) {
    ItemChange change(Action::kIncrementByFloat, std::move(key));
    change.by_float_ = by;
    return change;
  }

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override;
  bool wants_value() const override {
    return action_ == Action::kRead || action_ == Action::kIncrement ||
           action_ == Action::kIncrementByFloat;
  }

  Action action() const { return action_; }
  bool adds() const { return action_ != Action::kRead && action_ != Action::kRemove; }
  std::string_view key() const { return key_; }
  // Of the last Modify.
  bool was_there() const { return was_there_; }
  // What was read, or what the sum is.
  const std::optional<std::string>& text() const { return text_; }
  // The error reply, without the '-'; "" if the change was done.
  std::string_view refusal() const { return refusal_; }

 private:
  Action action_;
  std::string key_;
  std::string_view value_;
  int64_t by_ = 0;
  long double by_float_ = 0;
  bool was_there_ = false;
  std::optional<std::string> text_;
  std::string_view refusal_;
};

}  // namespace gossamer::gateway
