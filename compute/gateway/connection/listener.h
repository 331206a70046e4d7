// Sockets on which a gateway listens.
//
// Thread-safety: none. Each worker has listeners of its own for an address (SO_REUSEPORT), so that
// all accept at the same time; all workers share that of a path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::gateway {

// A listening socket of a worker, or of several.
struct Listener {
  std::shared_ptr<const UniqueFd> socket;
  bool is_tls;
  int fd() const { return socket->get(); }
};

inline constexpr std::string_view kUnix = "unix:";

inline bool IsPath(std::string_view where) { return where.starts_with(kUnix); }

// Whether only this machine's processes reach a listener at "ADDRESS:PORT" or "unix:PATH".
// Errors: InvalidArgument, a sentence, if `where` is neither, or the path is too long.
Result<bool> IsLocal(const std::string& where);

// Listens at `where`, which IsLocal accepts, without blocking. A socket at PATH that nobody
// listens on is replaced.
// `shares`: others of this process listen on the same port.
// `mode`: who may connect to the socket at PATH; none: as the umask of this process has it.
// Errors: InvalidArgument, a sentence with the flag that gave the address: "cannot listen on
// 127.0.0.1:6379: Address already in use; give another --redis".
Result<UniqueFd> Listen(const std::string& where, bool shares, std::string_view flag,
                        std::optional<uint32_t> mode = {});

// Whether the port of `where` is free now. No client can connect meanwhile. Ok for a path.
// Errors: as of Listen.
Status CheckFree(const std::string& where, std::string_view flag);

// "127.0.0.1:6379", with the port that was chosen for port 0.
std::string AddressOf(const std::string& where, const UniqueFd& socket);

}  // namespace gossamer::gateway
