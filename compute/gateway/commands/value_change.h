// ValueChange: what a command does to one key: it reads the key's value, or when it expires, and
// may write what it makes of it, such as GET, INCR, APPEND and EXPIRE.
// Fingerprint: what a key has, short enough to be kept by a client that watches it.
// KeyChanges: those of one key in a batch, done one after the other by one operation of the store.
//
// Thread-safety: none. A store may run them on another thread of it, but one at a time.
// Cost: a copy of the value for each change that writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "compute/gateway/commands/change_memory.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/composite_command.h"
#include "compute/gateway/commands/key_state.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "gossamer/modifier.h"

namespace gossamer::gateway {

class Fingerprint {
 public:
  Fingerprint() = default;  // of a key that is absent
  Fingerprint(std::string_view value, Expiry expiry);

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;

 private:
  uint64_t hash_ = 0;
  uint64_t bytes_ = 0;
  Expiry expiry_;
  bool is_there_ = false;
};

class KeyScript;

class ValueChange {
 public:
  // What the value is compared with, of SET and DELEX.
  struct Comparison {
    std::string_view with;
    bool wants_equal = true;
    bool is_of_digests = false;
  };
  // Options of SET.
  struct SetOptions {
    bool must_be_absent = false;
    bool must_exist = false;
    bool returns_old = false;
    Expiry expiry = {};
    std::optional<Comparison> comparison = {};

    bool is_plain() const {
      return !must_be_absent && !must_exist && !returns_old && !comparison.has_value();
    }
  };
  using State = KeyState;
  using Effect = KeyEffect;

  // What `arguments` ask for, whose bytes outlive the change.
  // Returns the error reply, without the '-', if they ask for nothing that can be done; else "".
  std::string Parse(const Command& command, const std::vector<std::string_view>& arguments,
                    bool is_resp3);
  void ParseSet(std::string_view key, std::string_view value, const SetOptions& options);
  // The options of SET. Returns as Parse.
  static std::string ParseSetOptions(const std::vector<std::string_view>& arguments,
                                     SetOptions& options);
  // A script, on its key; without one, `key` is nobody's.
  void ParseScript(std::shared_ptr<KeyScript> script, std::string_view key) {
    ParseKey(CommandId::kEval, key);
    script_ = std::move(script);
  }
  // One key of MGET, EXISTS or DEL.
  void ParseKey(CommandId id, std::string_view key) {
    id_ = id;
    SetKey(key);
  }

  std::string_view key() const { return key_; }
  size_t key_hash() const { return key_hash_; }
  // Whether Apply needs the value, and not only whether there is one.
  bool wants_value() const;
  // Makes of a key's state the next one. May be called again with another state: the last call
  // counts.
  Effect Apply(State& state);
  // The same of a command that only reads.
  void Read(const KeyLook& look);
  // Runs a script without a key, for which the store has nothing to do. Returns false of all
  // others.
  bool RunsAlone(uint64_t now_ms);
  // Null unless the command is about a hash or a set.
  CompositeCommand* composite() { return CompositeCommand::Has(id_) ? &composite_ : nullptr; }
  const CompositeCommand* composite() const {
    return CompositeCommand::Has(id_) ? &composite_ : nullptr;
  }
  bool is_script() const { return id_ == CommandId::kEval; }
  // Whether it asks for what a hash or a set has, and may change that.
  bool WantsItems() const { return CompositeCommand::Has(id_) || is_script(); }
  bool MayChangeItems() const {
    return is_script() || (CompositeCommand::Has(id_) && composite_.IsChange());
  }
  bool RemovesItems() const {
    return CompositeCommand::Has(id_) && composite_.IsChange() && !composite_.AddsItems();
  }
  // Of the operation that did it.
  Status result = Ok();
  // The answer of the last Apply.
  void Answer(ReplyWriter& reply) const;
  // Of the last answer, about.
  size_t answer_bytes() const;
  // Forgets the last answer, if that takes much.
  void GiveBackMemory();
  // The number that it has.
  int64_t number() const { return number_; }

 private:
  void SetKey(std::string_view key) {
    key_ = key;
    key_hash_ = std::hash<std::string_view>()(key);
  }
  // Positions, and what is added to a number.
  std::string ParseNumbers(const std::vector<std::string_view>& arguments);
  // EXPIRE and its kin: a time, and conditions.
  std::string ParseExpire(const Command& command, const std::vector<std::string_view>& arguments);
  std::string ParseGetEx(const std::vector<std::string_view>& arguments);
  std::string ParseObject(const std::vector<std::string_view>& arguments);
  std::string ParseBits(const std::vector<std::string_view>& arguments);
  std::string ParseBitRange(const std::vector<std::string_view>& arguments);
  // [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]: the options that begin at `i`, which
  // then is the place of the last of them. Returns false if they are none of these.
  static bool ParseComparison(const std::vector<std::string_view>& arguments, size_t& i,
                              std::optional<Comparison>& comparison);
  // Whether the command takes the value for a string.
  bool IsOfStrings() const;
  bool ApplyToValue(State& state);
  void ReadValue(const KeyLook& look);
  void CountBits(std::string_view value);
  void DescribeObject(const KeyLook& look);
  Effect Expire(State& state);
  Effect Persist(State& state);
  Effect DeleteIf(State& state);
  void TellTime(const KeyLook& look);
  // Gives the key a time; deletes it if that has passed.
  static void SetTime(State& state, Expiry expiry);
  bool Increment(std::optional<std::string>& value);
  bool IncrementByFloat(std::optional<std::string>& value);
  bool Append(std::optional<std::string>& value);
  bool SetRange(std::optional<std::string>& value);
  bool SetBit(std::optional<std::string>& value);
  bool Set(State& state);
  bool Refuse(std::string_view error) {
    error_ = error;
    return false;
  }

  friend class KeyChanges;

  CommandId id_ = CommandId::kSet;
  CompositeCommand composite_;  // if that has the command
  std::string_view key_;
  size_t key_hash_ = 0;
  std::string_view operand_;  // the bytes to set or append
  SetOptions set_;
  std::shared_ptr<KeyScript> script_;
  // Of INCRBYFLOAT, unless the key has another type; of GETEX and BITCOUNT, unless it is absent.
  std::string late_refusal_;
  // Of EXPIRE.
  struct Conditions {
    bool must_be_lasting = false;
    bool must_expire = false;
    bool must_be_later = false;
    bool must_be_earlier = false;
  };
  Conditions conditions_;
  bool is_absolute_ = false;  // TTL tells when the key expires, and not how long that is
  bool is_in_seconds_ = false;
  // What OBJECT and MEMORY ask for.
  enum class Property : uint8_t { kEncoding, kReferences, kIdleTime, kFrequency, kBytes };
  Property property_ = Property::kEncoding;
  int64_t by_ = 0;    // of INCRBY, or the offset of SETRANGE and SETBIT, or the start of a range
  int64_t last_ = 0;  // of a range; of SETBIT: the bit
  bool is_in_bits_ = false;  // the range of BITCOUNT
  long double by_float_ = 0;
  ValueChange* next_ = nullptr;  // of the KeyChanges

  // Of the last Apply.
  std::string_view error_;
  bool has_set_ = false;
  int64_t number_ = 0;
  std::optional<std::string> text_;
};

// A script on one key.
class KeyScript {
 public:
  virtual ~KeyScript() = default;
  virtual bool has_key() const = 0;
  // As ValueChange::Apply.
  virtual KeyEffect Run(KeyState& state) = 0;
  // The whole reply, of the last Run.
  virtual std::string_view reply() const = 0;
};

// What KeyChanges have to know of the store.
struct ChangeTerms {
  uint64_t now_ms;  // its time
  size_t max_key_bytes;
};

class KeyChanges final : public ValueModifier {
 public:
  // What a successful operation has done.
  enum class Outcome : uint8_t {
    kDone,
    kPutOff,      // nothing, since too much memory was held, or since the key has a composite that
                  // others fill: to be done again
    kFills,       // all, and now the composite is `header`, which is to be filled
    kFillsFirst,  // nothing, but the same: to be done again behind that
    kIsCreated,   // nothing: the key is to get a large composite of the type of `header` first
    kIsLarge,     // nothing: the key has `header`, which is open
    kPerhapsEmpty,  // nothing: likewise, and whether it has an item is to be looked up
  };

  // Each change outlives this, and belongs to no other KeyChanges. So does `memory`.
  KeyChanges(ValueChange& first, const ChangeTerms& terms, ChangeMemory& memory)
      : first_(&first),
        last_(&first),
        terms_(terms),
        memory_(memory),
        values_(memory.OfValues()),
        replies_(memory.OfReplies()) {
    first.next_ = nullptr;
  }
  // The changes are done only if the key has what a client that watches it has seen.
  void Expect(const Fingerprint& seen) { expected_ = seen; }
  // Of the last Modify: it had something else.
  bool is_outdated() const { return is_outdated_; }
  Outcome outcome() const { return outcome_; }
  // Of kFills and later ones. Its items are not part of it.
  const LargeHeader& header() const { return header_; }
  // From now on the store's time is this one.
  void SetNow(uint64_t now_ms) { terms_.now_ms = now_ms; }
  // From now on it is done whatever memory is held.
  void NeverPutOff() { is_never_put_off_ = true; }
  // Likewise, whether the key expires.
  bool expires() const { return expires_; }
  // The composite of `header` has no items: if it is found again, the key counts as absent.
  // `may_write`: it may also be overwritten.
  void TakeForAbsent(const LargeHeader& header, bool may_write) {
    empty_ = header;
    may_write_ = may_write;
  }
  // If it is found again, items are added to it.
  void TakeForLarge(const LargeHeader& header) { large_ = header; }
  bool HasSeveral() const { return first_ != last_; }
  bool RemovesItems() const { return Any(&ValueChange::RemovesItems); }
  // In the order in which they came.
  template <typename Use>
  void ForEach(Use&& use) {
    for (ValueChange *one = first_, *next = nullptr; one != nullptr; one = next) {
      next = one->next_;
      use(*one);
    }
  }
  const ChangeTerms& terms() const { return terms_; }
  ChangeMemory& memory() { return memory_; }
  // Whether a reply of so many bytes may be held, too.
  bool TakeReply(uint64_t bytes) { return replies_.Take(bytes); }
  // Whether all commands are about items of a composite of that type, and one may add some.
  bool AddsItemsTo(CompositeType type) const;
  // Of all answers.
  uint64_t answer_bytes() const { return replies_.bytes(); }
  // A change of the same key, behind the others.
  void Add(ValueChange& change) {
    change.next_ = nullptr;
    last_->next_ = &change;
    last_ = &change;
  }

  std::string_view key() const { return first_->key(); }
  size_t key_hash() const { return first_->key_hash(); }
  Change Modify(std::optional<std::string_view> value, Expiry expiry) override;
  bool wants_value() const override;

  // Call when the operation has ended.
  void SetResult(const Status& result);
  // Likewise, if each change has its result.
  void Forget();

 private:
  // Does the changes to `state_`. Returns false, and they are not to be done, if their answers are
  // too long.
  bool ApplyAll(KeyEffect& effect);
  // What becomes of a key that has this, or is absent.
  Change OnValue(std::optional<std::string_view> value, Expiry expiry);
  // Likewise, of one with a header of a composite that is empty.
  Change OnEmpty(const LargeHeader& header);
  // What becomes of a key with that header, if the changes cannot be done as on any other one.
  std::optional<Change> OnLarge(const LargeHeader& header, Expiry expiry);
  // A header that is filling, with these items, in place of what the key has.
  Change Fill(CompositeType type, std::string_view items, Expiry expiry, Outcome outcome);
  // Whether one of the changes is such.
  bool Any(bool (ValueChange::*is_such)() const) const {
    const ValueChange* one = first_;
    while (one != nullptr && !(one->*is_such)()) one = one->next_;
    return one != nullptr;
  }
  bool HasScript() const { return Any(&ValueChange::is_script); }
  // Whether each item of the small composite can be a key.
  bool CanBeLarge(std::string_view small) const;

  ValueChange* first_;
  ValueChange* last_;
  ChangeTerms terms_;
  ChangeMemory& memory_;
  ChangeMemory::Holding values_;
  ChangeMemory::Holding replies_;
  KeyState state_;
  std::optional<Fingerprint> expected_;
  Outcome outcome_ = Outcome::kDone;
  LargeHeader header_;
  std::string filling_;  // of kFills and kFillsFirst: what the key gets
  std::optional<LargeHeader> empty_;
  std::optional<LargeHeader> large_;
  bool expires_ = false;
  bool may_write_ = false;  // in place of that
  bool is_outdated_ = false;
  bool is_never_put_off_ = false;
  bool is_too_long_ = false;  // the answers
};

// Whether it is EX, PX, EXAT or PXAT.
bool IsExpiryOption(std::string_view option);
// The time that such an option of `command` gives to a key, with `text` behind it.
// Returns the error reply, without the '-', if it gives none; else "".
std::string ParseExpiry(std::string_view option, std::string_view text, std::string_view command,
                        Expiry& expiry);

// What TYPE says of a key with this value.
std::string_view TypeName(std::string_view value, bool is_composite);

// The part of a value that GETRANGE asks for; negative positions count from the end.
std::string_view RangeOf(std::string_view value, int64_t first, int64_t last);

}  // namespace gossamer::gateway
