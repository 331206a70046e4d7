// Transaction: the commands that a client has queued behind MULTI, and the keys that it watches.
//
// EXEC does all commands of one key as one operation of the store, which is atomic among all
// compute servers. Those of several keys are so many operations, side by side.
//
// WATCH notes what a key has: a fingerprint of its value, and when it expires. EXEC compares it
// under the lock under which the commands of that key are done. Keys that are watched beside others
// are compared before, too, when nothing has been done yet.
//
// Transactions: those of a worker's clients.
//
// Thread-safety: none; a transaction belongs to a client, and Transactions to a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/commands/value_change.h"
#include "compute/gateway/connection/client_memory.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/script/script.h"
#include "compute/gateway/worker/batch.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

class Transaction {
 public:
  // The reply to a command that needs nothing of the store.
  using AnswerAtOnce =
      std::function<std::string(const Command&, const std::vector<std::string_view>&)>;

  // Both outlive this.
  Transaction(ClientMemory& memory, ChangeMemory& change_memory)
      : change_memory_(change_memory), held_(memory, ClientMemory::Use::kRequests) {}

  // Whether commands are queued.
  bool is_open() const { return is_open_; }
  void Open() { is_open_ = true; }
  // A command was refused: if they are queued, EXEC does nothing.
  void Spoil() { is_spoilt_ = is_open_; }
  // Whether EXEC is refused.
  bool is_spoilt() const { return is_spoilt_; }
  // Copies a command. Returns the error reply, without the '-', if it cannot be queued, or if all
  // of them would take more than `most_bytes`; else "".
  std::string Queue(const Command& command, const std::vector<std::string_view>& arguments,
                    uint64_t most_bytes);
  // Forgets commands and keys.
  void End();

  // Notes what `keys` have. Errors: those of gets.
  Task<Status> Watch(Session& session, std::vector<std::string> keys);
  void Unwatch();

  // Does the commands, and appends the reply to EXEC to `out`.
  Task<void> Execute(Session& session, ScriptCache& scripts, size_t max_key_bytes,
                     AnswerAtOnce answer_at_once, std::string& out, bool is_resp3);

 private:
  struct Queued {
    const Command* command;
    std::vector<std::string> words;
    // The changes that do this command: `count` from `first` on. There are none if `reply` is set.
    size_t first = 0;
    size_t count = 0;
    std::string reply;

    std::vector<std::string_view> views() const { return {words.begin(), words.end()}; }
  };
  struct Watched {
    std::string key;
    Fingerprint seen;
  };

  // Makes the changes of a command.
  void Prepare(Queued& queued, ScriptCache& scripts, const AnswerAtOnce& answer_at_once,
               bool is_resp3);
  // One for each key, with what is expected of it.
  std::vector<KeyChanges> GroupByKey(const ChangeTerms& terms);
  // Whether a watched key has changed since.
  Task<Result<bool>> HasChanged(Session& session);
  void Answer(const Queued& queued, ReplyWriter& reply) const;
  void CountMemory();

  ChangeMemory& change_memory_;
  bool is_open_ = false;
  bool is_spoilt_ = false;
  std::vector<Queued> queued_;
  std::vector<Watched> watched_;
  std::vector<ValueChange> changes_;
  uint64_t bytes_ = 0;  // of what is queued
  ClientMemory::Holding held_;
};

class Transactions {
 public:
  // Both outlive this.
  Transactions(ClientMemory& memory, ChangeMemory& change_memory)
      : memory_(memory), change_memory_(change_memory) {}

  // A command of a client that has a transaction, or one about transactions. Queues it, or answers
  // it by `batch`. Returns false, and does nothing, if it is to be done: as ever, or by Run.
  bool Collect(Client& client, const Command& command,
               const std::vector<std::string_view>& arguments, uint64_t most_bytes, Batch& batch);
  // A command of the client was refused.
  void Spoil(const Client& client);
  // The client has none any more.
  void End(Client& client);
  // EXEC or WATCH, whose words are `words`. They outlive the task.
  Task<void> Run(Client& client, const Command& command, const std::vector<std::string>& words,
                 Session& session, ScriptCache& scripts, size_t max_key_bytes,
                 Transaction::AnswerAtOnce answer_at_once);

 private:
  // Null: it neither queues commands nor watches keys.
  Transaction* Of(const Client& client);
  Transaction& Begin(Client& client);

  ClientMemory& memory_;
  ChangeMemory& change_memory_;
  std::unordered_map<const Client*, Transaction> transactions_;
};

}  // namespace gossamer::gateway
