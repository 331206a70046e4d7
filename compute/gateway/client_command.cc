#include "compute/gateway/client_command.h"

#include <algorithm>
#include <string>

#include "compute/gateway/reply_writer.h"

namespace gossamer::gateway {

void AnswerClient(Client& client, const std::vector<std::string_view>& arguments, ClientList& list,
                  const Users& users, ClientList::Clock::time_point now) {
  ReplyWriter reply(client.out, client.is_resp3);
  const auto is = [&arguments](std::string_view name) { return IsWord(arguments[1], name); };
  if (is("id")) {
    reply.Integer(static_cast<int64_t>(client.number()));
  } else if (is("getname")) {
    const std::string name = client.entry().name();
    if (name.empty()) {
      reply.Null();
    } else {
      reply.Bulk(name);
    }
  } else if (is("setname")) {
    if (IsClientName(arguments[2])) {
      client.entry().set_name(arguments[2]);
      reply.Ok();
    } else {
      reply.Error(kNoClientName);
    }
  } else if (is("setinfo")) {
    reply.Ok();
  } else if (is("no-evict")) {
    if (IsWord(arguments[2], "on") || IsWord(arguments[2], "off")) {
      reply.Ok();  // nobody is evicted here
    } else {
      reply.Error("ERR syntax error");
    }
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
    if (killed == 0) {
      reply.Error("ERR No such client");
    } else {
      reply.Ok();
    }
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
