// Hot path: no allocation, no lock, no virtual call for a request.
#include "compute/gateway/batch.h"

#include "compute/gateway/reply_writer.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kSyntaxError = "-ERR syntax error\r\n";
constexpr std::string_view kNoExpiry =
    "-ERR keys do not expire in Gossamer: leave out EX, PX, EXAT, PXAT and KEEPTTL\r\n";
constexpr std::string_view kNoGet = "-ERR SET does not take GET here\r\n";

// Longer values are not kept for the next batch.
constexpr size_t kKeptBytes = size_t{1} << 20;

std::string_view CodeWord(Code code) {
  switch (code) {
    case Code::kExhausted: return "OOM";
    case Code::kContended:
    case Code::kFenced: return "TRYAGAIN";
    case Code::kNodeUnreachable: return "UNREACHABLE";
    case Code::kCorruption: return "CORRUPT";
    case Code::kMaybeApplied: return "MAYBEAPPLIED";
    default: return "ERR";
  }
}

}  // namespace

std::string ErrorLine(const Error& error) {
  std::string line(CodeWord(error.code));
  line += ' ';
  line += error.message.empty() ? std::string(CodeName(error.code)) : error.message;
  return line;
}

void Batch::Clear() {
  requests_.clear();
  clients_.clear();
  reads_.clear();
  puts_.clear();
  singles_.clear();
  deletes_.clear();
  text_.clear();
  if (answer_bytes_ > kKeptBytes) values_ = Values();
  answer_bytes_ = 0;
}

bool Batch::Admit(Client& client, Phase phase) {
  if (clients_.empty() || clients_.back() != &client) {
    clients_.push_back(&client);
  } else if (phase < phase_) {
    return false;
  }
  phase_ = phase;
  return true;
}

void Batch::AddAnswer(Client& client, std::string_view reply) {
  if (clients_.empty() || clients_.back() != &client) {
    clients_.push_back(&client);
    phase_ = Phase::kReads;
  }
  requests_.push_back({&client, nullptr, text_.size(), reply.size()});
  text_ += reply;
}

bool Batch::Add(Client& client, const Command& command,
                const std::vector<std::string_view>& arguments) {
  switch (command.kind) {
    case CommandKind::kRead: {
      if (!Admit(client, Phase::kReads)) return false;
      requests_.push_back({&client, &command, reads_.size(), arguments.size() - 1});
      reads_.insert(reads_.end(), arguments.begin() + 1, arguments.end());
      return true;
    }
    case CommandKind::kPut: {
      if (command.id == CommandId::kSet) return AddSet(client, command, arguments);
      if (arguments.size() % 2 == 0) {
        AddAnswer(client, "-ERR wrong number of arguments for 'mset' command\r\n");
        return true;
      }
      if (!Admit(client, Phase::kPuts)) return false;
      requests_.push_back({&client, &command, puts_.size(), arguments.size() / 2});
      for (size_t i = 1; i < arguments.size(); i += 2) {
        puts_.push_back({arguments[i], arguments[i + 1]});
      }
      return true;
    }
    case CommandKind::kSingle: {
      if (!Admit(client, Phase::kSingles)) return false;
      requests_.push_back({&client, &command, singles_.size(), 1});
      singles_.push_back({arguments[1], arguments[2]});
      return true;
    }
    case CommandKind::kDelete: {
      if (!Admit(client, Phase::kDeletes)) return false;
      requests_.push_back({&client, &command, deletes_.size(), arguments.size() - 1});
      deletes_.insert(deletes_.end(), arguments.begin() + 1, arguments.end());
      return true;
    }
    default: return false;
  }
}

// SET key value [NX | XX]
bool Batch::AddSet(Client& client, const Command& command,
                   const std::vector<std::string_view>& arguments) {
  bool must_be_absent = false;
  bool must_exist = false;
  for (size_t i = 3; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    std::string_view refusal;
    if (IsWord(option, "nx")) {
      must_be_absent = true;
    } else if (IsWord(option, "xx")) {
      must_exist = true;
    } else if (IsWord(option, "get")) {
      refusal = kNoGet;
    } else if (IsWord(option, "ex") || IsWord(option, "px") || IsWord(option, "exat") ||
               IsWord(option, "pxat") || IsWord(option, "keepttl")) {
      refusal = kNoExpiry;
    } else {
      refusal = kSyntaxError;
    }
    if (must_be_absent && must_exist) refusal = kSyntaxError;
    if (refusal.empty()) continue;
    AddAnswer(client, refusal);
    return true;
  }
  const bool is_plain = !must_be_absent && !must_exist;
  if (!Admit(client, is_plain ? Phase::kPuts : Phase::kSingles)) return false;
  if (is_plain) {
    requests_.push_back({&client, &command, puts_.size(), 1});
    puts_.push_back({arguments[1], arguments[2]});
  } else {
    // More than one: of a SET that may answer with a null.
    requests_.push_back({&client, &command, singles_.size(), 0});
    singles_.push_back({arguments[1], arguments[2], must_exist});
  }
  return true;
}

Task<void> Batch::Run(Session& session) {
  if (!reads_.empty()) co_await session.AsyncMultiGet(reads_, values_);
  if (!puts_.empty()) {
    put_results_.assign(puts_.size(), Ok());
    co_await session.AsyncMultiPut(puts_, put_results_);
  }
  for (Single& single : singles_) {
    if (single.must_exist) {
      single.result = co_await session.AsyncUpdate(single.key, single.value);
    } else {
      single.result = co_await session.AsyncInsert(single.key, single.value);
    }
  }
  if (!deletes_.empty()) {
    delete_results_.assign(deletes_.size(), Ok());
    co_await session.AsyncMultiDelete(deletes_, delete_results_);
  }
}

void Batch::Answer() {
  for (const Request& request : requests_) {
    const size_t before = request.client->out.size();
    if (request.command == nullptr) {
      request.client->out.append(text_, request.first, request.count);
    } else if (request.command->kind == CommandKind::kRead) {
      AnswerRead(request);
    } else {
      AnswerWrite(request);
    }
    answer_bytes_ += request.client->out.size() - before;
  }
}

void Batch::AnswerRead(const Request& request) const {
  ReplyWriter reply(request.client->out, request.client->is_resp3);
  const CommandId id = request.command->id;
  if (id == CommandId::kMget) reply.Array(request.count);
  int64_t found = 0;
  for (size_t i = request.first; i < request.first + request.count; ++i) {
    const Result<std::string_view> value = values_[i];
    const bool is_absent = !value && value.error().code == Code::kNotFound;
    if (!value && !is_absent) {
      reply.Error(ErrorLine(value.error()));
      if (id == CommandId::kExists) return;
      continue;
    }
    switch (id) {
      case CommandId::kExists: found += is_absent ? 0 : 1; break;
      case CommandId::kStrlen:
        reply.Integer(is_absent ? 0 : static_cast<int64_t>(value.value().size()));
        break;
      case CommandId::kType: reply.Simple(is_absent ? "none" : "string"); break;
      default:
        if (is_absent) {
          reply.Null();
        } else {
          reply.Bulk(value.value());
        }
    }
  }
  if (id == CommandId::kExists) reply.Integer(found);
}

void Batch::AnswerWrite(const Request& request) const {
  ReplyWriter reply(request.client->out, request.client->is_resp3);
  const auto kind = request.command->kind;
  const bool is_set_by_itself = kind == CommandKind::kPut && request.count == 0;
  if (kind == CommandKind::kSingle || is_set_by_itself) {
    const Status& result = singles_[request.first].result;
    const bool is_refused = !result && (result.error().code == Code::kNotFound ||
                                        result.error().code == Code::kAlreadyExists);
    if (!result && !is_refused) {
      reply.Error(ErrorLine(result.error()));
    } else if (kind == CommandKind::kSingle) {
      reply.Integer(is_refused ? 0 : 1);
    } else if (is_refused) {
      reply.Null();
    } else {
      reply.Simple("OK");
    }
    return;
  }
  int64_t deleted = 0;
  for (size_t i = request.first; i < request.first + request.count; ++i) {
    const Status& result = kind == CommandKind::kPut ? put_results_[i] : delete_results_[i];
    const bool is_absent = !result && result.error().code == Code::kNotFound;
    if (!result && !is_absent) {
      reply.Error(ErrorLine(result.error()));
      return;
    }
    deleted += result ? 1 : 0;
  }
  if (kind == CommandKind::kPut) {
    reply.Simple("OK");
  } else {
    reply.Integer(deleted);
  }
}

}  // namespace gossamer::gateway
