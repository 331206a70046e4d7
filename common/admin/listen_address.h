// The text ADDRESS:PORT of the flag --admin: a numeric address and a port to listen on.
//
// Thread-safety: no shared state. Cost: a few string operations.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer {

struct ListenAddress {
  std::string host;  // numeric, IPv6 without brackets
  uint16_t port = 0;
  bool is_v6 = false;
  // As the kernel takes it, and its size.
  union {
    sockaddr_in6 v6;  // the largest one: all of it is zeroed
    sockaddr_in v4;
    sockaddr any;
  } name = {};
  socklen_t name_bytes() const { return is_v6 ? sizeof name.v6 : sizeof name.v4; }

  // Whether only this machine's processes reach it.
  bool is_loopback() const;
  // Whether it is one of IPv4, written as IPv6: [::ffff:127.0.0.1]
  bool is_mapped_v4() const;
  // "127.0.0.1:7401", "[::1]:7401"
  std::string ToString() const;
};

// Names are refused: a name may stand for several addresses, and only what was given is bound.
// Errors: InvalidArgument, a sentence with the text and an example.
Result<ListenAddress> ParseListenAddress(std::string_view text);

}  // namespace gossamer
