// The control side of the shm fabric: Unix SOCK_SEQPACKET sockets and their messages.
//
// A connection is one queue pair. The client opens it with a Hello. The server answers with a
// Welcome that carries file descriptors: queue pair page, region and lock table for a client in
// another process, the page alone for one in its own. After that the client sends Calls and gets as
// many back, in order. All descriptors are close-on-exec, and no write raises SIGPIPE.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/shm/handles.h"
#include "common/fabric/work_request.h"

namespace gossamer::shm {

inline constexpr uint32_t kMagic = 0x67736d33;  // "gsm3": changes with these messages or the page

enum class HelloKind : uint32_t { kProbe, kQueuePair };

struct Hello {
  uint32_t magic = kMagic;
  HelloKind kind = HelloKind::kProbe;  // kProbe: map the memory only
  uint64_t client_uuid = 0;
  uint64_t incarnation = 0;  // the server's, as the client expects it; 0: any
  // Queue pairs of this client to destroy before this one is opened, or 0: the replaced one, and
  // another.
  uint64_t old_queue_pair = 0;
  uint64_t other_queue_pair = 0;
};

struct Welcome {
  uint32_t magic = kMagic;
  uint32_t accepted = 0;
  uint32_t in_process = 0;
  uint32_t code = 0;  // the error Code, if not accepted
  uint64_t incarnation = 0;
  uint64_t token = 0;  // of the server's memory
  uint64_t queue_pair = 0;
  uint64_t page_at = 0;  // of the queue pair, in its file
  uint64_t region_bytes = 0;
  uint64_t lock_table_bytes = 0;
  std::array<char, 128> reason{};
};

struct Call {
  uint32_t sequence = 0;
  uint32_t bytes = 0;
  std::array<std::byte, kMaxControlBytes> payload;
};
inline constexpr size_t kCallHeaderBytes = offsetof(Call, payload);

// Calls sent and not answered on one queue pair; far fewer than a socket buffer holds.
inline constexpr uint32_t kMaxCallsInFlight = 32;

enum class Transfer : uint8_t { kDone, kWouldBlock, kLost };

// Sends one message whole or not at all. Does not block if `wait` is false.
Transfer SendMessage(const UniqueFd& socket, std::span<const std::byte> message,
                     std::span<const int> fds, bool wait);
// Receives one message and sets `bytes` to its length. Truncates longer messages. Closes
// descriptors beyond `fds->size()`; without `fds`, all.
Transfer ReceiveMessage(const UniqueFd& socket, std::span<std::byte> message, size_t* bytes,
                        std::vector<UniqueFd>* fds, bool wait);

// Returns a connected socket, or none if the listener's queue is full. Does not block. Errors:
// NodeUnreachable if no server listens.
Result<UniqueFd> ConnectSocket(const std::string& path);

// The process at the other end. Returns: its id; 0 if the kernel does not say.
pid_t PeerPid(const UniqueFd& socket);
// Returns: a pidfd of the peer, whose id is `pid`. Empty if the kernel cannot name it, or without a
// free descriptor (errno).
UniqueFd PeerProcess(const UniqueFd& socket, pid_t pid);
// Whether the process has ended. `process`: a pidfd; empty: false.
bool ProcessEnded(const UniqueFd& process);
// Whether the peer has closed its end.
bool HungUp(const UniqueFd& socket);

// A path that this process listens on. A lock file beside it distinguishes a live owner from a
// stale path.
class ListeningSocket {
 public:
  // Binds; clients can connect only after `Listen`. Empty path: a fresh one, after removing what
  // dead servers left beside it. Errors: InvalidArgument when a live server owns the path, or it is
  // unusable.
  static Result<ListeningSocket> Bind(const std::string& path);
  ListeningSocket(ListeningSocket&&) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  Status Listen();
  // Refuses new connections and those not yet accepted.
  void Close();
  // The peer at the head of the queue; empty if there is none (EAGAIN) or on error (errno).
  UniqueFd Accept();
  const std::string& path() const { return path_; }
  int fd() const { return socket_.get(); }

 private:
  ListeningSocket() = default;
  // Takes over the lock of `path`.
  static Result<ListeningSocket> BindLocked(const std::string& path, UniqueFd lock_file);

  UniqueFd lock_file_;
  UniqueFd socket_;
  std::string path_;
};

}  // namespace gossamer::shm
