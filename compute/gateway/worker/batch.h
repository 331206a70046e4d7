// Batch: requests of several clients that go to the store together.
//
// The reads of all go to one MultiGet, the puts to one MultiPut, read-modify-writes to one
// MultiModify, the deletes to one MultiDelete, in this order. Of one client, the requests of a
// batch come in this order too: so each client's requests take effect in the order in which it sent
// them. What would break that order waits for the next batch.
//
// Thread-safety: none. Cost: no allocation for a request once the vectors have grown.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/read_reply.h"
#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/connection/client.h"
#include "compute/gateway/script/script.h"
#include "compute/gateway/worker/change_run.h"
#include "compute/gateway/worker/large_ids.h"
#include "compute/gateway/worker/large_run.h"
#include "compute/metrics/worker_metrics.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

// Changes of a batch, in the order in which they came. Their memory is kept for the next batch.
class ChangeList {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t held_bytes() const { return changes_.capacity() * sizeof(ValueChange); }
  ValueChange& Add() {
    if (count_ == changes_.size()) changes_.emplace_back();
    return changes_[count_++];
  }
  void RemoveLast() { --count_; }
  void Clear() {
    for (ValueChange& one : all()) one.GiveBackMemory();
    count_ = 0;
  }
  std::span<ValueChange> all() { return std::span(changes_).first(count_); }
  ValueChange& operator[](size_t i) { return changes_[i]; }
  const ValueChange& operator[](size_t i) const { return changes_[i]; }

 private:
  std::vector<ValueChange> changes_;
  size_t count_ = 0;
};

// What the batches of a worker share.
struct BatchContext {
  size_t max_key_bytes;  // of the store
  ScriptCache& scripts;
  ChangeMemory& memory;
  LargeIds& large_ids;
};

// Items that are read along with the header of their composite, since its id is known.
class ItemsAlong {
 public:
  explicit ItemsAlong(const LargeIds& ids) : ids_(ids) {}

  void Clear() {
    looks_.clear();
    keys_.clear();
  }
  // Has `reads` read those that `look` asks for, which has that place among all looks.
  void Read(ValueChange& look, size_t place, std::vector<std::string_view>& reads);
  // Makes the reply to a look from those that were read. Returns false if there are none.
  bool Answer(ValueChange& look, size_t place, const LargeHeader& header,
              const Values& values) const;

 private:
  struct Look {
    uint64_t id = 0;   // 0: none are read along
    size_t first = 0;  // of the items, in the reads
  };

  const LargeIds& ids_;
  std::vector<Look> looks_;  // by their places; may be shorter
  std::deque<std::string> keys_;
};

class Batch {
 public:
  // What `context` refers to outlives the batch.
  explicit Batch(const BatchContext& context)
      : context_(context), items_along_(context.large_ids) {}

  bool empty() const { return requests_.empty(); }
  bool reads() const { return !reads_.empty(); }
  // Whether its last requests are of `client`.
  bool EndsWith(const Client& client) const {
    return !clients_.empty() && clients_.back() == &client;
  }
  void Clear();

  // Adds a request of `client`. Its bytes stay until the batch has run.
  // Returns false, and adds nothing, if it must wait for the requests that the client has in the
  // batch.
  bool Add(Client& client, const Command& command, const std::vector<std::string_view>& arguments);
  // Adds an answer that is known already, in its place behind those of the client's earlier
  // requests. `command`: what it answers; null if that is no command.
  void AddAnswer(Client& client, std::string_view reply, const Command* command);
  // Likewise, to a request that was refused before it began.
  void AddRefusal(Client& client, std::string_view line, const Command* command);
  // Of the answers that were known already.
  size_t known_bytes() const { return text_.size(); }

  // Gives answers to the clients that ask for nothing of the store, and forgets their requests.
  // Returns these clients.
  std::vector<Client*> AnswerAtOnce();
  // Does the reads. Once they have brought `most_bytes`, those of further long values are left out;
  // all of them are, if a client has more than `most_keys`.
  Task<void> Read(Session& session, size_t most_bytes, size_t most_keys);
  // Whether Read has left any out, such as those of a large hash as a whole. Then the batch is to
  // be split, before anything else of it is done.
  bool has_left_out() const {
    return !reads_.empty() && (is_unread_ || has_large_lists_ || values_.is_full());
  }
  // Splits the batch: a batch of each client of which reads were left out, for LongReads, and, as
  // the last one, a batch of all the others, which may be empty. This one is of no use afterwards.
  std::vector<std::unique_ptr<Batch>> Split();
  // Does the writes. Call behind Read.
  Task<void> Write(Session& session);

  // What it holds beside the clients' own bytes: of requests, and of values that were read.
  size_t held_bytes() const;
  size_t value_bytes() const { return values_.bytes(); }
  // About the bytes of values that its writes bring through the session.
  size_t write_bytes() const { return write_bytes_; }

  // It is kept for later requests if fewer are: so many, which depends on the memory that it has
  // taken.
  size_t MostIdle() const;
  // Appends the answers to the clients' output.
  void Answer();
  // Counts its requests, once they have been answered. If that was slow, notes the longest of each
  // client's requests: they all took as long.
  void Record(std::chrono::nanoseconds duration, WorkerMetrics::Worker& metrics,
              SlowLog& slow_log) const;
  // The clients with requests in the batch.
  const std::vector<Client*>& clients() const { return clients_; }

 private:
  friend class LongReads;

  // In place of the number of values of a request: its write is one of the changes.
  static constexpr size_t kIsChange = std::numeric_limits<size_t>::max();
  enum class Phase : uint8_t { kReads, kPuts, kChanges, kDeletes };
  struct Request {
    Client* client;
    const Command* command;  // null: an answer that is known
    size_t first;            // in the vector of its kind; or of the answer's bytes in `text_`
    size_t count;            // of keys; of a look, its place

    bool IsLook() const { return command != nullptr && command->kind == CommandKind::kLook; }
    bool IsRead() const {
      return IsLook() || (command != nullptr && command->kind == CommandKind::kRead);
    }
    // 0 of an answer that is known.
    size_t keys() const {
      if (command == nullptr) return 0;
      return count == kIsChange || IsLook() ? 1 : count;
    }
  };

  // Whether a request of that phase may follow the earlier requests of the client. Adds the client
  // to `clients_`.
  bool Admit(Client& client, Phase phase);
  // AddAnswer of an error: a code in capitals, then a sentence. Returns true, as Add does then.
  bool AddError(Client& client, std::string_view line, const Command* command);
  bool AddSet(Client& client, const Command& command,
              const std::vector<std::string_view>& arguments);
  void AddPut(Client& client, const Command& command, const KeyValueView& pair);
  bool AddChange(Client& client, const Command& command,
                 const std::vector<std::string_view>& arguments);
  bool AddScript(Client& client, const Command& command,
                 const std::vector<std::string_view>& arguments);
  bool AddLook(Client& client, const Command& command,
               const std::vector<std::string_view>& arguments);
  std::vector<std::string_view> WordsOf(const Request& request) const;
  // Requests of one client, one behind the other.
  using Requests = std::span<const Request>;
  std::vector<Requests> RequestsByClient() const;
  // Whether a client has more reads than the last Read may do.
  bool AsksForMany() const;
  static size_t ReadsOf(Requests requests);
  // Whether a read of the requests was left out that is not to be done with those of others.
  bool IsLong(Requests requests) const;
  // Adds a request of `from` as it is there.
  void Take(const Batch& from, const Request& request);
  bool IsLargeList(const Request& request) const;
  // The looks of `requests` that ask for items of a large composite, whose keys are read, as those
  // from `first` up to `end`. Those that turn out to be empty are absent from then on.
  Task<std::vector<LargeLook>> FindLarge(Session& session, Requests requests, size_t first,
                                         size_t end);
  Task<void> RunPuts(Session& session);
  Task<void> RunDeletes(Session& session);
  // Puts the changes of each key one behind the other, as they came.
  // `now_ms`: the store's time.
  void GroupChanges(uint64_t now_ms);
  Task<void> RunChanges(Session& session);
  // The reply to a request that reads, appended to `out`.
  ReadReply ReplyTo(const Request& request, std::string& out);
  void AnswerOne(const Request& request);
  void AnswerChange(const Request& request) const;
  void AnswerRead(const Request& request);
  void End(ReadReply& reply);
  void AnswerWrite(const Request& request) const;

  BatchContext context_;
  std::vector<Request> requests_;
  std::vector<Client*> clients_;
  Phase phase_ = Phase::kReads;  // of the last client's last request
  bool asks_nothing_ = false;    // so does the last client
  size_t at_once_ = 0;           // clients that ask for nothing of the store
  std::vector<std::string_view> reads_;
  size_t reads_of_others_ = 0;  // those before the last client's
  Values values_;
  size_t most_keys_ = 0;          // of the last Read
  bool is_unread_ = false;        // it has read nothing, because a client has more reads
  bool has_large_lists_ = false;  // some ask for many items of a large composite, or long ones
  std::vector<KeyValueView> puts_;
  std::vector<Status> put_results_;
  ItemsAlong items_along_;
  ChangeList looks_;     // by the `count` of their requests
  uint64_t now_ms_ = 0;  // the store's time, once the reads have been done
  ChangeList changes_;
  std::vector<KeyChanges> key_changes_;
  std::vector<uint32_t> places_;  // a hash table: positions in key_changes_, and 1 more; 0: none
  ChangeRun change_run_;
  std::vector<std::string_view> deletes_;
  std::vector<KeyDeletion> deletions_;
  std::vector<KeyModifier> deletion_modifiers_;
  std::vector<Status> delete_results_;
  std::string text_;
  size_t write_bytes_ = 0;
  std::vector<const Command*> answered_;  // those of answers that were known
  std::vector<const Command*> failed_;
  std::vector<const Command*> refused_;
  uint64_t keys_found_ = 0;
  uint64_t keys_absent_ = 0;
};

}  // namespace gossamer::gateway
