// CLIENT, of which the connections of all workers are the subject.
#include <algorithm>
#include <string>
#include <vector>

#include "compute/gateway/client_list.h"
#include "compute/gateway/reply_writer.h"
#include "compute/gateway/worker.h"

namespace gossamer::gateway {

void Worker::AnswerClient(Client& client, const std::vector<std::string_view>& arguments) {
  ReplyWriter reply(client.out, client.is_resp3);
  ClientList& list = shared_.client_list;
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
  } else if (is("setinfo") || is("no-evict")) {
    reply.Ok();
  } else if (is("info")) {
    reply.Bulk(list.LineOf(client.entry(), now_));
  } else if (is("list")) {
    const Result<ClientList::Filter> filter = ParseListFilter(arguments);
    if (filter) {
      reply.Bulk(list.Lines(filter.value(), now_));
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
    const std::vector<std::string> users = shared_.options.users.names();
    if (!filter) {
      reply.Error(filter.error().message);
    } else if (const auto user = filter.value().user;
               user && std::ranges::find(users, *user) == users.end()) {
      reply.Error("ERR No such user '" + std::string(*user) + "'");
    } else {
      const auto [killed, has_self] = list.Kill(filter.value(), client.entry());
      reply.Integer(static_cast<int64_t>(killed));
      client.is_closing = has_self;
    }
  }
}

}  // namespace gossamer::gateway
