// ADDRESS:PORT as users write it and as sockets need it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::verbs {

// An IPv4 or IPv6 address with a port.
struct SocketAddress {
  sockaddr_storage storage{};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  uint16_t port() const;
  void set_port(uint16_t port);
  bool is_wildcard() const;
  // "192.0.2.1:7000" or "[2001:db8::1]:7000".
  std::string ToString() const;
};

// Parses ADDRESS:PORT, where ADDRESS is a name, an IPv4 address, or an IPv6 address in [brackets].
// Errors: InvalidArgument with the reason.
Result<SocketAddress> ParseSocketAddress(std::string_view text);

}  // namespace gossamer::verbs
