#include "common/admin/listen_address.h"

#include <arpa/inet.h>

#include <charconv>
#include <optional>

namespace gossamer {
namespace {

bool IsNumericAddress(int family, const std::string& host) {
  in6_addr address;  // the larger of the two
  return inet_pton(family, host.c_str(), &address) == 1;
}

in6_addr V6Of(const std::string& host) {
  in6_addr address{};
  inet_pton(AF_INET6, host.c_str(), &address);
  return address;
}

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
  const in6_addr address = V6Of(host);
  constexpr int kFirstOfV4 = 12;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (is_mapped_v4() && address.s6_addr[kFirstOfV4] == IN_LOOPBACKNET);
}

bool ListenAddress::is_mapped_v4() const {
  const in6_addr address = V6Of(host);
  return is_v6 && IN6_IS_ADDR_V4MAPPED(&address);
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
  if (!IsNumericAddress(is_v6 ? AF_INET6 : AF_INET, address.host)) return wrong;
  return address;
}

}  // namespace gossamer
