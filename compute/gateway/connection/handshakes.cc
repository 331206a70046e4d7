#include "compute/gateway/connection/handshakes.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <string>

namespace gossamer::gateway {
namespace {

// The numeric address of the client; its port is of no use by the time that somebody reads the log.
std::string HostOf(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  // A connection that was reset has no peer any more.
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0) return "a client";
  const void* const address =
      name.ss_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr)
          : &reinterpret_cast<const sockaddr_in&>(name).sin_addr;
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(name.ss_family, address, text.data(), text.size()) == nullptr ? "a client"
                                                                                 : text.data();
}

}  // namespace

void Handshakes::Begin(const Client& client) {
  begun_.push_back({Clock::now() + kPatience, client.number(), client.fd()});
}

void Handshakes::LogFailure(int socket, std::string_view why) {
  LOG_EVERY_T(WARNING, 10)
      << "the TLS handshake of " << HostOf(socket) << " has failed: " << why
      << " (gossamer_client_tls_failures_total counts them; one in 10 s is logged)";
}

}  // namespace gossamer::gateway
