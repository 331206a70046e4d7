#include "compute/gateway/peers/peer_links.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "common/admin/listen_address.h"
#include "common/start_thread.h"
#include "compute/gateway/connection/listener.h"
#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {
namespace {

// How long the kernel tries to bring bytes to a machine that does not answer.
constexpr int kSilenceMs = 10'000;
constexpr int kIdleWaitMs = 200;

std::string ReasonOf(int error) { return std::generic_category().message(error); }

std::string FirstAddressOfMachine(bool is_v6) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (!is_v6 && one->ifa_addr->sa_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(*one->ifa_addr);
      const bool is_loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
      inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
      if (!is_loopback) return text.data();
    } else if (is_v6 && one->ifa_addr->sa_family == AF_INET6) {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(*one->ifa_addr);
      const bool is_of_link =
          IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0 || IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) != 0;
      inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
      if (!is_of_link) return text.data();
    }
  }
  return {};
}

struct PeerName {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

std::optional<PeerName> NameOf(const std::string& where) {
  PeerName name;
  if (IsPath(where)) {
    sockaddr_un path{};
    const std::string_view text = std::string_view(where).substr(kUnix.size());
    if (text.size() >= sizeof path.sun_path) return std::nullopt;
    path.sun_family = AF_UNIX;
    std::memcpy(path.sun_path, text.data(), text.size());
    std::memcpy(&name.address, &path, sizeof path);
    name.bytes = sizeof path;
    return name;
  }
  const Result<ListenAddress> address = ParseListenAddress(where);
  if (!address) return std::nullopt;
  std::memcpy(&name.address, &address.value().name, address.value().name_bytes());
  name.bytes = address.value().name_bytes();
  return name;
}

// Behind it, an ordinary connection of a Redis client is one of a peer.
std::string LoginOf(const Peer& peer) {
  std::string request;
  ReplyWriter writer(request, false);
  writer.Array(3);
  writer.Bulk("GOSSAMER.PEER");
  writer.Bulk("LOGIN");
  writer.Bulk(peer.token);
  return request;
}

}  // namespace

std::string PeerAddressOf(std::string_view addresses) {
  std::string first(addresses.substr(0, addresses.find(',')));
  Result<ListenAddress> address = ParseListenAddress(first);
  if (!address) return first;
  const bool is_any = address.value().host == "0.0.0.0" || address.value().host == "::";
  if (!is_any) return first;
  const std::string own = FirstAddressOfMachine(address.value().is_v6);
  const std::string port = std::to_string(address.value().port);
  if (own.empty()) return (address.value().is_v6 ? "[::1]:" : "127.0.0.1:") + port;
  return (address.value().is_v6 ? "[" + own + "]" : own) + ":" + port;
}

Status CheckPeerAddress(const std::string& where) {
  BOOST_OUTCOME_TRYV(IsLocal(where));
  const bool is_word = std::ranges::all_of(where, [](char c) { return c > ' ' && c <= '~'; });
  if (is_word) return Ok();
  return MakeError(Code::kInvalidArgument, "give an address or a path without blanks");
}

Result<std::unique_ptr<PeerLinks>> PeerLinks::Start(std::unique_ptr<Bootstrap> bootstrap,
                                                    const std::string& store, Peer self,
                                                    PeerQueue& queue) {
  std::unique_ptr<PeerLinks> links(
      new PeerLinks(std::move(bootstrap), store, std::move(self), queue));
  if (!links->epoll_.Open() || !queue.Open() || !links->epoll_.Watch(queue.fd(), EPOLLIN)) {
    return MakeError(Code::kUnsupported, "this process may open no more files: raise `ulimit -n`");
  }
  links->Look();
  BOOST_OUTCOME_TRY(sender, StartThread("send to peers", [&own = *links] { own.Run(); }));
  links->sender_ = std::move(sender);
  BOOST_OUTCOME_TRYV(links->looker_.Start("look for peers", [&own = *links] {
    while (own.looker_.Rest(kLook)) own.Look();
  }));
  return links;
}

PeerLinks::~PeerLinks() {
  looker_.Stop();
  is_stopping_.store(true, std::memory_order_release);
  if (sender_.joinable()) sender_.join();
  queue_.KeepIf(false);
  const Status left = self_.address.empty() ? Ok() : list_.Leave();
  if (!left)
    LOG(WARNING) << "this compute server stays in the list of peers: " << left.error().message;
}

// ---- Who they are

void PeerLinks::Look() {
  const Result<std::vector<Peer>> peers = list_.Look(Clock::now());
  if (!peers) {
    // The same one is told once.
    if (std::exchange(last_problem_, peers.error().message) != peers.error().message) {
      LOG(WARNING) << "peers stay as they were known: " << peers.error().message;
    }
    return;
  }
  last_problem_.clear();
  std::vector<Peer> found;
  for (const Peer& one : peers.value()) {
    const Result<bool> is_local = IsLocal(one.address);
    const bool is_reached = is_local && (!is_local.value() || one.host == self_.host);
    if (is_reached) {
      found.push_back(one);
    } else {
      LOG_EVERY_T(WARNING, 60) << "no messages of channels for the compute server at "
                               << one.address << " on " << one.host
                               << ": other machines do not reach it there; give it --peer";
    }
  }
  queue_.KeepIf(!found.empty());
  const std::lock_guard lock(mutex_);
  found_ = std::move(found);
}

void PeerLinks::UpdateLinks() {
  const std::lock_guard lock(mutex_);
  known_.store(found_.size(), std::memory_order_relaxed);
  for (const Peer& one : found_) {
    Link& link = links_.try_emplace(one.id).first->second;
    if (!link.socket) link.peer = one;
  }
  // One that is missing for a moment, as the bootstrap has lost the note, keeps its connection.
  std::erase_if(links_, [this](const auto& link) {
    const auto is_it = [&](const Peer& one) { return one.id == link.first; };
    return !link.second.socket && std::ranges::none_of(found_, is_it);
  });
}

// ---- Connections

void PeerLinks::Run() {
  std::array<epoll_event, 64> events;
  while (!is_stopping_.load(std::memory_order_acquire)) {
    const std::span<const epoll_event> found = epoll_.Wait(events, kIdleWaitMs);
    UpdateLinks();
    for (const epoll_event& event : found) Handle(event);
    uint64_t connected = 0;
    for (const auto& [id, link] : links_) connected += link.is_connected ? 1 : 0;
    connected_.store(connected, std::memory_order_relaxed);
  }
}

void PeerLinks::Handle(const epoll_event& event) {
  const int fd = event.data.fd;
  if (fd == queue_.fd()) return Forward(queue_.TakeAll());
  const auto found =
      std::ranges::find_if(links_, [fd](const auto& one) { return one.second.socket.get() == fd; });
  if (found == links_.end()) return;
  Link& link = found->second;
  if (!link.is_connected) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Close(link, ReasonOf(error));
    if ((event.events & EPOLLOUT) != 0) link.is_connected = true;
  }
  if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
    const std::string why = ReadAnswers(fd);
    if (!why.empty()) return Close(link, why);
    link.last_failure.clear();  // it has taken the login
  }
  if (link.is_connected) Send(link);
}

std::string PeerLinks::ReadAnswers(int fd) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return "it has closed the connection";
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? "" : ReasonOf(errno);
    // It answers the login, and nothing else but errors.
    const std::string_view text(bytes.data(), static_cast<size_t>(got));
    if (text.starts_with('-')) return std::string(text.substr(1, text.find('\r') - 1));
  }
}

void PeerLinks::Connect(Link& link) {
  assert(!link.socket);
  const std::optional<PeerName> name = NameOf(link.peer.address);
  if (!name) return Close(link, "that is no address");
  link.socket =
      UniqueFd(socket(name->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!link.socket) return Close(link, ReasonOf(errno));
  const int fd = link.socket.get();
  if (name->address.ss_family != AF_UNIX) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilenceMs, sizeof kSilenceMs);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  }
  const int done = connect(fd, reinterpret_cast<const sockaddr*>(&name->address), name->bytes);
  if (done != 0 && errno != EINPROGRESS) return Close(link, ReasonOf(errno));
  if (!epoll_.Watch(fd, EPOLLIN | EPOLLRDHUP | EPOLLOUT)) return Close(link, ReasonOf(errno));
  link.awaits_room = true;
  auto login = std::make_shared<const std::string>(LoginOf(link.peer));
  link.unsent_bytes = login->size();
  link.unsent.push_back(std::move(login));
}

void PeerLinks::Forward(const std::vector<PeerQueue::Request>& requests) {
  for (auto& [id, link] : links_) {
    if (!link.socket && Clock::now() >= link.retry_at) Connect(link);
    if (!link.socket) {
      lost_.fetch_add(requests.size(), std::memory_order_relaxed);
      continue;
    }
    for (const PeerQueue::Request& one : requests) {
      if (link.unsent_bytes + one->size() > kMostUnsent) {
        lost_.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      link.unsent_bytes += one->size();
      link.unsent.push_back(one);
    }
    if (link.is_connected) Send(link);
  }
}

void PeerLinks::Send(Link& link) {
  const int fd = link.socket.get();
  while (!link.unsent.empty()) {
    // Short messages leave together.
    std::array<iovec, 64> pieces;
    size_t count = 0;
    for (; count < std::min(pieces.size(), link.unsent.size()); ++count) {
      const std::string_view rest =
          std::string_view(*link.unsent[count]).substr(count == 0 ? link.sent : 0);
      pieces[count] = {const_cast<char*>(rest.data()), rest.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t done = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      return Close(link, ReasonOf(errno));
    }
    if (done < 0) break;
    auto left = static_cast<size_t>(done);
    link.unsent_bytes -= left;
    left += link.sent;
    while (!link.unsent.empty() && left >= link.unsent.front()->size()) {
      left -= link.unsent.front()->size();
      link.unsent.pop_front();
      sent_.fetch_add(1, std::memory_order_relaxed);
    }
    link.sent = left;
  }
  const bool awaits_room = !link.unsent.empty();
  if (awaits_room == link.awaits_room) return;
  link.awaits_room = awaits_room;
  epoll_.Change(fd, EPOLLIN | EPOLLRDHUP | (awaits_room ? uint32_t{EPOLLOUT} : 0));
}

void PeerLinks::Close(Link& link, const std::string& why) {
  if (std::exchange(link.last_failure, why) != why) {
    LOG(WARNING) << "no messages of channels for the compute server at " << link.peer.address
                 << " on " << link.peer.host << " for now: " << why;
  }
  lost_.fetch_add(link.unsent.size(), std::memory_order_relaxed);
  link.unsent.clear();
  link.unsent_bytes = link.sent = 0;
  link.socket = UniqueFd();
  link.is_connected = link.awaits_room = false;
  link.retry_at = Clock::now() + kRetry;
}

// ---- Figures

PeerLinks::Figures PeerLinks::figures() const {
  return {.peers = known_.load(std::memory_order_relaxed),
          .connected = connected_.load(std::memory_order_relaxed),
          .sent = sent_.load(std::memory_order_relaxed),
          .lost = lost_.load(std::memory_order_relaxed) + queue_.lost()};
}

void PeerLinks::AddTo(Families& families) const {
  const Figures now = figures();
  families.Gauge("gossamer_peers", "Other compute servers of the store.")
      .Add({{"state", "known"}}, now.peers)
      .Add({{"state", "connected"}}, now.connected);
  families
      .Counter("gossamer_peer_messages_total",
               "Messages of channels for other compute servers, each as often as there are such.")
      .Add({{"result", "sent"}}, now.sent)
      .Add({{"result", "lost"}}, now.lost);
}

nlohmann::ordered_json PeerLinks::State() const {
  const Figures now = figures();
  return {
      {"known", now.peers}, {"connected", now.connected}, {"sent", now.sent}, {"lost", now.lost}};
}

}  // namespace gossamer::gateway
