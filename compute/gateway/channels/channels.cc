#include "compute/gateway/channels/channels.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "compute/gateway/protocol/glob.h"

namespace gossamer::gateway {

bool Mailbox::Put(Delivery delivery) {
  const size_t bytes = delivery.bytes();
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    const bool is_little = held_.bytes() + bytes <= kLittle;
    if (!is_little && !memory_.HasRoom(ClientMemory::Use::kAnswers, bytes)) return false;
    was_empty = deliveries_.empty();
    held_.Set(held_.bytes() + bytes);
    deliveries_.push_back(std::move(delivery));
    has_any_.store(true, std::memory_order_release);
  }
  // Behind the others of a mailbox, the worker has been woken for them, and has not looked yet.
  if (was_empty) inbox_.Wake();
  return true;
}

std::vector<Delivery> Mailbox::TakeSome(size_t most_bytes) {
  std::vector<Delivery> taken;
  size_t bytes = 0;
  const std::lock_guard lock(mutex_);
  while (!deliveries_.empty() && bytes < most_bytes) {
    bytes += deliveries_.front().bytes();
    taken.push_back(std::move(deliveries_.front()));
    deliveries_.pop_front();
  }
  held_.Set(held_.bytes() - bytes);
  has_any_.store(!deliveries_.empty(), std::memory_order_release);
  return taken;
}

Channels::Channels(ClientMemory& memory, Inboxes& inboxes, size_t workers) {
  for (size_t worker = 0; worker < workers; ++worker) {
    mailboxes_.emplace_back(memory, inboxes[worker]);
  }
}

uint64_t Channels::Add(ChannelKind kind, std::string_view name, size_t worker, uint64_t client) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++last_number_;
  tables_[static_cast<size_t>(kind)][std::string(name)].emplace(number, Subscriber{worker, client});
  subscriptions_.fetch_add(1, std::memory_order_release);
  return number;
}

void Channels::Remove(ChannelKind kind, std::string_view name, uint64_t subscription) {
  const std::lock_guard lock(mutex_);
  Table& table = tables_[static_cast<size_t>(kind)];
  const auto found = table.find(name);
  assert(found != table.end() && found->second.contains(subscription));
  found->second.erase(subscription);
  if (found->second.empty()) table.erase(found);
  subscriptions_.fetch_sub(1, std::memory_order_relaxed);
}

size_t Channels::Deliver(const Subscribers& to,
                         const std::shared_ptr<const ChannelMessage>& message) {
  size_t count = 0;
  for (const auto& [number, subscriber] : to) {
    if (mailboxes_[subscriber.worker].Put({subscriber.client, number, message})) ++count;
  }
  delivered_.fetch_add(count, std::memory_order_relaxed);
  lost_.fetch_add(to.size() - count, std::memory_order_relaxed);
  return count;
}

size_t Channels::Publish(ChannelKind kind, std::string_view channel, std::string_view text) {
  assert(kind != ChannelKind::kPattern);
  if (subscriptions_.load(std::memory_order_acquire) == 0) return 0;
  std::shared_ptr<const ChannelMessage> message;
  const auto make = [&]() -> const std::shared_ptr<const ChannelMessage>& {
    if (message == nullptr) {
      message = std::make_shared<const ChannelMessage>(std::string(channel), std::string(text));
    }
    return message;
  };
  size_t count = 0;
  const std::lock_guard lock(mutex_);
  const Table& own = table(kind);
  if (const auto found = own.find(channel); found != own.end()) {
    count += Deliver(found->second, make());
  }
  if (kind == ChannelKind::kShard) return count;
  for (const auto& [pattern, subscribers] : table(ChannelKind::kPattern)) {
    if (MatchesGlob(pattern, channel)) count += Deliver(subscribers, make());
  }
  return count;
}

std::vector<std::string> Channels::Names(ChannelKind kind, std::string_view pattern) const {
  std::vector<std::string> names;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, subscribers] : table(kind)) {
    if (pattern.empty() || MatchesGlob(pattern, name)) names.push_back(name);
  }
  return names;
}

size_t Channels::CountNames(ChannelKind kind) const {
  const std::lock_guard lock(mutex_);
  return table(kind).size();
}

size_t Channels::CountSubscribers(ChannelKind kind, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = table(kind).find(name);
  return found == table(kind).end() ? 0 : found->second.size();
}

void Channels::AddTo(Families& families) const {
  families.Gauge("gossamer_channel_subscriptions",
                 "Subscriptions of clients to channels and patterns.",
                 uint64_t{subscriptions_.load(std::memory_order_relaxed)});
  families.Counter("gossamer_channel_deliveries_total",
                   "Messages of channels for clients here, each as often as clients get it.",
                   delivered_.load(std::memory_order_relaxed));
  families.Counter("gossamer_channel_deliveries_lost_total",
                   "Those that were lost, as the memory for clients was full.",
                   lost_.load(std::memory_order_relaxed));
}

}  // namespace gossamer::gateway
