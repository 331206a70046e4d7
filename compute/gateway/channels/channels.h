// Channels: which clients of a gateway listen to which channels, and the way of messages to them.
//
// A client subscribes to channels, to patterns of channels, or to shard channels, which have names
// of their own. Publish finds the subscriptions that a message is for, and puts a delivery for each
// into the mailbox of the subscriber's worker, which appends it to the client's answers
// (Subscribers).
//
// Invariants:
//   - A subscription has a number that no other one ever has. A delivery names it, and is dropped
//     if the client has ended it meanwhile. So a client gets nothing that was published before it
//     subscribed, and nothing behind the confirmation that it has unsubscribed.
//   - What one thread publishes arrives in each mailbox in that order.
//   - A message is delivered at most once. It is lost if the memory for clients is full.
//
// Thread-safety: all calls from any thread. TakeSome is the mailbox's worker's.
// Cost: Publish without subscribers: a load. Otherwise a lock, a look into two tables, a comparison
// for each pattern, and a lock for each delivery.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/admin/metrics.h"
#include "compute/gateway/connection/client_memory.h"
#include "compute/gateway/connection/inbox.h"

namespace gossamer::gateway {

enum class ChannelKind : uint8_t { kChannel, kPattern, kShard };
inline constexpr size_t kChannelKinds = 3;

struct ChannelMessage {
  std::string channel;
  std::string text;
};

struct Delivery {
  uint64_t client;        // its number
  uint64_t subscription;  // likewise
  std::shared_ptr<const ChannelMessage> message;

  // What it takes, here and among the client's answers.
  size_t bytes() const { return message->channel.size() + message->text.size() + sizeof *this; }
};

// The deliveries for the clients of one worker.
class Mailbox {
 public:
  // Both outlive this. `inbox`: the worker's, which is woken.
  Mailbox(ClientMemory& memory, const Inbox& inbox)
      : memory_(memory), inbox_(inbox), held_(memory, ClientMemory::Use::kAnswers) {}

  // Deliveries that are taken in even if the memory for clients is full: a client that has not
  // taken its messages is disconnected when it gets one of them.
  static constexpr size_t kLittle = size_t{2} << 20;

  // Returns false, and does nothing, if there is no memory.
  bool Put(Delivery delivery);
  bool has_any() const { return has_any_.load(std::memory_order_acquire); }
  // The oldest ones, until they have `most_bytes`; one at least, if there is any.
  std::vector<Delivery> TakeSome(size_t most_bytes);

 private:
  ClientMemory& memory_;
  const Inbox& inbox_;
  std::atomic<bool> has_any_{false};
  std::mutex mutex_;
  std::deque<Delivery> deliveries_;  // and the next: guarded by mutex_
  ClientMemory::Holding held_;
};

class Channels {
 public:
  // Both outlive this.
  Channels(ClientMemory& memory, Inboxes& inboxes, size_t workers);

  // Returns the number of the new subscription, never 0.
  uint64_t Add(ChannelKind kind, std::string_view name, size_t worker, uint64_t client);
  // Requires: there is this subscription.
  void Remove(ChannelKind kind, std::string_view name, uint64_t subscription);

  // Returns how many subscriptions get the message. `kind`: kChannel or kShard.
  size_t Publish(ChannelKind kind, std::string_view channel, std::string_view text);

  // Those with a subscriber that match a pattern; "": all of them.
  std::vector<std::string> Names(ChannelKind kind, std::string_view pattern) const;
  size_t CountNames(ChannelKind kind) const;
  size_t CountSubscribers(ChannelKind kind, std::string_view name) const;

  Mailbox& mailbox(size_t worker) { return mailboxes_[worker]; }
  void AddTo(Families& families) const;

 private:
  struct Subscriber {
    size_t worker;
    uint64_t client;
  };
  using Subscribers = std::map<uint64_t, Subscriber>;  // by the subscription's number
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Table = std::unordered_map<std::string, Subscribers, Hash, std::equal_to<>>;

  const Table& table(ChannelKind kind) const { return tables_[static_cast<size_t>(kind)]; }
  // Returns to how many.
  size_t Deliver(const Subscribers& to, const std::shared_ptr<const ChannelMessage>& message);

  std::deque<Mailbox> mailboxes_;  // by the worker's number
  std::atomic<size_t> subscriptions_{0};
  std::atomic<uint64_t> delivered_{0};
  std::atomic<uint64_t> lost_{0};
  mutable std::mutex mutex_;
  uint64_t last_number_ = 0;  // and the next: guarded by mutex_
  std::array<Table, kChannelKinds> tables_;
};

}  // namespace gossamer::gateway
