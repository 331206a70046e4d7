#include "compute/gateway/connection/client_list.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace gossamer::gateway {
namespace {

using NameOfSocket = int (*)(int, sockaddr*, socklen_t*);

// One end of a connection. Of a unix socket, only the listening end has a path.
std::string AddressOf(int socket, NameOfSocket name_of) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (name_of(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) return "?:0";
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    inet_ntop(AF_INET, &v4.sin_addr, host.data(), host.size());
    return fmt::format("{}:{}", host.data(), ntohs(v4.sin_port));
  }
  if (name.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
    inet_ntop(AF_INET6, &v6.sin6_addr, host.data(), host.size());
    return fmt::format("[{}]:{}", host.data(), ntohs(v6.sin6_port));
  }
  const auto& path = reinterpret_cast<const sockaddr_un&>(name);
  const size_t room = size > offsetof(sockaddr_un, sun_path) ? sizeof path.sun_path : 0;
  return fmt::format("{}:0", std::string_view(path.sun_path, strnlen(path.sun_path, room)));
}

std::string PeerOf(int socket) {
  const std::string peer = AddressOf(socket, getpeername);
  return peer == ":0" ? AddressOf(socket, getsockname) : peer;
}

int64_t SecondsBetween(ClientList::Clock::time_point from, ClientList::Clock::time_point to) {
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(to - from).count());
}

}  // namespace

ClientList::Entry::Entry(ClientList& list, uint64_t number, int socket)
    : list_(list),
      number_(number),
      socket_(socket),
      address_(PeerOf(socket)),
      local_address_(AddressOf(socket, getsockname)),
      connected_at_(Clock::now()),
      active_at_(connected_at_.time_since_epoch().count()) {
  const std::lock_guard lock(list_.mutex_);
  list_.entries_[number_] = this;
}

ClientList::Entry::~Entry() {
  const std::lock_guard lock(list_.mutex_);
  list_.entries_.erase(number_);
}

std::string ClientList::Entry::name() const {
  const std::lock_guard lock(list_.mutex_);
  return name_;
}

void ClientList::Entry::set_name(std::string_view name) {
  const std::lock_guard lock(list_.mutex_);
  name_ = name;
}

std::string ClientList::Entry::user() const {
  const std::lock_guard lock(list_.mutex_);
  return user_;
}

void ClientList::Entry::set_user(std::string_view user) {
  const std::lock_guard lock(list_.mutex_);
  user_ = user;
}

bool ClientList::Entry::is_subscriber() const {
  return std::ranges::any_of(
      subscriptions_, [](const auto& count) { return count.load(std::memory_order_relaxed) != 0; });
}

std::string ClientList::Entry::Line(Clock::time_point now) const {
  const std::string_view* const command = command_.load(std::memory_order_relaxed);
  const size_t unsent = unsent_.load(std::memory_order_relaxed);
  const Clock::time_point active(Clock::duration(active_at_.load(std::memory_order_relaxed)));
  std::string flags = is_subscriber() ? "P" : "";
  if (local_address_.starts_with('/')) flags += 'U';
  return fmt::format(
      "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub={} psub={} ssub={} "
      "multi=-1 qbuf={} obl={} oll=0 omem={} events=r cmd={} user={} redir=-1 resp={}\n",
      number_, address_, local_address_, socket_, name_, SecondsBetween(connected_at_, now),
      SecondsBetween(active, now), flags.empty() ? "N" : flags,
      subscriptions_[0].load(std::memory_order_relaxed),
      subscriptions_[1].load(std::memory_order_relaxed),
      subscriptions_[2].load(std::memory_order_relaxed), unparsed_.load(std::memory_order_relaxed),
      unsent, unsent, command == nullptr ? std::string_view("NULL") : *command, user_,
      is_resp3_.load(std::memory_order_relaxed) ? 3 : 2);
}

std::vector<ClientList::Entry*> ClientList::Find(const Filter& filter) const {
  std::vector<Entry*> found;
  using Type = Filter::Type;
  if (filter.type == Type::kNobody) return found;
  const auto is_meant = [&filter](const Entry& one) {
    return !one.is_killed() && one.number_ != filter.except &&
           (!filter.address || *filter.address == one.address_) &&
           (!filter.local_address || *filter.local_address == one.local_address_) &&
           (!filter.user || *filter.user == one.user_) &&
           (filter.type == Type::kAny ||
            (filter.type == Type::kSubscriber) == one.is_subscriber()) &&
           (filter.numbers.empty() || std::ranges::binary_search(filter.numbers, one.number_));
  };
  for (const auto& [number, entry] : entries_) {
    if (is_meant(*entry)) found.push_back(entry);
  }
  return found;
}

std::string ClientList::Lines(const Filter& filter, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  std::string lines;
  for (const Entry* const entry : Find(filter)) lines += entry->Line(now);
  return lines;
}

std::string ClientList::LineOf(const Entry& entry, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  return entry.Line(now);
}

std::pair<size_t, bool> ClientList::Kill(const Filter& filter, const Entry& self) {
  const std::lock_guard lock(mutex_);
  const std::vector<Entry*> found = Find(filter);
  bool has_self = false;
  for (Entry* const entry : found) {
    if (entry == &self) {
      has_self = true;
    } else {
      entry->is_killed_.store(true, std::memory_order_relaxed);
      shutdown(entry->socket_, SHUT_RDWR);
    }
  }
  return {found.size(), has_self};
}

bool IsClientName(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace gossamer::gateway
