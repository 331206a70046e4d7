#include "common/fabric/verbs/address.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace gossamer::verbs {
namespace {

Error BadAddress(std::string_view text, std::string_view why) {
  return MakeError(Code::kInvalidArgument, "'" + std::string(text) +
                                               "' is no address: " + std::string(why) +
                                               " (write ADDRESS:PORT, and IPv6 as [ADDRESS]:PORT)");
}

}  // namespace

uint16_t SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

bool SocketAddress::is_wildcard() const {
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string SocketAddress::ToString() const {
  std::array<char, NI_MAXHOST> host;
  if (getnameinfo(get(), sizeof storage, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) !=
      0) {
    return "an unprintable address";
  }
  const std::string name = host.data();
  return fmt::format("{}:{}", storage.ss_family == AF_INET6 ? "[" + name + "]" : name, port());
}

Result<SocketAddress> ParseSocketAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (port_text.empty() || error != std::errc{} || end != port_text.data() + port_text.size()) {
    return BadAddress(text, "its port is not a number up to 65535");
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text, "an IPv6 address stands in brackets");
  }
  if (host.empty()) return BadAddress(text, "it has no host");

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found);
  if (failure != 0) return BadAddress(text, gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.set_port(port);
  return address;
}

}  // namespace gossamer::verbs
