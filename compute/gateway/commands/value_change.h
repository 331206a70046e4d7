// ValueChange: a command that reads a key's value and writes what it makes of it, such as INCR and
// APPEND.
// KeyChanges: those of one key in a batch, done one after the other by one operation of the store.
//
// Thread-safety: none. A store may run them on another thread of it, but one at a time.
// Cost: a copy of the value for each change that writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "gossamer/modifier.h"

namespace gossamer::gateway {

class ValueChange {
 public:
  // Options of SET.
  struct SetOptions {
    bool must_be_absent = false;
    bool must_exist = false;
    bool returns_old = false;
  };

  // What `arguments` ask for, whose bytes outlive the change.
  // Returns the error reply, without the '-', if they ask for nothing that can be done; else "".
  std::string_view Parse(const Command& command, const std::vector<std::string_view>& arguments);
  void ParseSet(std::string_view key, std::string_view value, const SetOptions& options);

  std::string_view key() const { return key_; }
  size_t key_hash() const { return key_hash_; }
  // Makes of a key's value, or its absence, the next one in `value`. Returns whether it wrote or
  // deleted. May be called again with another value: the last call counts.
  bool Apply(std::optional<std::string>& value);
  // Of the operation that did it.
  Status result = Ok();
  // The answer of the last Apply.
  void Answer(ReplyWriter& reply) const;

 private:
  void SetKey(std::string_view key) {
    key_ = key;
    key_hash_ = std::hash<std::string_view>()(key);
  }
  bool Increment(std::optional<std::string>& value);
  bool IncrementByFloat(std::optional<std::string>& value);
  bool Append(std::optional<std::string>& value);
  bool SetRange(std::optional<std::string>& value);
  bool Set(std::optional<std::string>& value);
  bool Refuse(std::string_view error) {
    error_ = error;
    return false;
  }

  friend class KeyChanges;

  CommandId id_ = CommandId::kSet;
  std::string_view key_;
  size_t key_hash_ = 0;
  std::string_view operand_;  // the bytes to set or append
  SetOptions set_;
  int64_t by_ = 0;  // of INCRBY, or the offset of SETRANGE
  long double by_float_ = 0;
  ValueChange* next_ = nullptr;  // of the KeyChanges

  // Of the last Apply.
  std::string_view error_;
  bool has_set_ = false;
  int64_t number_ = 0;
  std::optional<std::string> text_;
};

class KeyChanges final : public ValueModifier {
 public:
  // Each change outlives this, and belongs to no other KeyChanges.
  explicit KeyChanges(ValueChange& first) : first_(&first), last_(&first) { first.next_ = nullptr; }
  // A change of the same key, behind the others.
  void Add(ValueChange& change) {
    change.next_ = nullptr;
    last_->next_ = &change;
    last_ = &change;
  }

  std::string_view key() const { return first_->key(); }
  size_t key_hash() const { return first_->key_hash(); }
  Change Modify(std::optional<std::string_view> value) override;

  // Call when the operation has ended.
  void SetResult(const Status& result) {
    for (ValueChange* one = first_; one != nullptr; one = one->next_) one->result = result;
  }

 private:
  ValueChange* first_;
  ValueChange* last_;
  std::optional<std::string> value_;
};

// The part of a value that GETRANGE asks for; negative positions count from the end.
std::string_view RangeOf(std::string_view value, int64_t first, int64_t last);

}  // namespace gossamer::gateway
