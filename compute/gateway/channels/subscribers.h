// Subscribers: what the clients of one worker listen to, and the messages that they get.
//
// A message is appended between two whole replies. A client whose requests are in flight has
// replies to come, perhaps in parts: messages for it wait until its worker calls GiveWaiting.
// A client that does not take its messages is disconnected once more than kMostWaiting bytes wait
// for it, and earlier if the memory for clients is full.
//
// Thread-safety: none; the worker's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compute/gateway/channels/channels.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/connection/client.h"
#include "compute/gateway/connection/client_memory.h"
#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

// The kind of channel that a command of subscribers and publishers is about.
ChannelKind KindOf(const Command& command);

// PUBSUB.
void AnswerPubSub(const std::vector<std::string_view>& arguments, const Channels& channels,
                  ReplyWriter& reply);

// Whether a client of RESP2 that listens to channels may send this command. And the error reply,
// without the '-', to others; `subcommand` may be null.
bool IsForSubscribers(const Command& command);
std::string RefusalOfSubscriber(const Command& command, const Subcommand* subcommand);

class Subscribers {
 public:
  // As Redis's client-output-buffer-limit of these clients.
  static constexpr size_t kMostWaiting = size_t{32} << 20;
  // Of a client that is disconnected while the memory for clients is full.
  static constexpr size_t kLeastOfSlow = size_t{16} << 10;

  // Both outlive this. `worker`: its number.
  Subscribers(Channels& channels, ClientMemory& memory, size_t worker)
      : channels_(channels), memory_(memory), worker_(worker) {}

  // SUBSCRIBE and UNSUBSCRIBE in all forms. Appends the answers to the client's output. Requires:
  // no request of the client is in flight.
  void Answer(Client& client, const Command& command,
              const std::vector<std::string_view>& arguments);
  // The client listens to nothing any more. Tells it nothing.
  void End(Client& client);
  void EndAll();

  // Appends what is in the mailbox to the clients' output, up to `most_bytes`. Calls `release` for
  // each client that has got something, or `drop` if it is to be disconnected; both may call End.
  void Deliver(size_t most_bytes, const std::function<void(Client&)>& release,
               const std::function<void(Client&)>& drop);
  bool has_deliveries() const { return channels_.mailbox(worker_).has_any(); }
  // Appends messages that have waited. Requires: `client.has_waiting_messages`, and no request of
  // the client is in flight.
  void GiveWaiting(Client& client);

 private:
  struct Subscription {
    ChannelKind kind;
    const std::string* name;  // a key of `numbers`
  };
  struct Subscriber {
    Subscriber(Client& of, ClientMemory& memory)
        : client(&of),
          names_held(memory, ClientMemory::Use::kRequests),
          waiting_held(memory, ClientMemory::Use::kAnswers) {}

    size_t CountFor(ChannelKind kind) const;
    size_t count() const { return subscriptions.size(); }

    Client* client;
    std::array<std::map<std::string, uint64_t, std::less<>>, kChannelKinds> numbers;
    std::unordered_map<uint64_t, Subscription> subscriptions;
    std::string waiting;   // messages
    bool has_got = false;  // in this Deliver
    ClientMemory::Holding names_held;
    ClientMemory::Holding waiting_held;
  };

  void Subscribe(Client& client, const Command& command,
                 const std::vector<std::string_view>& arguments);
  void Unsubscribe(Client& client, const Command& command,
                   const std::vector<std::string_view>& arguments);
  void Remove(Subscriber& subscriber, ChannelKind kind, std::string_view name);
  // Notes what the client has now.
  void Note(Client& client);
  Subscriber* Find(const Client& client);
  // Appends a message. Returns false if the client has not taken earlier ones.
  bool Append(Subscriber& to, const Subscription& subscription, const ChannelMessage& message);

  Channels& channels_;
  ClientMemory& memory_;
  const size_t worker_;
  std::unordered_map<uint64_t, Subscriber> subscribers_;  // by the client's number
};

}  // namespace gossamer::gateway
