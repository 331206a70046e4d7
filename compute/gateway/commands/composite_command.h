// CompositeCommand: what a command does to a hash or a set, such as HSET, HGETALL and SADD.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/composite.h"
#include "compute/gateway/commands/key_state.h"
#include "compute/gateway/commands/large_composite.h"
#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

class CompositeCommand {
 public:
  static bool Has(CommandId id);

  // What `arguments` ask for, whose bytes outlive this. Requires: Has(command.id).
  // Returns the error reply, without the '-', if they ask for nothing that can be done; else "".
  std::string Parse(const Command& command, const std::vector<std::string_view>& arguments,
                    bool is_resp3);
  // Makes of a key's state the next one. May be called again with another state: the last call
  // counts.
  KeyEffect Apply(KeyState& state);
  // Of a command that only reads.
  void Read(const KeyLook& look);
  // The whole reply, of the last Apply or Read.
  std::string_view reply() const { return reply_; }
  bool IsChange() const;
  CompositeType type() const { return type_; }
  bool AddsItems() const {
    return IsChange() && id_ != CommandId::kHDel && id_ != CommandId::kSRem && !IsPop();
  }

  // ---- On a large composite: each makes the reply

  // Whether it asks for items by their names: with one ItemChange for each name.
  bool IsOfItems() const;
  // Requires: IsOfItems.
  void AddItemChanges(uint64_t id, std::vector<ItemChange>& changes) const;
  // Those that AddItemChanges has added, once they are done.
  void AnswerItems(std::span<const ItemChange> changes);
  // Of a read by names.
  std::span<const std::string_view> names() const { return operands_; }
  void AnswerValues(std::span<const std::optional<std::string_view>> values);
  // HLEN and SCARD.
  bool WantsCount() const { return id_ == CommandId::kHLen || id_ == CommandId::kSCard; }
  void AnswerCount(uint64_t count) { Answer().Integer(static_cast<int64_t>(count)); }
  // A part of the items.
  bool IsScan() const { return id_ == CommandId::kHScan || id_ == CommandId::kSScan; }
  // The error reply, without the '-', if the key is there; "": none.
  std::string_view late_refusal() const { return late_refusal_; }
  uint64_t cursor() const { return cursor_; }
  uint64_t scan_count() const { return scan_count_; }
  void AnswerScan(uint64_t next_cursor, const std::vector<CompositeItem>& items);
  // How many different items it draws, each with the same chance; nullopt: it does not, or it may
  // draw one several times. SPOP removes them.
  std::optional<uint64_t> CountToDraw() const;
  bool IsPop() const { return id_ == CommandId::kSPop; }
  void AnswerDrawn(const std::vector<CompositeItem>& items);
  // Whether values are part of the reply.
  bool WantsValues() const;
  void AnswerAll(const std::vector<CompositeItem>& items);
  void AnswerError(std::string_view line) { Refuse(line); }
  // The next Read leaves the reply as it is.
  void KeepReply() { keeps_reply_ = true; }
  // Forgets it, if it takes much.
  void GiveBackMemory() {
    constexpr size_t kSmallBytes = 1024;
    if (reply_.capacity() > kSmallBytes) reply_ = {};
  }

 private:
  std::string ParseRandom(const std::vector<std::string_view>& arguments);
  std::string ParseScan(const std::vector<std::string_view>& arguments);
  std::string ParseScanOptions(const std::vector<std::string_view>& arguments);
  ReplyWriter Writer() { return {reply_, is_resp3_}; }
  // The writer of another reply.
  ReplyWriter Answer() {
    reply_.clear();
    return Writer();
  }
  KeyEffect Refuse(std::string_view line);
  // Each changes `edit`, and writes the reply; false: nothing has changed, or it is refused.
  bool SetFields(CompositeEdit& edit);
  bool Increment(CompositeEdit& edit);
  bool IncrementByFloat(CompositeEdit& edit);
  bool AddMembers(CompositeEdit& edit);
  bool RemoveItems(CompositeEdit& edit);
  bool Pop(CompositeEdit& edit);
  bool Edit(CompositeEdit& edit);
  void ReadOne(const CompositeView& view);
  void ReadSome(std::optional<std::string_view> bytes);
  void List(const std::vector<CompositeItem>& items);
  void Draw(const std::vector<CompositeItem>& items);
  void ListDrawn(const std::vector<CompositeItem>& items, const std::vector<size_t>& drawn);

  CommandId id_ = CommandId::kHGet;
  CompositeType type_ = CompositeType::kHash;
  bool is_resp3_ = false;
  bool answers_ok_ = false;                 // HMSET
  std::vector<std::string_view> operands_;  // fields, or fields and values, or members
  int64_t number_ = 0;                      // to add, or how many to return
  long double float_ = 0;                   // to add
  bool has_count_ = false;                  // of items to return
  bool with_values_ = false;                // likewise
  std::string_view pattern_;                // of HSCAN and SSCAN
  uint64_t cursor_ = 0;                     // likewise
  uint64_t scan_count_ = 0;                 // likewise
  std::string late_refusal_;                // likewise, unless the key is absent
  std::string reply_;
  bool keeps_reply_ = false;
};

}  // namespace gossamer::gateway
