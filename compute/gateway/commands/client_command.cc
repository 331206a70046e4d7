// CLIENT, of which the connections of all workers are the subject.
#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "common/status.h"
#include "compute/gateway/commands/server_answers.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

// Errors of what follows: InvalidArgument, with the text of the error reply.
Error Wrong(std::string text) { return MakeError(Code::kInvalidArgument, std::move(text)); }
Error WrongSyntax() { return Wrong(std::string(kSyntaxError)); }

Result<uint64_t> ParseNumber(std::string_view text) {
  const std::optional<int64_t> number = ParseInteger(text);
  if (number && *number > 0) return static_cast<uint64_t>(*number);
  return Wrong("ERR client-id should be greater than 0");
}

// Every client here is a normal one, or listens to channels.
Status ParseType(std::string_view text, ClientList::Filter& filter) {
  const auto is_among = [text](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(names, [text](std::string_view one) { return IsWord(text, one); });
  };
  using Type = ClientList::Filter::Type;
  if (is_among({"master", "replica", "slave"})) {
    filter.type = Type::kNobody;
  } else if (is_among({"normal", "pubsub"})) {
    filter.type = IsWord(text, "pubsub") ? Type::kSubscriber : Type::kNormal;
  } else {
    return Wrong(fmt::format("ERR Unknown client type '{}'", text.substr(0, 64)));
  }
  return Ok();
}

// CLIENT LIST [TYPE type] [ID number...]
Result<ClientList::Filter> ParseListFilter(const std::vector<std::string_view>& arguments) {
  ClientList::Filter filter;
  if (arguments.size() == 2) return filter;
  if (arguments.size() == 4 && IsWord(arguments[2], "type")) {
    BOOST_OUTCOME_TRYV(ParseType(arguments[3], filter));
    return filter;
  }
  if (arguments.size() < 4 || !IsWord(arguments[2], "id")) return WrongSyntax();
  for (size_t i = 3; i < arguments.size(); ++i) {
    const std::optional<int64_t> number = ParseInteger(arguments[i]);
    if (!number) return Wrong("ERR Invalid client ID");
    // No client has the number 0, nor a negative one, as Redis knows.
    filter.numbers.push_back(static_cast<uint64_t>(std::max<int64_t>(*number, 0)));
  }
  std::ranges::sort(filter.numbers);
  return filter;
}

// CLIENT KILL [ID number] [TYPE type] [ADDR address] [LADDR address] [USER name] [SKIPME yes | no]
Result<ClientList::Filter> ParseKillFilter(const std::vector<std::string_view>& arguments,
                                           uint64_t self) {
  ClientList::Filter filter;
  filter.except = self;
  if (arguments.size() % 2 != 0) return WrongSyntax();
  for (size_t i = 2; i < arguments.size(); i += 2) {
    const std::string_view word = arguments[i];
    const std::string_view value = arguments[i + 1];
    if (IsWord(word, "id")) {
      BOOST_OUTCOME_TRY(number, ParseNumber(value));
      filter.numbers = {number};
    } else if (IsWord(word, "type")) {
      BOOST_OUTCOME_TRYV(ParseType(value, filter));
    } else if (IsWord(word, "addr")) {
      filter.address = value;
    } else if (IsWord(word, "laddr")) {
      filter.local_address = value;
    } else if (IsWord(word, "user")) {
      filter.user = value;
    } else if (IsWord(word, "skipme") && IsWord(value, "yes")) {
      filter.except = self;
    } else if (IsWord(word, "skipme") && IsWord(value, "no")) {
      filter.except = 0;
    } else {
      return WrongSyntax();
    }
  }
  return filter;
}

// CLIENT NO-EVICT, NO-TOUCH, REPLY and TRACKING: of each mode, what this gateway does anyway is
// accepted, as client libraries ask for it.
void AnswerMode(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  const auto is = [&arguments](std::string_view name) { return IsWord(arguments[1], name); };
  const bool is_on = IsWord(arguments[2], "on");
  const bool is_off = IsWord(arguments[2], "off");
  const bool is_skip = is("reply") && IsWord(arguments[2], "skip");
  const bool is_known = is_on || is_off || is_skip;
  if (!is_known) {
    reply.Error(kSyntaxError);
  } else if (is("tracking") && is_on) {
    reply.Error("ERR clients are not told of changes in Gossamer: CLIENT TRACKING stays off");
  } else if (is("reply") && !is_on) {
    reply.Error("ERR every request is answered in Gossamer: CLIENT REPLY stays on");
  } else {
    reply.Ok();  // no connection is evicted here, and no key's last use is noted
  }
}

}  // namespace

void AnswerClient(Client& client, const std::vector<std::string_view>& arguments, ClientList& list,
                  const Users& users, ClientList::Clock::time_point now) {
  ReplyWriter reply(client.out, client.is_resp3);
  const auto is = [&arguments](std::string_view name) { return IsWord(arguments[1], name); };
  if (is("id")) {
    reply.Integer(static_cast<int64_t>(client.number()));
  } else if (is("getname")) {
    const std::string name = client.entry().name();
    name.empty() ? reply.Null() : reply.Bulk(name);
  } else if (is("setname")) {
    if (IsClientName(arguments[2])) {
      client.entry().set_name(arguments[2]);
      reply.Ok();
    } else {
      reply.Error(kNoClientName);
    }
  } else if (is("setinfo")) {
    if (IsWord(arguments[2], "lib-name") || IsWord(arguments[2], "lib-ver")) {
      reply.Ok();  // and not kept
    } else {
      reply.Error("ERR Unrecognized option '" + std::string(arguments[2].substr(0, 64)) + "'");
    }
  } else if (is("no-evict") || is("no-touch") || is("reply") || is("tracking")) {
    AnswerMode(arguments, reply);
  } else if (is("info")) {
    client.entry().NoteActivity(now, client.unparsed_bytes(), client.unsent(), client.is_resp3);
    reply.Verbatim(list.LineOf(client.entry(), now));
  } else if (is("list")) {
    const Result<ClientList::Filter> filter = ParseListFilter(arguments);
    if (filter) {
      client.entry().NoteActivity(now, client.unparsed_bytes(), client.unsent(), client.is_resp3);
      reply.Verbatim(list.Lines(filter.value(), now));
    } else {
      reply.Error(filter.error().message);
    }
  } else if (is("kill") && arguments.size() == 3) {
    ClientList::Filter filter;
    filter.address = arguments[2];
    const auto [killed, has_self] = list.Kill(filter, client.entry());
    killed == 0 ? reply.Error("ERR No such client") : reply.Ok();
    client.is_closing = has_self;
  } else if (is("kill")) {
    const Result<ClientList::Filter> filter = ParseKillFilter(arguments, client.number());
    const std::vector<std::string> names = users.names();
    if (!filter) {
      reply.Error(filter.error().message);
    } else if (const auto user = filter.value().user;
               user && std::ranges::find(names, *user) == names.end()) {
      reply.Error("ERR No such user '" + std::string(*user) + "'");
    } else {
      const auto [killed, has_self] = list.Kill(filter.value(), client.entry());
      reply.Integer(static_cast<int64_t>(killed));
      client.is_closing = has_self;
    }
  }
}

}  // namespace gossamer::gateway
