#include "compute/gateway/channels/subscribers.h"

#include <cassert>
#include <optional>

#include "compute/gateway/protocol/glob.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

// What a subscription takes beside its name, in the tables of the client and of the gateway.
constexpr size_t kSubscriptionBytes = 320;

// Whether a message must not be appended to the client's answers now.
bool HasRepliesToCome(const Client& client) { return client.is_busy || client.has_long_reads; }

std::string_view WordOfMessage(ChannelKind kind) {
  switch (kind) {
    case ChannelKind::kChannel: return "message";
    case ChannelKind::kPattern: return "pmessage";
    case ChannelKind::kShard: return "smessage";
  }
  return {};
}

}  // namespace

ChannelKind KindOf(const Command& command) {
  if (command.name == "psubscribe" || command.name == "punsubscribe") return ChannelKind::kPattern;
  const bool is_shard =
      command.name == "ssubscribe" || command.name == "sunsubscribe" || command.name == "spublish";
  return is_shard ? ChannelKind::kShard : ChannelKind::kChannel;
}

void AnswerPubSub(const std::vector<std::string_view>& arguments, const Channels& channels,
                  ReplyWriter& reply) {
  const std::string_view what = arguments[1];
  const bool is_shard = IsWord(what, "shardchannels") || IsWord(what, "shardnumsub");
  const ChannelKind kind = is_shard ? ChannelKind::kShard : ChannelKind::kChannel;
  if (IsWord(what, "channels") || IsWord(what, "shardchannels")) {
    const std::string_view pattern = arguments.size() > 2 ? arguments[2] : "*";
    if (arguments.size() > 3) return reply.Error(kSyntaxError);
    if (pattern.size() > kMostPatternBytes) return reply.Error(kPatternTooLong);
    const std::vector<std::string> names = channels.Names(kind, pattern);
    reply.Array(names.size());
    for (const std::string& name : names) reply.Bulk(name);
  } else if (IsWord(what, "numpat")) {
    reply.Integer(static_cast<int64_t>(channels.CountNames(ChannelKind::kPattern)));
  } else {
    reply.Array(2 * (arguments.size() - 2));
    for (size_t i = 2; i < arguments.size(); ++i) {
      reply.Bulk(arguments[i]);
      reply.Integer(static_cast<int64_t>(channels.CountSubscribers(kind, arguments[i])));
    }
  }
}

bool IsForSubscribers(const Command& command) {
  switch (command.id) {
    case CommandId::kSubscribe:
    case CommandId::kUnsubscribe:
    case CommandId::kPing:
    case CommandId::kQuit:
    case CommandId::kReset: return true;
    default: return false;
  }
}

std::string RefusalOfSubscriber(const Command& command, const Subcommand* subcommand) {
  return "ERR Can't execute '" +
         std::string(subcommand != nullptr ? subcommand->name : command.name) +
         "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
         "context";
}

// ---- What clients listen to

size_t Subscribers::Subscriber::CountFor(ChannelKind kind) const {
  const size_t shards = numbers[static_cast<size_t>(ChannelKind::kShard)].size();
  return kind == ChannelKind::kShard ? shards : subscriptions.size() - shards;
}

Subscribers::Subscriber* Subscribers::Find(const Client& client) {
  const auto found = subscribers_.find(client.number());
  return found == subscribers_.end() ? nullptr : &found->second;
}

void Subscribers::Answer(Client& client, const Command& command,
                         const std::vector<std::string_view>& arguments) {
  assert(!HasRepliesToCome(client));
  if (command.id == CommandId::kSubscribe) {
    Subscribe(client, command, arguments);
  } else {
    Unsubscribe(client, command, arguments);
  }
  Note(client);
}

void Subscribers::Subscribe(Client& client, const Command& command,
                            const std::vector<std::string_view>& arguments) {
  ReplyWriter reply(client.out, client.is_resp3);
  const ChannelKind kind = KindOf(command);
  size_t bytes = 0;
  for (size_t i = 1; i < arguments.size(); ++i) {
    bytes += arguments[i].size() + kSubscriptionBytes;
    if (kind == ChannelKind::kPattern && arguments[i].size() > kMostPatternBytes) {
      return reply.Error(kPatternTooLong);
    }
  }
  if (!memory_.HasRoom(ClientMemory::Use::kRequests, bytes)) {
    return reply.Error(
        "ERR the memory for clients (--client_memory) is full: nothing was subscribed to");
  }
  Subscriber& own = subscribers_.try_emplace(client.number(), client, memory_).first->second;
  auto& numbers = own.numbers[static_cast<size_t>(kind)];
  for (size_t i = 1; i < arguments.size(); ++i) {
    const auto [place, is_new] = numbers.try_emplace(std::string(arguments[i]), 0);
    if (is_new) {
      place->second = channels_.Add(kind, arguments[i], worker_, client.number());
      own.subscriptions[place->second] = {kind, &place->first};
      own.names_held.Set(own.names_held.bytes() + arguments[i].size() + kSubscriptionBytes);
    }
    reply.Push(3);
    reply.Bulk(command.name);
    reply.Bulk(arguments[i]);
    reply.Integer(static_cast<int64_t>(own.CountFor(kind)));
  }
}

void Subscribers::Remove(Subscriber& subscriber, ChannelKind kind, std::string_view name) {
  auto& numbers = subscriber.numbers[static_cast<size_t>(kind)];
  const auto found = numbers.find(name);
  if (found == numbers.end()) return;
  channels_.Remove(kind, name, found->second);
  subscriber.subscriptions.erase(found->second);
  subscriber.names_held.Set(subscriber.names_held.bytes() - name.size() - kSubscriptionBytes);
  numbers.erase(found);
}

void Subscribers::Unsubscribe(Client& client, const Command& command,
                              const std::vector<std::string_view>& arguments) {
  ReplyWriter reply(client.out, client.is_resp3);
  const ChannelKind kind = KindOf(command);
  Subscriber* const own = Find(client);
  const auto confirm = [&](std::optional<std::string_view> name) {
    if (own != nullptr && name) Remove(*own, kind, *name);
    reply.Push(3);
    reply.Bulk(command.name);
    reply.BulkOrNull(name);
    reply.Integer(own == nullptr ? 0 : static_cast<int64_t>(own->CountFor(kind)));
  };
  if (arguments.size() > 1) {
    for (size_t i = 1; i < arguments.size(); ++i) confirm(arguments[i]);
    return;
  }
  if (own == nullptr || own->numbers[static_cast<size_t>(kind)].empty()) return confirm({});
  std::vector<std::string> names;
  for (const auto& [name, number] : own->numbers[static_cast<size_t>(kind)]) names.push_back(name);
  for (const std::string& name : names) confirm(name);
}

void Subscribers::Note(Client& client) {
  const Subscriber* const own = Find(client);
  std::array<size_t, kChannelKinds> counts{};
  for (size_t kind = 0; own != nullptr && kind < kChannelKinds; ++kind) {
    counts[kind] = own->numbers[kind].size();
  }
  client.entry().NoteSubscriptions(counts);
  client.has_subscriptions = own != nullptr && own->count() != 0;
  if (own != nullptr && !client.has_subscriptions) End(client);
}

void Subscribers::End(Client& client) {
  const auto found = subscribers_.find(client.number());
  if (found == subscribers_.end()) return;
  for (const auto& [number, subscription] : found->second.subscriptions) {
    channels_.Remove(subscription.kind, *subscription.name, number);
  }
  subscribers_.erase(found);
  client.has_subscriptions = client.has_waiting_messages = false;
  client.entry().NoteSubscriptions({});
}

void Subscribers::EndAll() {
  while (!subscribers_.empty()) End(*subscribers_.begin()->second.client);
}

// ---- Messages

bool Subscribers::Append(Subscriber& to, const Subscription& subscription,
                         const ChannelMessage& message) {
  Client& client = *to.client;
  const size_t before = client.unsent() + to.waiting.size();
  const size_t after = before + message.channel.size() + message.text.size();
  const bool has_room = memory_.HasRoom(ClientMemory::Use::kAnswers, after - before);
  if (after > kMostWaiting || (!has_room && before > kLeastOfSlow)) return false;
  const bool must_wait = HasRepliesToCome(client);
  ReplyWriter push(must_wait ? to.waiting : client.out, client.is_resp3);
  const bool is_of_pattern = subscription.kind == ChannelKind::kPattern;
  push.Push(is_of_pattern ? 4 : 3);
  push.Bulk(WordOfMessage(subscription.kind));
  if (is_of_pattern) push.Bulk(*subscription.name);
  push.Bulk(message.channel);
  push.Bulk(message.text);
  if (must_wait) {
    client.has_waiting_messages = true;
    to.waiting_held.Set(to.waiting.capacity());
  }
  return true;
}

void Subscribers::Deliver(size_t most_bytes, const std::function<void(Client&)>& release,
                          const std::function<void(Client&)>& drop) {
  std::vector<uint64_t> got;
  for (const Delivery& one : channels_.mailbox(worker_).TakeSome(most_bytes)) {
    const auto found = subscribers_.find(one.client);
    if (found == subscribers_.end()) continue;
    Subscriber& subscriber = found->second;
    Client& client = *subscriber.client;
    const auto subscription = subscriber.subscriptions.find(one.subscription);
    if (subscription == subscriber.subscriptions.end() || client.is_closing || client.is_lost()) {
      continue;
    }
    if (!Append(subscriber, subscription->second, *one.message)) {
      drop(client);
    } else if (!HasRepliesToCome(client) && !std::exchange(subscriber.has_got, true)) {
      got.push_back(one.client);
    }
  }
  for (const uint64_t number : got) {
    const auto found = subscribers_.find(number);
    if (found == subscribers_.end()) continue;
    found->second.has_got = false;
    release(*found->second.client);
  }
}

void Subscribers::GiveWaiting(Client& client) {
  assert(client.has_waiting_messages && !HasRepliesToCome(client));
  Subscriber& own = *Find(client);
  client.out += own.waiting;
  own.waiting = {};
  own.waiting_held.Set(0);
  client.has_waiting_messages = false;
}

}  // namespace gossamer::gateway
