#include "compute/gateway/worker/transaction.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compute/gateway/commands/refusals.h"

namespace gossamer::gateway {
namespace {

// What a queued word takes beside its bytes.
constexpr uint64_t kWordBytes = 64;
constexpr std::string_view kOutdated =
    "TRYAGAIN a watched key has changed meanwhile: this command was not done, others were";

constexpr std::string_view kLargeWatched =
    "this hash or set cannot be watched: it has more than 32 KiB, and its items are keys of their "
    "own";

// Whether a command that fails because the store does not take such a key finds it absent.
bool FindsAbsent(const Command& command) {
  return !command.is_write || command.id == CommandId::kDel || command.id == CommandId::kGetDel;
}

}  // namespace

std::string Transaction::Queue(const Command& command,
                               const std::vector<std::string_view>& arguments,
                               uint64_t most_bytes) {
  const bool is_publish = command.id == CommandId::kPublish;
  switch (command.kind) {
    case CommandKind::kState:
    case CommandKind::kWalk:
      if (is_publish) break;
      return "ERR " + std::string(command.name) +
             " cannot be part of a transaction in Gossamer: send it by itself";
    default: break;
  }
  uint64_t bytes = 0;
  for (const std::string_view word : arguments) bytes += word.size() + kWordBytes;
  if (bytes_ + bytes > most_bytes) return "ERR the transaction is longer than this gateway allows";
  bytes_ += bytes;
  queued_.push_back({&command, {arguments.begin(), arguments.end()}, 0, 0, {}});
  CountMemory();
  return {};
}

void Transaction::CountMemory() {
  uint64_t bytes = bytes_ + queued_.size() * sizeof(Queued);
  for (const Watched& one : watched_) bytes += one.key.size() + sizeof one;
  held_.Set(bytes);
}

void Transaction::End() {
  is_open_ = false;
  is_spoilt_ = false;
  queued_.clear();
  changes_.clear();
  bytes_ = 0;
  Unwatch();
}

void Transaction::Unwatch() {
  watched_.clear();
  CountMemory();
}

Task<Status> Transaction::Watch(Session& session, std::vector<std::string> keys) {
  for (std::string& key : keys) {
    const auto is_it = [&key](const Watched& one) { return one.key == key; };
    if (std::ranges::any_of(watched_, is_it)) continue;
    const Result<ExpiringValue> found = co_await session.AsyncGetWithExpiry(key);
    const bool is_absent = IsAbsent(found);
    if (!found && !is_absent) co_return found.error();
    const std::optional<LargeHeader> header =
        found ? ParseLargeHeader(found.value().value, found.value().expiry) : std::nullopt;
    if (header && header->state != LargeHeader::State::kFilling) {
      co_return MakeError(Code::kInvalidArgument, std::string(kLargeWatched));
    }
    Watched watched{std::move(key), {}};
    if (found) watched.seen = Fingerprint(found.value().value, found.value().expiry);
    watched_.push_back(std::move(watched));
  }
  CountMemory();
  co_return Ok();
}

void Transaction::Prepare(Queued& queued, ScriptCache& scripts, const AnswerAtOnce& answer_at_once,
                          bool is_resp3) {
  const std::vector<std::string_view> words = queued.views();
  const Command& command = *queued.command;
  queued.first = changes_.size();
  const auto refuse = [&](std::string_view line) {
    changes_.resize(queued.first);
    ReplyWriter(queued.reply, is_resp3).Error(line);
  };
  const auto add_for_each_key = [&](CommandId id) {
    for (size_t i = 1; i < words.size(); ++i) changes_.emplace_back().ParseKey(id, words[i]);
  };
  switch (command.id) {
    case CommandId::kMget:
    case CommandId::kExists:
    case CommandId::kDel: add_for_each_key(command.id); break;
    case CommandId::kMset:
      if (words.size() % 2 == 0) {
        refuse(WrongNumberOfArguments(command.name));
        break;
      }
      for (size_t i = 1; i < words.size(); i += 2) {
        changes_.emplace_back().ParseSet(words[i], words[i + 1], {});
      }
      break;
    case CommandId::kPublish: break;  // once the others have been done
    case CommandId::kUnwatch: ReplyWriter(queued.reply, is_resp3).Ok(); break;
    case CommandId::kEval: {
      std::string refusal;
      std::shared_ptr<ScriptCall> script = scripts.Call(command, words, is_resp3, refusal);
      if (script == nullptr) {
        refuse(refusal);
        break;
      }
      const std::string_view key = script->has_key() ? script->keys()[0] : std::string_view();
      changes_.emplace_back().ParseScript(std::move(script), key);
      break;
    }
    default: {
      if (command.kind == CommandKind::kAnswer) {
        queued.reply = answer_at_once(command, words);
        break;
      }
      const std::string refusal = changes_.emplace_back().Parse(command, words, is_resp3);
      if (!refusal.empty()) refuse(refusal);
    }
  }
  queued.count = changes_.size() - queued.first;
}

std::vector<KeyChanges> Transaction::GroupByKey(const ChangeTerms& terms) {
  std::vector<KeyChanges> groups;
  std::unordered_map<std::string_view, size_t> places;
  for (ValueChange& change : changes_) {
    if (change.RunsAlone(terms.now_ms)) continue;
    const auto [place, is_new] = places.emplace(change.key(), groups.size());
    if (is_new) {
      groups.emplace_back(change, terms, change_memory_);
    } else {
      groups[place->second].Add(change);
    }
  }
  for (const Watched& one : watched_) {
    const auto place = places.find(one.key);
    if (place != places.end()) groups[place->second].Expect(one.seen);
  }
  return groups;
}

Task<Result<bool>> Transaction::HasChanged(Session& session) {
  for (const Watched& one : watched_) {
    const Result<ExpiringValue> found = co_await session.AsyncGetWithExpiry(one.key);
    const bool is_absent = IsAbsent(found);
    if (!found && !is_absent) co_return found.error();
    Fingerprint now;
    if (found) now = Fingerprint(found.value().value, found.value().expiry);
    if (now != one.seen) co_return true;
  }
  co_return false;
}

Task<void> Transaction::Execute(Session& session, ScriptCache& scripts, size_t max_key_bytes,
                                AnswerAtOnce answer_at_once, std::string& out, bool is_resp3) {
  ReplyWriter reply(out, is_resp3);
  for (Queued& queued : queued_) Prepare(queued, scripts, answer_at_once, is_resp3);
  std::vector<KeyChanges> groups = GroupByKey({session.StoreTimeMs(), max_key_bytes});
  const bool compares_under_lock =
      watched_.size() == 1 && groups.size() == 1 && groups[0].key() == watched_[0].key;
  if (!watched_.empty() && !compares_under_lock) {
    const Result<bool> has_changed = co_await HasChanged(session);
    if (!has_changed) co_return reply.Error(ErrorLine(has_changed.error()));
    if (has_changed.value()) co_return reply.NullArray();
  }
  ChangeRun run;
  co_await run.Run(session, groups);
  const auto outdated =
      static_cast<size_t>(std::ranges::count_if(groups, &KeyChanges::is_outdated));
  if (outdated != 0 && outdated == groups.size()) co_return reply.NullArray();
  reply.Array(queued_.size());
  for (const Queued& queued : queued_) {
    if (queued.command->id == CommandId::kPublish) {
      reply.Raw(answer_at_once(*queued.command, queued.views()));
    } else {
      Answer(queued, reply);
    }
  }
}

void Transaction::Answer(const Queued& queued, ReplyWriter& reply) const {
  const Command& command = *queued.command;
  if (queued.count == 0) return reply.Raw(queued.reply);
  const std::span<const ValueChange> changes(&changes_[queued.first], queued.count);
  for (const ValueChange& change : changes) {
    const bool is_absent = !change.result && FindsAbsent(command) &&
                           change.result.error().code == Code::kInvalidArgument;
    if (change.result || is_absent) continue;
    const bool is_outdated =
        change.result.error().code == Code::kContended && change.result.error().message.empty();
    return reply.Error(is_outdated ? std::string(kOutdated) : ErrorLine(change.result.error()));
  }
  const auto answer = [&](const ValueChange& change) {
    if (change.result) return change.Answer(reply);
    ValueChange of_absent = change;
    ValueChange::State nothing;
    of_absent.Apply(nothing);
    of_absent.Answer(reply);
  };
  switch (command.id) {
    case CommandId::kMset: return reply.Ok();
    case CommandId::kMget:
      reply.Array(queued.count);
      for (const ValueChange& change : changes) answer(change);
      return;
    case CommandId::kExists:
    case CommandId::kDel: {
      int64_t sum = 0;
      for (const ValueChange& change : changes) sum += change.result ? change.number() : 0;
      return reply.Integer(sum);
    }
    default: return answer(changes.front());
  }
}

// ---- Of a worker's clients

Transaction* Transactions::Of(const Client& client) {
  return client.has_transaction ? &transactions_.at(&client) : nullptr;
}

Transaction& Transactions::Begin(Client& client) {
  client.has_transaction = true;
  return transactions_.try_emplace(&client, memory_, change_memory_).first->second;
}

void Transactions::End(Client& client) {
  if (std::exchange(client.has_transaction, false)) transactions_.erase(&client);
}

void Transactions::Spoil(const Client& client) {
  if (Transaction* const one = Of(client); one != nullptr) one->Spoil();
}

bool Transactions::Collect(Client& client, const Command& command,
                           const std::vector<std::string_view>& arguments, uint64_t most_bytes,
                           Batch& batch) {
  Transaction* const one = Of(client);
  const bool is_open = one != nullptr && one->is_open();
  const auto refuse = [&](std::string_view line) {
    batch.AddRefusal(client, line, &command);
    return true;
  };
  switch (command.id) {
    case CommandId::kReset:
    case CommandId::kQuit: return false;
    case CommandId::kMulti:
      if (is_open) return refuse("ERR MULTI calls can not be nested");
      Begin(client).Open();
      break;
    case CommandId::kDiscard:
      if (!is_open) return refuse("ERR DISCARD without MULTI");
      End(client);
      break;
    case CommandId::kWatch: return is_open && refuse("ERR WATCH inside MULTI is not allowed");
    case CommandId::kExec:
      if (!is_open) return refuse("ERR EXEC without MULTI");
      if (!one->is_spoilt()) return false;
      End(client);
      return refuse("EXECABORT Transaction discarded because of previous errors.");
    default: {
      if (!is_open && command.id != CommandId::kUnwatch) return false;
      if (!is_open) {
        End(client);
        break;
      }
      const std::string refusal = one->Queue(command, arguments, most_bytes);
      if (!refusal.empty()) {
        one->Spoil();
        return refuse(refusal);
      }
      batch.AddAnswer(client, "+QUEUED\r\n", nullptr);
      return true;
    }
  }
  batch.AddAnswer(client, "+OK\r\n", &command);
  return true;
}

Task<void> Transactions::Run(Client& client, const Command& command,
                             const std::vector<std::string>& words, Session& session,
                             ScriptCache& scripts, size_t max_key_bytes,
                             Transaction::AnswerAtOnce answer_at_once) {
  Transaction& one = Begin(client);
  if (command.id == CommandId::kExec) {
    co_await one.Execute(session, scripts, max_key_bytes, std::move(answer_at_once), client.out,
                         client.is_resp3);
    End(client);
    co_return;
  }
  const Status watched = co_await one.Watch(session, {words.begin() + 1, words.end()});
  ReplyWriter reply(client.out, client.is_resp3);
  watched ? reply.Ok() : reply.Error(ErrorLine(watched.error()));
}

}  // namespace gossamer::gateway
