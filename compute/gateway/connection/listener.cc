#include "compute/gateway/connection/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/admin/listen_address.h"

namespace gossamer::gateway {
namespace {

constexpr int kBacklog = 511;

Error CannotListen(const std::string& where, const std::string& why, std::string_view flag) {
  return MakeError(Code::kInvalidArgument, "cannot listen on " + where + ": " + why +
                                               "; give another " + std::string(flag));
}

// Removes a socket that a process left behind which has ended. Leaves all other files alone.
void RemoveDeadSocket(const sockaddr_un& name) {
  struct stat found{};
  if (lstat(name.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool is_dead =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
      errno == ECONNREFUSED;
  if (is_dead) unlink(name.sun_path);
}

Result<UniqueFd> ListenOnPath(const std::string& where, std::string_view flag,
                              std::optional<uint32_t> mode) {
  const std::string path = where.substr(kUnix.size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  RemoveDeadSocket(name);
  UniqueFd made(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // Before it listens, nobody can connect, whatever the umask.
  if (!made || bind(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      (mode && chmod(name.sun_path, *mode) != 0) || listen(made.get(), kBacklog) != 0) {
    const int error = errno;
    struct stat found{};
    const bool is_other =
        error == EADDRINUSE && lstat(name.sun_path, &found) == 0 && !S_ISSOCK(found.st_mode);
    return CannotListen(where, is_other ? "it exists and is not a socket" : std::strerror(error),
                        flag);
  }
  return made;
}

// A socket of its address, on which nobody listens yet.
Result<UniqueFd> Bind(const std::string& where, bool shares, std::string_view flag) {
  BOOST_OUTCOME_TRY(address, ParseListenAddress(where));
  UniqueFd made(socket(address.name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (made) {
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shares) setsockopt(made.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    // [::] is not all of IPv4, too. An address of IPv4 in the form of IPv6 is bound only without
    // this.
    const int only_v6 = address.is_v6 && !address.is_mapped_v4() ? 1 : 0;
    if (address.is_v6) setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  }
  if (!made || bind(made.get(), &address.name.any, address.name_bytes()) != 0) {
    return CannotListen(where, std::strerror(errno), flag);
  }
  return made;
}

}  // namespace

Result<bool> IsLocal(const std::string& where) {
  if (!IsPath(where)) {
    BOOST_OUTCOME_TRY(address, ParseListenAddress(where));
    return address.is_loopback();
  }
  constexpr size_t kMostBytes = sizeof(sockaddr_un::sun_path) - 1;
  const size_t bytes = where.size() - kUnix.size();
  if (bytes != 0 && bytes <= kMostBytes) return true;
  return MakeError(Code::kInvalidArgument, "the path of '" + where + "' has " +
                                               std::to_string(bytes) + " bytes: give one of 1 to " +
                                               std::to_string(kMostBytes));
}

Result<UniqueFd> Listen(const std::string& where, bool shares, std::string_view flag,
                        std::optional<uint32_t> mode) {
  if (IsPath(where)) return ListenOnPath(where, flag, mode);
  BOOST_OUTCOME_TRY(made, Bind(where, shares, flag));
  if (listen(made.get(), kBacklog) != 0) return CannotListen(where, std::strerror(errno), flag);
  return std::move(made);
}

Status CheckFree(const std::string& where, std::string_view flag) {
  if (IsPath(where)) return Ok();
  BOOST_OUTCOME_TRYV(Bind(where, false, flag));
  return Ok();
}

std::string AddressOf(const std::string& where, const UniqueFd& socket) {
  if (IsPath(where)) return where;
  ListenAddress address = ParseListenAddress(where).value();
  socklen_t size = address.name_bytes();
  getsockname(socket.get(), &address.name.any, &size);
  address.port = ntohs(address.is_v6 ? address.name.v6.sin6_port : address.name.v4.sin_port);
  return address.ToString();
}

}  // namespace gossamer::gateway
