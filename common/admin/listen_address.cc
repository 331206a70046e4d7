#include "common/admin/listen_address.h"

#include <arpa/inet.h>

#include <charconv>
#include <optional>

namespace gossamer {
namespace {

std::optional<uint16_t> ParsePort(std::string_view text) {
  uint16_t port = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, port);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return port;
}

}  // namespace

bool ListenAddress::is_loopback() const {
  if (!is_v6) return host.starts_with("127.");
  constexpr int kFirstOfV4 = 12;
  return IN6_IS_ADDR_LOOPBACK(&name.v6.sin6_addr) ||
         (is_mapped_v4() && name.v6.sin6_addr.s6_addr[kFirstOfV4] == IN_LOOPBACKNET);
}

bool ListenAddress::is_mapped_v4() const {
  return is_v6 && IN6_IS_ADDR_V4MAPPED(&name.v6.sin6_addr);
}

std::string ListenAddress::ToString() const {
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<ListenAddress> ParseListenAddress(std::string_view text) {
  const Error wrong = MakeError(
      Code::kInvalidArgument,
      "'" + std::string(text) +
          "' is no ADDRESS:PORT: give a numeric address, such as 127.0.0.1:7401 or [::1]:7401");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  const auto port = ParsePort(text.substr(colon + 1));
  if (!port) return wrong;
  std::string_view host = text.substr(0, colon);
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_v6) host = host.substr(1, host.size() - 2);
  ListenAddress address{std::string(host), *port, is_v6};
  auto& name = address.name;
  if (is_v6) {
    name.v6.sin6_family = AF_INET6;
    name.v6.sin6_port = htons(*port);
  } else {
    name.v4.sin_family = AF_INET;
    name.v4.sin_port = htons(*port);
  }
  void* const bytes = is_v6 ? static_cast<void*>(&name.v6.sin6_addr) : &name.v4.sin_addr;
  if (inet_pton(name.any.sa_family, address.host.c_str(), bytes) != 1) return wrong;
  return address;
}

}  // namespace gossamer
