#include "common/fabric/shm_memory_port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

namespace gossamer::shm {
namespace {

// What an epoll event is about: a connection's socket, its process, or one of these.
constexpr uint64_t kListenerTag = 0;
constexpr uint64_t kStopTag = 1;
constexpr uint64_t SocketTag(uint64_t id) { return id << 1; }
constexpr uint64_t ProcessTag(uint64_t id) { return id << 1 | 1; }

constexpr int kMessagesPerTurn = 64;  // of one connection, before others have theirs

// The process at the other end.
pid_t PeerPid(const UniqueFd& socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return 0;
  return credentials.pid;
}

UniqueFd PeerProcess(const UniqueFd& socket, pid_t pid) {
#if defined(SO_PEERPIDFD)
  constexpr int kPeerPidFd = SO_PEERPIDFD;
#else
  constexpr int kPeerPidFd =
      77;  // since Linux 6.5: exact even when the process has ended meanwhile
#endif
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (::getsockopt(socket.get(), SOL_SOCKET, kPeerPidFd, &fd, &bytes) == 0) return UniqueFd(fd);
  if (pid <= 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
}

bool ProcessEnded(const UniqueFd& process) {
  if (!process) return false;
  pollfd event{process.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

}  // namespace

Result<std::unique_ptr<MemoryPort>> ShmMemoryPort::Open(const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRY(memory, SharedMemory::Create(options));
  BOOST_OUTCOME_TRY(listener, ListeningSocket::Bind(options.listen));
  return std::unique_ptr<MemoryPort>(
      new ShmMemoryPort(options, std::move(memory), std::move(listener)));
}

ShmMemoryPort::~ShmMemoryPort() { Stop(); }

std::span<std::byte> ShmMemoryPort::region() {
  const SpaceView& view = memory_->view(Space::kRegion);
  return {view.data, view.bytes};
}

bool ShmMemoryPort::Watch(int fd, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Status ShmMemoryPort::Start(ControlHandler& handler) {
  if (handler_ != nullptr) return MakeError(Code::kInvalidArgument, "memory port started twice");
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  stop_event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!epoll_ || !stop_event_ || !Watch(stop_event_.get(), kStopTag) ||
      !Watch(listener_.fd(), kListenerTag)) {
    return MakeError(Code::kUnsupported, ErrnoText("control thread of a memory port"));
  }
  BOOST_OUTCOME_TRYV(listener_.Listen());
  handler_ = &handler;
  thread_ = std::thread([this] { Serve(); });
  return Ok();
}

void ShmMemoryPort::Stop() {
  if (stopped_ || !thread_.joinable()) return;
  stopped_ = true;
  const uint64_t one = 1;
  // An eventfd takes 8 bytes or fails on a broken invariant only; the thread would not end then.
  if (::write(stop_event_.get(), &one, sizeof one) != sizeof one) std::abort();
  thread_.join();
  listener_.Close();
  // All at once, then each in turn: waiting for one does not let the others go on.
  for (auto& [id, connection] : connections_) {
    if (connection.is_queue_pair()) connection.page()->closed.store(1);
  }
  for (auto& [id, connection] : connections_) Quiesce(connection);
  connections_.clear();
  queue_pairs_.clear();
}

void ShmMemoryPort::Quiesce(Connection& connection) {
  if (!connection.is_queue_pair()) return;
  QueuePairPage& page = *connection.page();
  page.closed.store(1);  // seq_cst, against the client's busy: one of the two sees the other's
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.connection_timeout_ms);
  while (page.busy.load() != 0 && !ProcessEnded(connection.process) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  if (ProcessEnded(connection.process)) FinishWrite(page.journal, *memory_);
}

void ShmMemoryPort::Serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
      if (tag == kStopTag) return;
      if (tag == kListenerTag) {
        Accept();
        continue;
      }
      // An event of this round may be about a connection that an earlier one destroyed.
      const ConnectionId id = tag >> 1;
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (tag == ProcessTag(id) || !Receive(id, found->second)) Destroy(id);
    }
  }
}

void ShmMemoryPort::Accept() {
  while (UniqueFd socket = listener_.Accept()) {
    const ConnectionId id = next_id_++;
    Connection connection;
    const pid_t pid = PeerPid(socket);
    connection.in_process = pid == ::getpid();
    connection.process = PeerProcess(socket, pid);
    connection.socket = std::move(socket);
    if (!Watch(connection.socket.get(), SocketTag(id))) continue;
    // Its own process needs no watching: nobody would be left to watch.
    if (connection.process && !connection.in_process &&
        !Watch(connection.process.get(), ProcessTag(id))) {
      continue;
    }
    connections_.emplace(id, std::move(connection));
  }
}

bool ShmMemoryPort::Receive(ConnectionId id, Connection& connection) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    Call call;
    size_t bytes = 0;
    const auto buffer = std::as_writable_bytes(std::span(&call, 1));
    switch (ReceiveMessage(connection.socket, buffer, &bytes, nullptr, false)) {
      case Transfer::kWouldBlock: return true;
      case Transfer::kLost: return false;
      case Transfer::kDone: break;
    }
    if (connection.is_queue_pair()) {
      if (!Answer(connection, call, bytes)) return false;
    } else {
      Hello hello;
      if (bytes != sizeof hello) return false;
      std::memcpy(static_cast<void*>(&hello), &call, sizeof hello);
      if (!Admit(id, connection, hello)) return false;
    }
  }
  return true;
}

bool ShmMemoryPort::Answer(Connection& connection, const Call& call, size_t bytes) {
  if (bytes < kCallHeaderBytes || call.bytes > kMaxControlBytes ||
      bytes != kCallHeaderBytes + call.bytes) {
    return false;
  }
  Call reply;
  reply.sequence = call.sequence;
  reply.bytes = handler_->Handle(connection.client_uuid,
                                 std::span<const std::byte>(call.payload).first(call.bytes),
                                 std::span<std::byte, kMaxControlBytes>(reply.payload));
  const auto message = std::as_bytes(std::span(&reply, 1)).first(kCallHeaderBytes + reply.bytes);
  // Never full while the client keeps to kMaxCallsInFlight; one that does not is cut off.
  if (SendMessage(connection.socket, message, {}, false) != Transfer::kDone) return false;
  connection.page()->replies_sent.fetch_add(1, std::memory_order_release);
  return true;
}

Status ShmMemoryPort::MakeQueuePair(Connection& connection, const Hello& hello,
                                    UniqueFd& page_file) {
  if (hello.client_uuid == 0) return MakeError(Code::kInvalidArgument, "client uuid 0");
  BOOST_OUTCOME_TRY(file, CreateMemfd("gossamer-queue-pair", kQueuePairPageBytes, false));
  BOOST_OUTCOME_TRY(mapping, Mapping::OfFile(file));
  page_file = std::move(file);
  connection.page_mapping = std::move(mapping);
  ::new (connection.page_mapping.data()) QueuePairPage;
  connection.client_uuid = hello.client_uuid;
  ++queue_pairs_[hello.client_uuid];
  return Ok();
}

bool ShmMemoryPort::Admit(ConnectionId id, Connection& connection, const Hello& hello) {
  Welcome welcome;
  UniqueFd page_file;
  Status admitted = Ok();
  if (hello.magic != kMagic) {
    admitted = MakeError(Code::kInvalidArgument, "another version of the shm fabric");
  } else if (memory_->in_process_only() && !connection.in_process) {
    admitted = MakeError(Code::kInvalidArgument, "this memory server serves its own process only");
  } else if (hello.kind == HelloKind::kQueuePair) {
    admitted = MakeQueuePair(connection, hello, page_file);
  }
  if (admitted && hello.old_queue_pair != 0 && hello.old_token == memory_->token()) {
    // The new queue pair counts already, so that replacing the last one is no ClientGone.
    const auto old = connections_.find(hello.old_queue_pair);
    if (old != connections_.end() && old->first != id &&
        old->second.client_uuid == hello.client_uuid) {
      Destroy(old->first);
    }
  }
  welcome.token = memory_->token();
  welcome.in_process = connection.in_process ? 1 : 0;
  welcome.queue_pair = id;
  welcome.region_bytes = memory_->view(Space::kRegion).bytes;
  welcome.lock_table_bytes = memory_->view(Space::kLockTable).bytes;
  std::vector<int> fds;
  if (admitted) {
    welcome.accepted = 1;
    if (!connection.in_process) fds = {memory_->region_fd(), memory_->lock_table_fd()};
    if (page_file) fds.push_back(page_file.get());
  } else {
    admitted.error().message.copy(welcome.reason.data(), welcome.reason.size() - 1);
  }
  return SendMessage(connection.socket, std::as_bytes(std::span(&welcome, 1)), fds, false) ==
             Transfer::kDone &&
         admitted.has_value();
}

void ShmMemoryPort::Destroy(ConnectionId id) {
  const auto found = connections_.find(id);
  Connection connection = std::move(found->second);
  connections_.erase(found);
  if (!connection.is_queue_pair()) return;
  // Its process is dead, or has let go of the socket and performs nothing here any more.
  connection.page()->closed.store(1);
  FinishWrite(connection.page()->journal, *memory_);
  const auto count = queue_pairs_.find(connection.client_uuid);
  if (--count->second != 0) return;
  queue_pairs_.erase(count);
  handler_->ClientGone(connection.client_uuid);
}

}  // namespace gossamer::shm
