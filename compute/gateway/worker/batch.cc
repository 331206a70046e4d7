// Hot path, but for what takes a batch apart: no allocation, no lock, no virtual call for a
// request.
#include "compute/gateway/worker/batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "common/random.h"
#include "common/random_id.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

// Of a worker, batches that are kept for later requests: small ones, and larger ones, with values
// that pipelines of many clients bring together. One with still more, or with more keys, is not.
constexpr size_t kMostIdle = 8;
constexpr size_t kSmallBytes = size_t{1} << 20;
constexpr size_t kMostIdleLarge = 2;
constexpr size_t kLargeBytes = size_t{5} << 20;
constexpr size_t kKeptKeys = size_t{64} << 10;
// What a read-modify-write brings at least.
constexpr size_t kChangeBytes = 1024;
// Keys of a client in a batch, unless they are of one request: their values are in memory together.
constexpr size_t kMostReads = 1024;

// Whether a change may answer with a whole value.
bool MayReturnValue(CommandId id) {
  return id == CommandId::kEval || id == CommandId::kGetDel || id == CommandId::kGetEx ||
         id == CommandId::kGetSet || id == CommandId::kSet || id == CommandId::kSPop;
}

size_t BytesOfChange(const Command& command, const ChangeMemory& memory) {
  return MayReturnValue(command.id) ? std::max<size_t>(kChangeBytes, memory.expected())
                                    : kChangeBytes;
}

// What the store would refuse of an MSET, before anything of it is done. Empty: nothing.
std::string RefusalOfPairs(const Command& command, const std::vector<std::string_view>& arguments,
                           size_t max_key_bytes) {
  if (arguments.size() % 2 == 0) return WrongNumberOfArguments(command.name);
  for (size_t i = 1; i < arguments.size(); i += 2) {
    const size_t key_bytes = arguments[i].size();
    const size_t value_bytes = arguments[i + 1].size();
    if (key_bytes > max_key_bytes) {
      return "ERR a key of " + std::to_string(key_bytes) + " bytes: this store takes at most " +
             std::to_string(max_key_bytes);
    }
    if (value_bytes > kMaxValueBytes) return ValueTooLong(value_bytes);
  }
  return {};
}

// Values that go to the store together: their buffers are in memory together, too.
constexpr size_t kMostWritten = size_t{4} << 20;
constexpr size_t kMostPuts = size_t{64} << 10;

}  // namespace

void ItemsAlong::Read(ValueChange& look, size_t place, std::vector<std::string_view>& reads) {
  const CompositeCommand* const command = look.composite();
  if (command == nullptr || !command->IsOfItems()) return;
  const std::optional<uint64_t> id = ids_.Find(look.key());
  if (!id) return;
  looks_.resize(place + 1);
  looks_.back() = {.id = *id, .first = reads.size()};
  for (const std::string_view name : command->names()) {
    reads.push_back(keys_.emplace_back(ItemKeyOf(*id, name)));
  }
}

bool ItemsAlong::Answer(ValueChange& look, size_t place, const LargeHeader& header,
                        const Values& values) const {
  if (place >= looks_.size() || looks_[place].id != header.id) return false;
  CompositeCommand& command = *look.composite();
  std::vector<std::optional<std::string_view>> found;
  for (size_t i = 0; i < command.names().size(); ++i) {
    const size_t at = looks_[place].first + i;
    if (values.is_left_out(at)) return false;
    const Result<std::string_view> value = values[at];
    const bool is_absent = !value && value.error().code == Code::kNotFound;
    if (!value && !is_absent) return false;
    found.push_back(value ? std::optional(value.value()) : std::nullopt);
  }
  command.AnswerValues(found);
  command.KeepReply();
  return true;
}

void Batch::Clear() {
  requests_.clear();
  clients_.clear();
  reads_.clear();
  puts_.clear();
  looks_.Clear();
  items_along_.Clear();
  changes_.Clear();
  deletes_.clear();
  text_.clear();
  answered_.clear();
  failed_.clear();
  refused_.clear();
  keys_found_ = 0;
  keys_absent_ = 0;
  key_changes_.clear();
  reads_of_others_ = 0;
  asks_nothing_ = false;
  at_once_ = 0;
  write_bytes_ = 0;
}

size_t Batch::held_bytes() const {
  const auto bytes = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  return bytes(requests_) + bytes(reads_) + bytes(puts_) + bytes(put_results_) +
         looks_.held_bytes() + bytes(deletes_) + bytes(delete_results_) + bytes(deletions_) +
         bytes(deletion_modifiers_) + changes_.held_bytes() + bytes(key_changes_) + bytes(places_) +
         change_run_.held_bytes() + text_.capacity();
}

size_t Batch::MostIdle() const {
  const size_t keys =
      requests_.size() + reads_.size() + puts_.size() + changes_.size() + deletes_.size();
  const size_t bytes = values_.bytes() + text_.capacity();
  if (keys > kKeptKeys || bytes > kLargeBytes) return 0;
  return bytes > kSmallBytes ? kMostIdleLarge : kMostIdle;
}

bool Batch::Admit(Client& client, Phase phase) {
  if (!EndsWith(client)) {
    clients_.push_back(&client);
    reads_of_others_ = reads_.size();
  } else if (phase < phase_) {
    return false;
  } else if (asks_nothing_) {
    --at_once_;
  }
  asks_nothing_ = false;
  phase_ = phase;
  return true;
}

void Batch::AddAnswer(Client& client, std::string_view reply, const Command* command) {
  if (!EndsWith(client)) {
    Admit(client, Phase::kReads);
    asks_nothing_ = true;
    ++at_once_;
  }
  requests_.emplace_back(&client, nullptr, text_.size(), reply.size());
  text_ += reply;
  if (command == nullptr) return;
  answered_.push_back(command);
  if (reply.starts_with('-')) failed_.push_back(command);
}

bool Batch::AddError(Client& client, std::string_view line, const Command* command) {
  std::string reply;
  ReplyWriter(reply, client.is_resp3).Error(line);
  AddAnswer(client, reply, command);
  return true;
}

void Batch::AddRefusal(Client& client, std::string_view line, const Command* command) {
  AddError(client, line, nullptr);
  refused_.push_back(command);
}

bool Batch::Add(Client& client, const Command& command,
                const std::vector<std::string_view>& arguments) {
  switch (command.kind) {
    case CommandKind::kRead: {
      if (!Admit(client, Phase::kReads)) return false;
      const size_t earlier = reads_.size() - reads_of_others_;
      if (earlier != 0 && earlier + arguments.size() - 1 > kMostReads) return false;
      requests_.emplace_back(&client, &command, reads_.size(), arguments.size() - 1);
      reads_.insert(reads_.end(), arguments.begin() + 1, arguments.end());
      return true;
    }
    case CommandKind::kLook: return AddLook(client, command, arguments);
    case CommandKind::kPut: {
      if (command.id != CommandId::kMset) return AddSet(client, command, arguments);
      if (const std::string refusal = RefusalOfPairs(command, arguments, context_.max_key_bytes);
          !refusal.empty()) {
        return AddError(client, refusal, &command);
      }
      if (!Admit(client, Phase::kPuts)) return false;
      requests_.emplace_back(&client, &command, puts_.size(), arguments.size() / 2);
      for (size_t i = 1; i < arguments.size(); i += 2) {
        puts_.push_back({arguments[i], arguments[i + 1], {}});
        write_bytes_ += arguments[i + 1].size();
      }
      return true;
    }
    case CommandKind::kChange: return AddChange(client, command, arguments);
    case CommandKind::kScript: return AddScript(client, command, arguments);
    case CommandKind::kDelete: {
      if (!Admit(client, Phase::kDeletes)) return false;
      requests_.emplace_back(&client, &command, deletes_.size(), arguments.size() - 1);
      deletes_.insert(deletes_.end(), arguments.begin() + 1, arguments.end());
      return true;
    }
    default: return false;
  }
}

void Batch::AddPut(Client& client, const Command& command, const KeyValueView& pair) {
  requests_.emplace_back(&client, &command, puts_.size(), 1);
  puts_.push_back(pair);
  write_bytes_ += pair.value.size();
}

// SET, and SETEX key seconds value, PSETEX key milliseconds value
bool Batch::AddSet(Client& client, const Command& command,
                   const std::vector<std::string_view>& arguments) {
  ValueChange::SetOptions options;
  const bool has_time = command.id == CommandId::kSetEx;
  const std::string_view unit = command.name.starts_with('p') ? "px" : "ex";
  const std::string refusal = has_time
                                  ? ParseExpiry(unit, arguments[2], command.name, options.expiry)
                                  : ValueChange::ParseSetOptions(arguments, options);
  if (!refusal.empty()) return AddError(client, refusal, &command);
  const std::string_view value = arguments[has_time ? 3 : 2];
  const bool is_plain = options.is_plain();
  if (!Admit(client, is_plain ? Phase::kPuts : Phase::kChanges)) return false;
  if (is_plain) {
    AddPut(client, command, {arguments[1], value, options.expiry});
  } else {
    write_bytes_ += BytesOfChange(command, context_.memory);
    requests_.emplace_back(&client, &command, changes_.size(), kIsChange);
    changes_.Add().ParseSet(arguments[1], value, options);
  }
  return true;
}

bool Batch::AddChange(Client& client, const Command& command,
                      const std::vector<std::string_view>& arguments) {
  if (!Admit(client, Phase::kChanges)) return false;
  const std::string refusal = changes_.Add().Parse(command, arguments, client.is_resp3);
  if (!refusal.empty()) {
    changes_.RemoveLast();
    return AddError(client, refusal, &command);
  }
  requests_.emplace_back(&client, &command, changes_.size() - 1, kIsChange);
  write_bytes_ += BytesOfChange(command, context_.memory);
  return true;
}

// EVAL script number_of_keys [key] [argument ...]
bool Batch::AddScript(Client& client, const Command& command,
                      const std::vector<std::string_view>& arguments) {
  if (!Admit(client, Phase::kChanges)) return false;
  std::string refusal;
  std::shared_ptr<ScriptCall> script =
      context_.scripts.Call(command, arguments, client.is_resp3, refusal);
  if (script == nullptr) return AddError(client, refusal, &command);
  requests_.emplace_back(&client, &command, changes_.size(), kIsChange);
  const std::string_view key = script->keys().empty() ? std::string_view() : script->keys()[0];
  changes_.Add().ParseScript(std::move(script), key);
  write_bytes_ += BytesOfChange(command, context_.memory);
  return true;
}

bool Batch::AddLook(Client& client, const Command& command,
                    const std::vector<std::string_view>& arguments) {
  if (!Admit(client, Phase::kReads)) return false;
  ValueChange& look = looks_.Add();
  const std::string refusal = look.Parse(command, arguments, client.is_resp3);
  if (!refusal.empty()) {
    looks_.RemoveLast();
    return AddError(client, refusal, &command);
  }
  requests_.emplace_back(&client, &command, reads_.size(), looks_.size() - 1);
  reads_.push_back(look.key());
  items_along_.Read(look, looks_.size() - 1, reads_);
  return true;
}

std::vector<std::string_view> Batch::WordsOf(const Request& request) const {
  std::vector<std::string_view> words{request.command->name};
  const size_t end = request.first + request.keys();
  for (size_t i = request.first; i < end; ++i) {
    if (request.count == kIsChange) {
      words.push_back(changes_[i].key());
    } else if (request.IsRead()) {
      words.push_back(reads_[i]);
    } else if (request.command->kind == CommandKind::kDelete) {
      words.push_back(deletes_[i]);
    } else {
      words.insert(words.end(), {puts_[i].key, puts_[i].value});
    }
  }
  return words;
}

Task<void> Batch::Read(Session& session, size_t most_bytes, size_t most_keys) {
  most_keys_ = most_keys;
  has_large_lists_ = false;
  is_unread_ = reads_.size() > most_keys && AsksForMany();
  if (reads_.empty() || is_unread_) co_return;
  values_.set_most_bytes(most_bytes);
  co_await session.AsyncMultiGet(reads_, values_);
  if (!looks_.empty()) now_ms_ = session.StoreTimeMs();
  std::vector<LargeLook> large = co_await FindLarge(session, requests_, 0, reads_.size());
  if (large.empty()) co_return;
  std::erase_if(large, [this](const LargeLook& one) {
    const bool is_any = !one.look->composite()->IsOfItems();
    has_large_lists_ = has_large_lists_ || is_any;
    return is_any;
  });
  if (has_large_lists_) co_return;
  const bool are_read = co_await LargeRun::ReadItems(session, std::move(large), most_bytes);
  has_large_lists_ = !are_read;
}

Task<std::vector<LargeLook>> Batch::FindLarge(Session& session, Requests requests, size_t first,
                                              size_t end) {
  std::vector<LargeLook> found;
  const bool is_whole = first == 0 && end == reads_.size();
  for (const Request& request : requests) {
    if (!request.IsRead()) continue;
    const size_t behind = std::min(end, request.first + request.keys());
    for (size_t i = std::max(first, request.first); i < behind; ++i) {
      if (values_.is_left_out(i - first) || !values_.expiry(i - first).is_composite()) continue;
      const Result<std::string_view> value = values_[i - first];
      const std::optional<LargeHeader> header =
          value ? ParseLargeHeader(value.value()) : std::nullopt;
      if (!header || header->state == LargeHeader::State::kFilling) continue;
      if (header->state == LargeHeader::State::kPerhapsEmpty) {
        const Result<bool> is_empty = co_await LargeRun::IsEmpty(session, header->id);
        // If nobody knows, so does the answer.
        if (!is_empty) values_.Set(i - first, Result<std::string>(is_empty.error()));
        if (is_empty && is_empty.value()) {
          values_.Set(i - first, Result<std::string>(MakeError(Code::kNotFound)));
        }
        if (!is_empty || is_empty.value()) continue;
      }
      if (!request.IsLook()) continue;
      ValueChange& look = looks_[request.count];
      CompositeCommand* const command = look.composite();
      if (command == nullptr || command->type() != header->type) continue;
      context_.large_ids.Note(look.key(), header->id);
      // A part of long reads has its own places.
      if (is_whole && items_along_.Answer(look, request.count, *header, values_)) continue;
      found.push_back({&look, *header});
    }
  }
  co_return found;
}

Task<void> Batch::Write(Session& session) {
  if (!puts_.empty()) co_await RunPuts(session);
  if (!changes_.empty()) co_await RunChanges(session);
  if (!deletes_.empty()) co_await RunDeletes(session);
}

Task<void> Batch::RunDeletes(Session& session) {
  deletions_.assign(deletes_.size(), {});
  deletion_modifiers_.clear();
  for (size_t i = 0; i < deletes_.size(); ++i) {
    deletion_modifiers_.push_back({deletes_[i], &deletions_[i]});
  }
  delete_results_.assign(deletes_.size(), Ok());
  co_await session.AsyncMultiModify(deletion_modifiers_, delete_results_);
  for (size_t i = 0; i < deletes_.size(); ++i) {
    if (!delete_results_[i]) continue;
    bool is_deleted = deletions_[i].was_there();
    if (const std::optional<LargeHeader>& header = deletions_[i].perhaps_empty()) {
      const Result<bool> is_empty = co_await LargeRun::IsEmpty(session, header->id);
      is_deleted = is_empty && !is_empty.value();
      if (!is_empty) delete_results_[i] = is_empty.error();
    }
    if (delete_results_[i] && !is_deleted) delete_results_[i] = MakeError(Code::kNotFound);
  }
}

Task<void> Batch::RunPuts(Session& session) {
  put_results_.resize(puts_.size(), Ok());
  for (size_t first = 0, end = 0; first < puts_.size(); first = end) {
    size_t bytes = 0;
    while (end < puts_.size() && end - first < kMostPuts &&
           (end == first || bytes < kMostWritten)) {
      bytes += puts_[end++].value.size();
    }
    co_await session.AsyncMultiPut(std::span(puts_).subspan(first, end - first),
                                   std::span(put_results_).subspan(first, end - first));
  }
}

void Batch::GroupChanges(uint64_t now_ms) {
  // Nobody can choose keys that share a place.
  static const uint64_t seed = RandomId();
  key_changes_.clear();
  places_.assign(std::bit_ceil(2 * changes_.size()), 0);
  const size_t mask = places_.size() - 1;
  for (ValueChange& change : changes_.all()) {
    if (change.RunsAlone(now_ms)) continue;
    const auto is_its_own = [&](const KeyChanges& other) {
      return other.key_hash() == change.key_hash() && other.key() == change.key();
    };
    size_t at = SplitMix64::Mix(change.key_hash() ^ seed) & mask;
    while (places_[at] != 0 && !is_its_own(key_changes_[places_[at] - 1])) at = (at + 1) & mask;
    if (places_[at] != 0) {
      key_changes_[places_[at] - 1].Add(change);
    } else {
      key_changes_.emplace_back(change, ChangeTerms{now_ms, context_.max_key_bytes},
                                context_.memory);
      places_[at] = static_cast<uint32_t>(key_changes_.size());
    }
  }
}

Task<void> Batch::RunChanges(Session& session) {
  GroupChanges(session.StoreTimeMs());
  co_await change_run_.Run(session, key_changes_);
  uint64_t longest = 0;
  for (const KeyChanges& changes : key_changes_)
    longest = std::max(longest, changes.answer_bytes());
  context_.memory.Learn(longest);
}

void Batch::Answer() {
  for (const Request& request : requests_) AnswerOne(request);
}

void Batch::AnswerOne(const Request& request) {
  const size_t before = request.client->out.size();
  if (request.command == nullptr) {
    request.client->out.append(text_, request.first, request.count);
  } else if (request.IsRead()) {
    AnswerRead(request);
  } else if (request.count == kIsChange) {
    AnswerChange(request);
  } else {
    AnswerWrite(request);
  }
  const bool is_error = request.command != nullptr && request.client->out[before] == '-';
  if (is_error) failed_.push_back(request.command);
}

ReadReply Batch::ReplyTo(const Request& request, std::string& out) {
  ValueChange* const look = request.IsLook() ? &looks_[request.count] : nullptr;
  return {*request.command, request.keys(), look, out, request.client->is_resp3};
}

void Batch::AnswerRead(const Request& request) {
  std::string& out = request.client->out;
  ReadReply reply = ReplyTo(request, out);
  const size_t end = request.first + request.keys();
  for (size_t i = request.first; i < end && !reply.is_refused(); ++i)
    reply.Add(values_[i], values_.expiry(i), now_ms_);
  End(reply);
}

void Batch::End(ReadReply& reply) {
  reply.End();
  keys_found_ += reply.found();
  keys_absent_ += reply.absent();
}

void Batch::AnswerChange(const Request& request) const {
  ReplyWriter reply(request.client->out, request.client->is_resp3);
  const ValueChange& change = changes_[request.first];
  // GETDEL of a key that the store does not take: it is not there.
  const bool is_absent = !change.result && request.command->id == CommandId::kGetDel &&
                         change.result.error().code == Code::kInvalidArgument;
  if (change.result) {
    change.Answer(reply);
  } else if (is_absent) {
    reply.Null();
  } else {
    reply.Error(ErrorLine(change.result.error()));
  }
}

void Batch::AnswerWrite(const Request& request) const {
  ReplyWriter reply(request.client->out, request.client->is_resp3);
  const auto kind = request.command->kind;
  int64_t deleted = 0;
  for (size_t i = request.first; i < request.first + request.count; ++i) {
    const Status& result = kind == CommandKind::kPut ? put_results_[i] : delete_results_[i];
    // A key that the store does not take is not there to be deleted.
    const bool is_absent =
        !result &&
        (result.error().code == Code::kNotFound ||
         (kind == CommandKind::kDelete && result.error().code == Code::kInvalidArgument));
    if (!result && !is_absent) {
      reply.Error(ErrorLine(result.error()));
      return;
    }
    deleted += result ? 1 : 0;
  }
  if (kind == CommandKind::kPut) {
    reply.Ok();
  } else {
    reply.Integer(deleted);
  }
}

void Batch::Record(std::chrono::nanoseconds duration, WorkerMetrics::Worker& metrics,
                   SlowLog& slow_log) const {
  std::array<uint32_t, kMostCommands> times{};
  for (const Request& request : requests_) {
    if (request.command != nullptr) ++times[NumberOf(*request.command)];
  }
  for (const Command* const command : answered_) ++times[NumberOf(*command)];
  for (size_t i = 0; i < Commands().size(); ++i) {
    if (times[i] == 0) continue;
    metrics.RecordCommands(i, static_cast<uint64_t>(duration.count()), times[i]);
  }
  for (const Command* const command : failed_) metrics.RecordError(NumberOf(*command));
  ClientNumbers& numbers = metrics.numbers();
  for (const Command* const command : refused_) {
    if (command == nullptr) {
      ++numbers.unknown_requests;
    } else {
      metrics.RecordRejected(NumberOf(*command));
    }
  }
  numbers.keys_found += keys_found_;
  numbers.keys_absent += keys_absent_;
  if (!slow_log.IsSlow(duration)) return;
  for (const Requests requests : RequestsByClient()) {
    const Request& longest = *std::ranges::max_element(requests, {}, &Request::keys);
    if (longest.command == nullptr) continue;
    const ClientList::Entry& client = longest.client->entry();
    slow_log.Add(duration, WordsOf(longest), client.address(), client.name());
  }
}

// ---- Taken apart: clients that ask for nothing of the store, and those of which reads were left
// out (LongReads)

std::vector<Batch::Requests> Batch::RequestsByClient() const {
  std::vector<Requests> all;
  for (auto first = requests_.begin(); first != requests_.end();) {
    const auto end = std::find_if(first, requests_.end(), [first](const Request& request) {
      return request.client != first->client;
    });
    all.emplace_back(first, end);
    first = end;
  }
  return all;
}

std::vector<Client*> Batch::AnswerAtOnce() {
  std::vector<Client*> answered;
  if (at_once_ == 0 || at_once_ == clients_.size()) return answered;
  std::vector<Request> rest;
  clients_.clear();
  for (const Requests requests : RequestsByClient()) {
    const bool asks = std::ranges::any_of(
        requests, [](const Request& request) { return request.command != nullptr; });
    Client* const client = requests.front().client;
    (asks ? clients_ : answered).push_back(client);
    if (asks) {
      rest.insert(rest.end(), requests.begin(), requests.end());
    } else {
      for (const Request& request : requests) AnswerOne(request);
    }
  }
  requests_ = std::move(rest);
  at_once_ = 0;
  return answered;
}

size_t Batch::ReadsOf(Requests requests) {
  size_t reads = 0;
  for (const Request& request : requests) {
    if (request.IsRead()) reads += request.keys();
  }
  return reads;
}

bool Batch::AsksForMany() const {
  return std::ranges::any_of(RequestsByClient(),
                             [this](Requests one) { return ReadsOf(one) > most_keys_; });
}

bool Batch::IsLong(Requests requests) const {
  if (is_unread_) return ReadsOf(requests) > most_keys_;
  for (const Request& request : requests) {
    if (!request.IsRead()) continue;
    if (has_large_lists_ && IsLargeList(request)) return true;
    for (size_t i = request.first; i < request.first + request.keys(); ++i) {
      if (values_.is_left_out(i)) return true;
    }
  }
  return false;
}

// Whether it reads any items of a large composite.
bool Batch::IsLargeList(const Request& request) const {
  const CompositeCommand* const command =
      request.IsLook() ? looks_[request.count].composite() : nullptr;
  if (command == nullptr) return false;
  const Result<std::string_view> value = values_[request.first];
  return value && values_.expiry(request.first).is_composite() &&
         ParseLargeHeader(value.value()).has_value();
}

std::vector<std::unique_ptr<Batch>> Batch::Split() {
  std::vector<std::unique_ptr<Batch>> parts;
  auto others = std::make_unique<Batch>(context_);
  for (const Requests requests : RequestsByClient()) {
    const bool is_long = IsLong(requests);
    if (is_long) {
      parts.push_back(std::make_unique<Batch>(context_));
      parts.back()->has_large_lists_ = has_large_lists_;
    }
    Batch& to = is_long ? *parts.back() : *others;
    for (const Request& request : requests) to.Take(*this, request);
  }
  parts.push_back(std::move(others));
  parts.front()->answered_ = std::move(answered_);
  parts.front()->failed_ = std::move(failed_);
  parts.front()->refused_ = std::move(refused_);
  return parts;
}

void Batch::Take(const Batch& from, const Request& request) {
  if (!EndsWith(*request.client)) clients_.push_back(request.client);
  Request& own = requests_.emplace_back(request);
  const auto copy = [&own, &request](const auto& source, auto& target) {
    own.first = target.size();
    const auto first = source.begin() + static_cast<ptrdiff_t>(request.first);
    target.insert(target.end(), first, first + static_cast<ptrdiff_t>(request.keys()));
  };
  if (request.command == nullptr) {
    own.first = text_.size();
    text_.append(from.text_, request.first, request.count);
  } else if (request.count == kIsChange) {
    own.first = changes_.size();
    changes_.Add() = from.changes_[request.first];
  } else if (request.command->kind == CommandKind::kPut) {
    copy(from.puts_, puts_);
  } else if (request.command->kind == CommandKind::kDelete) {
    copy(from.deletes_, deletes_);
  } else {
    copy(from.reads_, reads_);
    if (!request.IsLook()) return;
    own.count = looks_.size();
    looks_.Add() = from.looks_[request.count];
  }
}

}  // namespace gossamer::gateway
