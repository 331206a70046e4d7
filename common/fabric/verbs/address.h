// ADDRESS:PORT as users write it and as sockets need it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::verbs {

// An IPv4 or IPv6 address with a port.
using SocketAddress = boost::asio::ip::tcp::endpoint;

// "192.0.2.1:7000" or "[2001:db8::1]:7000".
std::string ToString(const SocketAddress& address);

// Parses ADDRESS:PORT, where ADDRESS is a name, an IPv4 address, or an IPv6 address in [brackets].
// Errors: InvalidArgument with the reason.
Result<SocketAddress> ParseSocketAddress(std::string_view text);

}  // namespace gossamer::verbs
