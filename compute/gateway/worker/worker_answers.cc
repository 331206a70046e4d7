// What a worker answers without the store.
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/version.h"
#include "compute/gateway/channels/peer_command.h"
#include "compute/gateway/commands/refusals.h"
#include "compute/gateway/commands/server_answers.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"
#include "compute/gateway/script/script.h"
#include "compute/gateway/worker/worker.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

// By the clock by which keys expire.
void AnswerTime(uint64_t store_time_ms, ReplyWriter& reply) {
  reply.Array(2);
  reply.Bulk(std::to_string(store_time_ms / 1000));
  reply.Bulk(std::to_string(store_time_ms % 1000 * 1000));
}

// SCRIPT LOAD source, EXISTS digest..., FLUSH, and what scripts that hold one key's lock at most
// need no more.
void AnswerScript(const std::vector<std::string_view>& arguments, ScriptCache& scripts,
                  ReplyWriter& reply) {
  const std::string_view what = arguments.size() > 1 ? arguments[1] : std::string_view();
  if (IsWord(what, "load")) {
    std::string refusal;
    const std::shared_ptr<const Script> script = scripts.Load(arguments[2], refusal);
    script == nullptr ? reply.Error(refusal) : reply.Bulk(script->sha1);
  } else if (IsWord(what, "exists")) {
    reply.Array(arguments.size() - 2);
    for (size_t i = 2; i < arguments.size(); ++i) reply.Integer(scripts.Has(arguments[i]) ? 1 : 0);
  } else if (IsWord(what, "flush")) {
    const bool is_right =
        arguments.size() == 2 ||
        (arguments.size() == 3 && (IsWord(arguments[2], "sync") || IsWord(arguments[2], "async")));
    if (!is_right) {
      return reply.Error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    }
    scripts.Clear();
    reply.Ok();
  } else if (IsWord(what, "kill")) {
    reply.Error("NOTBUSY No scripts in execution right now.");
  } else if (IsWord(what, "debug")) {
    reply.Error("ERR scripts are not debugged in Gossamer");
  }
}

// Makes `client` that user. Returns false, and changes nothing, if that is not the user's password.
bool LogIn(Client& client, std::string_view user, std::string_view password,
           const GatewayOptions& options, ClientNumbers& numbers) {
  if (!options.users.IsRight(user, password)) {
    ++numbers.failed_logins;
    return false;
  }
  client.entry().set_user(user);
  client.is_authenticated = true;
  client.LimitRequests(options.max_query_bytes);
  return true;
}

// AUTH [user] password
void Authenticate(Client& client, const std::vector<std::string_view>& arguments,
                  const GatewayOptions& options, ClientNumbers& numbers) {
  ReplyWriter reply(client.out, client.is_resp3);
  const std::string_view user = arguments.size() == 2 ? kDefaultUser : arguments[1];
  if (arguments.size() > 3) {
    reply.Error(kSyntaxError);
  } else if (options.users.empty() && arguments.size() == 2) {
    reply.Error(
        "ERR AUTH <password> called without any password configured for the default user. Are "
        "you sure your configuration is correct?");
  } else if (LogIn(client, user, arguments.back(), options, numbers)) {
    reply.Ok();
  } else {
    reply.Error(kWrongPassword);
  }
}

// HELLO [version [AUTH user password] [SETNAME name]]
void Hello(Client& client, const std::vector<std::string_view>& arguments,
           const GatewayOptions& options, ClientNumbers& numbers) {
  bool is_resp3 = client.is_resp3;
  std::optional<std::pair<std::string_view, std::string_view>> login;
  std::optional<std::string_view> name;
  const auto fail = [&](std::string_view line) {
    ReplyWriter(client.out, client.is_resp3).Error(line);
  };
  if (arguments.size() > 1) {
    if (!ParseInteger(arguments[1])) {
      return fail("ERR Protocol version is not an integer or out of range");
    }
    if (arguments[1] != "2" && arguments[1] != "3") {
      return fail("NOPROTO unsupported protocol version");
    }
    is_resp3 = arguments[1] == "3";
  }
  for (size_t i = 2; i < arguments.size();) {
    if (IsWord(arguments[i], "auth") && i + 2 < arguments.size()) {
      login = {arguments[i + 1], arguments[i + 2]};
      i += 3;
    } else if (IsWord(arguments[i], "setname") && i + 1 < arguments.size()) {
      name = arguments[i + 1];
      if (!IsClientName(*name)) return fail(kNoClientName);
      i += 2;
    } else {
      return fail("ERR Syntax error in HELLO option '" + std::string(arguments[i].substr(0, 64)) +
                  "'");
    }
  }
  if (login && !LogIn(client, login->first, login->second, options, numbers)) {
    return fail(kWrongPassword);
  }
  if (!client.is_authenticated) {
    return fail(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> "
        "option can be used to authenticate the client and select the RESP protocol version at the "
        "same time");
  }
  client.is_resp3 = is_resp3;
  if (name) client.entry().set_name(*name);
  ReplyWriter reply(client.out, is_resp3);
  reply.Map(7);
  reply.Pair("server", "gossamer");
  reply.Pair("version", BuildVersion());
  reply.Bulk("proto");
  reply.Integer(is_resp3 ? 3 : 2);
  reply.Bulk("id");
  reply.Integer(static_cast<int64_t>(client.number()));
  reply.Pair("mode", "standalone");
  reply.Pair("role", "master");
  reply.Bulk("modules");
  reply.Array(0);
}

}  // namespace

std::string Worker::AnswerAtOnce(const Client& client, const Command& command,
                                 const std::vector<std::string_view>& arguments) const {
  std::string text;
  ReplyWriter reply(text, client.is_resp3);
  switch (command.id) {
    case CommandId::kPing:
      if (arguments.size() > 2) {
        reply.Error(WrongNumberOfArguments(command.name));
      } else if (client.has_subscriptions && !client.is_resp3) {
        reply.Array(2);
        reply.Pair("pong", arguments.size() == 2 ? arguments[1] : std::string_view());
      } else if (arguments.size() == 2) {
        reply.Bulk(arguments[1]);
      } else {
        reply.Simple("PONG");
      }
      break;
    case CommandId::kPublish:
      shared_.peer_queue.Put(KindOf(command), arguments[1], arguments[2]);
      reply.Integer(static_cast<int64_t>(
          shared_.channels.Publish(KindOf(command), arguments[1], arguments[2])));
      break;
    case CommandId::kEcho: reply.Bulk(arguments[1]); break;
    case CommandId::kScript: AnswerScript(arguments, shared_.scripts, reply); break;
    case CommandId::kSelect:
      if (arguments[1] == "0") {
        reply.Ok();
      } else if (!ParseInteger(arguments[1])) {
        reply.Error(kNoInteger);
      } else {
        reply.Error("ERR DB index is out of range: Gossamer has database 0 only");
      }
      break;
    case CommandId::kConfig:
      AnswerConfig(arguments, shared_.options, shared_.identity.port, shared_.slow_log, reply);
      break;
    case CommandId::kTime: AnswerTime(session_->StoreTimeMs(), reply); break;
    case CommandId::kRole:
      reply.Array(3);
      reply.Bulk("master");
      reply.Integer(0);
      reply.Array(0);
      break;
    case CommandId::kWait:
      if (!ParseInteger(arguments[1])) {
        reply.Error(kNoInteger);
      } else if (const std::optional<int64_t> timeout = ParseInteger(arguments[2]); !timeout) {
        reply.Error("ERR timeout is not an integer or out of range");
      } else if (*timeout < 0) {
        reply.Error("ERR timeout is negative");
      } else {
        reply.Integer(0);  // there are no replicas to wait for
      }
      break;
    case CommandId::kCommand: AnswerCommand(arguments, reply); break;
    default: break;
  }
  return text;
}

void Worker::AnswerState(Client& client, const Command& command,
                         const std::vector<std::string_view>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const size_t before = client.out.size();
  ReplyWriter reply(client.out, client.is_resp3);
  switch (command.id) {
    case CommandId::kAuth:
      Authenticate(client, arguments, shared_.options, metrics_->numbers());
      break;
    case CommandId::kAcl:
      if (IsWord(arguments[1], "whoami")) {
        reply.Bulk(client.entry().user());
      } else {
        const std::vector<std::string> names = shared_.options.users.names();
        reply.Array(names.size());
        for (const std::string& name : names) reply.Bulk(name);
      }
      break;
    case CommandId::kHello: Hello(client, arguments, shared_.options, metrics_->numbers()); break;
    case CommandId::kInfo: {
      client.allowance = 1;  // it takes as long as hundreds of GETs: the next one waits for others
      metrics_->Publish(
          now_, session_->counters());  // so that what the client has been answered is counted
      reply.Verbatim(InfoText(arguments, shared_.options, shared_.identity,
                              {.clients = shared_.inboxes.CountClients(),
                               .keys = shared_.key_count.load(std::memory_order_relaxed),
                               .client_bytes = shared_.memory.held(ClientMemory::Use::kRequests) +
                                               shared_.memory.held(ClientMemory::Use::kAnswers),
                               .expired_keys = store_->counters().expired,
                               .channels = shared_.channels.CountNames(ChannelKind::kChannel),
                               .patterns = shared_.channels.CountNames(ChannelKind::kPattern),
                               .shard_channels = shared_.channels.CountNames(ChannelKind::kShard)},
                              all_metrics_));
      break;
    }
    case CommandId::kQuit:
      reply.Ok();
      client.is_closing = true;
      break;
    case CommandId::kReset:
      transactions_.End(client);
      subscribers_.End(client);
      client.is_resp3 = false;
      client.entry().set_name({});
      client.is_authenticated = shared_.options.users.empty();
      client.is_peer = false;
      client.entry().set_user(kDefaultUser);
      client.LimitRequests(shared_.options.max_query_bytes);
      reply.Simple("RESET");
      break;
    case CommandId::kClient:
      AnswerClient(client, arguments, shared_.client_list, shared_.options.users, now_);
      break;
    case CommandId::kSubscribe:
    case CommandId::kUnsubscribe: subscribers_.Answer(client, command, arguments); break;
    case CommandId::kPublish: reply.Raw(AnswerAtOnce(client, command, arguments)); break;
    case CommandId::kPeer:
      AnswerPeer(client, arguments, shared_.identity.peer_token, shared_.channels);
      client.LimitRequests(shared_.options.max_query_bytes);
      break;
    case CommandId::kPubSub: AnswerPubSub(arguments, shared_.channels, reply); break;
    case CommandId::kSlowlog: shared_.slow_log.Answer(arguments, reply); break;
    default: break;
  }
  metrics_->RecordCommand(NumberOf(command), std::chrono::steady_clock::now() - begin,
                          client.out.size() > before && client.out[before] == '-');
}

}  // namespace gossamer::gateway
