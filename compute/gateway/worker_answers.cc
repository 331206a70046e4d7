// What a worker answers without the store.
#include <chrono>
#include <string>
#include <utility>

#include "common/program/version.h"
#include "compute/gateway/reply_writer.h"
#include "compute/gateway/server_answers.h"
#include "compute/gateway/worker.h"

namespace gossamer::gateway {
namespace {

// Takes as long for every guess of the right length.
bool IsSecret(std::string_view guess, std::string_view secret) {
  if (guess.size() != secret.size()) return false;
  unsigned differing = 0;
  for (size_t i = 0; i < guess.size(); ++i) {
    differing |= static_cast<unsigned char>(guess[i]) ^ static_cast<unsigned char>(secret[i]);
  }
  return differing == 0;
}

}  // namespace

std::string Worker::AnswerAtOnce(const Client& client, const Command& command,
                                 const std::vector<std::string_view>& arguments) const {
  std::string text;
  ReplyWriter reply(text, client.is_resp3);
  switch (command.id) {
    case CommandId::kPing:
      if (arguments.size() > 2) {
        reply.Error(WrongNumberOfArguments(command));
      } else if (arguments.size() == 2) {
        reply.Bulk(arguments[1]);
      } else {
        reply.Simple("PONG");
      }
      break;
    case CommandId::kEcho: reply.Bulk(arguments[1]); break;
    case CommandId::kSelect:
      if (arguments[1] == "0") {
        reply.Simple("OK");
      } else {
        reply.Error("ERR DB index is out of range: Gossamer has database 0 only");
      }
      break;
    case CommandId::kConfig: AnswerConfig(arguments, shared_.options, reply); break;
    case CommandId::kCommand: AnswerCommand(arguments, reply); break;
    default: break;
  }
  return text;
}

void Worker::AnswerState(Client& client, const Command& command,
                         const std::vector<std::string_view>& arguments) {
  ReplyWriter reply(client.out, client.is_resp3);
  switch (command.id) {
    case CommandId::kAuth: {
      const std::string& password = shared_.options.password;
      const bool is_user = arguments.size() == 2 || arguments[1] == "default";
      if (arguments.size() > 3) {
        reply.Error("ERR syntax error");
      } else if (password.empty() && arguments.size() == 2) {
        reply.Error(
            "ERR AUTH <password> called without any password configured for the default user. Are "
            "you sure your configuration is correct?");
      } else if (is_user && (password.empty() || IsSecret(arguments.back(), password))) {
        client.is_authenticated = true;
        reply.Simple("OK");
      } else {
        reply.Error("WRONGPASS invalid username-password pair or user is disabled.");
      }
      break;
    }
    case CommandId::kHello: Hello(client, arguments); break;
    case CommandId::kInfo: {
      const auto uptime = std::chrono::duration_cast<std::chrono::seconds>(
          std::chrono::steady_clock::now() - shared_.started);
      reply.Bulk(InfoText(arguments, shared_.options, shared_.clients, uptime, all_metrics_));
      break;
    }
    case CommandId::kQuit:
      reply.Simple("OK");
      client.is_closing = true;
      break;
    case CommandId::kReset:
      client.is_resp3 = false;
      client.entry().set_name({});
      client.is_authenticated = shared_.options.password.empty();
      reply.Simple("RESET");
      break;
    case CommandId::kClient: AnswerClient(client, arguments); break;
    case CommandId::kSlowlog: shared_.slow_log.Answer(arguments, reply); break;
    default: break;
  }
}

// HELLO [version [AUTH user password] [SETNAME name]]
void Worker::Hello(Client& client, const std::vector<std::string_view>& arguments) {
  bool is_resp3 = client.is_resp3;
  bool is_authenticated = client.is_authenticated;
  std::optional<std::string_view> name;
  const auto fail = [&](std::string_view line) {
    ReplyWriter(client.out, client.is_resp3).Error(line);
  };
  if (arguments.size() > 1) {
    if (arguments[1] != "2" && arguments[1] != "3") {
      fail("NOPROTO unsupported protocol version");
      return;
    }
    is_resp3 = arguments[1] == "3";
  }
  for (size_t i = 2; i < arguments.size();) {
    if (IsWord(arguments[i], "auth") && i + 2 < arguments.size()) {
      const std::string& password = shared_.options.password;
      if (arguments[i + 1] != "default" ||
          (!password.empty() && !IsSecret(arguments[i + 2], password))) {
        fail("WRONGPASS invalid username-password pair or user is disabled.");
        return;
      }
      is_authenticated = true;
      i += 3;
    } else if (IsWord(arguments[i], "setname") && i + 1 < arguments.size()) {
      name = arguments[i + 1];
      if (!IsClientName(*name)) {
        fail(kNoClientName);
        return;
      }
      i += 2;
    } else {
      fail("ERR Syntax error in HELLO option '" + std::string(arguments[i].substr(0, 64)) + "'");
      return;
    }
  }
  if (!is_authenticated) {
    fail(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> "
        "option can be used to authenticate the client and select the RESP protocol version at the "
        "same time");
    return;
  }
  client.is_resp3 = is_resp3;
  client.is_authenticated = is_authenticated;
  if (name) client.entry().set_name(*name);
  ReplyWriter reply(client.out, is_resp3);
  reply.Map(7);
  reply.Bulk("server");
  reply.Bulk("gossamer");
  reply.Bulk("version");
  reply.Bulk(BuildVersion());
  reply.Bulk("proto");
  reply.Integer(is_resp3 ? 3 : 2);
  reply.Bulk("id");
  reply.Integer(static_cast<int64_t>(client.number()));
  reply.Bulk("mode");
  reply.Bulk("standalone");
  reply.Bulk("role");
  reply.Bulk("master");
  reply.Bulk("modules");
  reply.Array(0);
}

}  // namespace gossamer::gateway
