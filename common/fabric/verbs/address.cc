#include "common/fabric/verbs/address.h"

#include <fmt/core.h>
#include <netdb.h>

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

std::string ToString(const SocketAddress& address) {
  const std::string host = address.address().to_string();
  return fmt::format("{}:{}", address.address().is_v6() ? "[" + host + "]" : host, address.port());
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
  address.resize(found->ai_addrlen);
  std::memcpy(address.data(), found->ai_addr, found->ai_addrlen);
  address.port(port);
  return address;
}

}  // namespace gossamer::verbs
