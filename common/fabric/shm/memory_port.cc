#include "common/fabric/shm/memory_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/asymmetric_fence.h"
#include "common/fabric/compute_port.h"
#include "common/process.h"
#include "common/random_id.h"
#include "common/start_thread.h"

namespace gossamer::shm {
namespace {

// Tags of epoll events: a connection's socket, its process, or one of these.
constexpr uint64_t kListenerTag = 0;
constexpr uint64_t kWakeTag = 1;
constexpr uint64_t SocketTag(uint64_t id) { return id << 1; }
constexpr uint64_t ProcessTag(uint64_t id) { return id << 1 | 1; }

constexpr int kMessagesPerTurn = 64;  // of one connection, before the next connection's turn
constexpr size_t kMostNewcomers = 128;
// How often to check whether the client of a closed queue pair has left its verbs.
constexpr std::chrono::milliseconds kSettleInterval{1};
// How long to wait for clients of a former process that are in the middle of verbs.
constexpr std::chrono::milliseconds kSettlePatience{10'000};

}  // namespace

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRY(memory, SharedMemory::Create(options));
  BOOST_OUTCOME_TRY(listener, ListeningSocket::Bind(options.listen));
  auto port = std::make_unique<ShmMemoryPort>(options, std::move(memory), std::move(listener));
  BOOST_OUTCOME_TRYV(port->SettleOld());
  return std::unique_ptr<MemoryPort>(std::move(port));
}

// Ids that a former process gave to queue pairs are none of this one's.
Status ShmMemoryPort::SettleOld() {
  if (options_.kept == nullptr) return Ok();
  next_id_ = RandomId() >> 2;
  return pages_.SettleOld(*memory_, kSettlePatience);
}

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

void ShmMemoryPort::Unwatch(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Status ShmMemoryPort::Start(ControlHandler& handler, uint64_t incarnation) {
  if (handler_ != nullptr) return MakeError(Code::kInvalidArgument, "memory port started twice");
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  wake_event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_event_ || !Watch(wake_event_.get(), kWakeTag) ||
      !Watch(listener_.fd(), kListenerTag)) {
    return MakeError(Code::kUnsupported, ErrnoText("control thread of a memory port"));
  }
  BOOST_OUTCOME_TRYV(listener_.Listen());
  handler_ = &handler;
  shortage_.HoldSpare();
  incarnation_ = incarnation;
  BOOST_OUTCOME_TRY(thread, StartThread("serve clients", [this] { Serve(); }));
  thread_ = std::move(thread);
  return Ok();
}

void ShmMemoryPort::Stop() {
  if (stopped_ || !thread_.joinable()) return;
  stopped_ = true;
  stopping_ = true;
  Wake();
  thread_.join();
  listener_.Close();
  // Close all first, then wait for each: one wait must not let the other queue pairs continue.
  for (auto& [id, connection] : connections_) {
    if (connection.is_queue_pair()) connection.page()->closed.store(1, std::memory_order_release);
  }
  for (auto& [id, connection] : connections_) Quiesce(connection);
  for (auto& [uuid, closing] : closing_) {
    for (Connection& connection : closing.unsettled) Quiesce(connection);
  }
  connections_.clear();
  closing_.clear();
  queue_pairs_.clear();
}

void ShmMemoryPort::Wake() {
  // This fails only on a broken invariant, and the thread would then never end.
  if (::eventfd_write(wake_event_.get(), 1) != 0) std::abort();
}

int ShmMemoryPort::MillisecondsToNextTurn() const {
  const auto due = std::chrono::ceil<std::chrono::milliseconds>(next_tick_ - Clock::now());
  const auto wait = std::max(due, std::chrono::milliseconds(0));
  return static_cast<int>((closing_.empty() ? wait : std::min(wait, kSettleInterval)).count());
}

void ShmMemoryPort::Serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   MillisecondsToNextTurn());
    if (stopping_) return;
    for (int i = 0; i < count; ++i) {
      const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
      if (tag == kWakeTag) {
        BeginFences();
        continue;
      }
      if (tag == kListenerTag) {
        Accept();
        continue;
      }
      // An earlier event of this round may have destroyed the connection.
      const ConnectionId id = tag >> 1;
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (tag == ProcessTag(id) || !Receive(id, found->second)) Destroy(id);
    }
    if (Clock::now() >= next_tick_) Tick();
    if (!closing_.empty()) EndClosings();
  }
}

void ShmMemoryPort::Tick() {
  const Clock::time_point now = Clock::now();
  next_tick_ = now + kTickInterval;
  if (!accepts_) accepts_ = Watch(listener_.fd(), kListenerTag);
  shortage_.HoldSpare();
  DismissLateNewcomers(now);
  for (const uint64_t client_uuid : handler_->Tick(now)) BeginFence(client_uuid);
}

void ShmMemoryPort::PauseAccepting() {
  shortage_.NoteCannotAccept();
  Unwatch(listener_.fd());
  accepts_ = false;
}

// Reads what has arrived first: it may have waited while this thread did something else.
void ShmMemoryPort::Dismiss(ConnectionId id) {
  const auto found = connections_.find(id);
  if (!Receive(id, found->second) || newcomers_.contains(id)) Destroy(id);
}

void ShmMemoryPort::DismissLateNewcomers(Clock::time_point now) {
  const auto latest = now - std::chrono::milliseconds(options_.connection_timeout_ms);
  while (!newcomers_.empty() && newcomers_.begin()->second <= latest) {
    Dismiss(newcomers_.begin()->first);
  }
}

void ShmMemoryPort::Accept() {
  while (true) {
    // Silent clients keep no other client out.
    if (newcomers_.size() == kMostNewcomers) Dismiss(newcomers_.begin()->first);
    UniqueFd socket = listener_.Accept();
    if (!socket) {
      if (LacksDescriptors() && shortage_.RefuseNext(listener_)) continue;
      // A client that cannot be accepted now stays in the queue, and epoll would report it again
      // and again.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) PauseAccepting();
      return;
    }
    const ConnectionId id = next_id_++;
    Connection connection;
    const pid_t pid = PeerPid(socket);
    connection.in_process = pid == ::getpid();
    connection.process = PeerProcess(socket, pid);
    // Do not admit a client whose death cannot be observed.
    if (!connection.process && LacksDescriptors()) {
      shortage_.Refuse(socket);
      continue;
    }
    shortage_.NoteAccepted();
    connection.socket = std::move(socket);
    if (!Watch(connection.socket.get(), SocketTag(id))) continue;
    // The server's own process needs no watching: it cannot outlive itself.
    if (connection.process && !connection.in_process &&
        !Watch(connection.process.get(), ProcessTag(id))) {
      continue;
    }
    connections_.emplace(id, std::move(connection));
    newcomers_.emplace_hint(newcomers_.end(), id, Clock::now());
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
      if (bytes < sizeof hello.magic || connection.waits) return false;
      std::memcpy(static_cast<void*>(&hello), &call, std::min(bytes, sizeof hello));
      // Tell a client of another version, whose hello may have another length.
      if (hello.magic != kMagic) return Admit(id, connection, hello);
      if (bytes != sizeof hello) return false;
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
  // Never full while the client respects kMaxCallsInFlight; others are cut off.
  if (SendMessage(connection.socket, message, {}, false) != Transfer::kDone) return false;
  connection.page()->replies_sent.fetch_add(1, std::memory_order_release);
  return true;
}

Status ShmMemoryPort::MakeQueuePair(Connection& connection, const Hello& hello) {
  if (hello.client_uuid == 0) return MakeError(Code::kInvalidArgument, "client uuid 0");
  const pid_t pid = connection.in_process ? ::getpid() : PeerPid(connection.socket);
  BOOST_OUTCOME_TRY(page, pages_.Make(memory_->is_kept() ? ProcessIdentity(pid) : std::string()));
  connection.own_page = std::move(page);
  connection.page()->fences_heavily.store(HasHeavyFenceOfAll() ? 1 : 0, std::memory_order_relaxed);
  connection.client_uuid = hello.client_uuid;
  ++queue_pairs_[hello.client_uuid];
  return Ok();
}

bool ShmMemoryPort::MustWait(ConnectionId id, const Hello& hello) {
  for (const ConnectionId old_id : {hello.old_queue_pair, hello.other_queue_pair}) {
    const auto old = FindOld(id, hello.client_uuid, old_id);
    // Another thread of the client may be in the middle of verbs there.
    if (old != connections_.end() && !HasSettled(old->second)) SetAside(old);
  }
  return closing_.contains(hello.client_uuid);
}

bool ShmMemoryPort::Admit(ConnectionId id, Connection& connection, const Hello& hello) {
  Status admitted = Ok();
  if (hello.magic != kMagic) {
    admitted = MakeError(Code::kInvalidArgument, "another version of the shm fabric");
  } else if (memory_->in_process_only() && !connection.in_process) {
    admitted = MakeError(Code::kInvalidArgument, "this memory server serves its own process only");
  } else if (hello.incarnation != 0 && hello.incarnation != incarnation_) {
    admitted = MakeError(Code::kNodeUnreachable, std::string(kStartedAnew));
  } else if (hello.kind == HelloKind::kQueuePair) {
    connection.waits = MustWait(id, hello);
    if (connection.waits) {
      newcomers_.erase(id);
      closing_[hello.client_uuid].waiting.emplace_back(id, hello);
      return true;
    }
    admitted = MakeQueuePair(connection, hello);
  }
  if (admitted) {
    // The new queue pair already counts, so that replacing the last one causes no ClientGone.
    for (const ConnectionId old_id : {hello.old_queue_pair, hello.other_queue_pair}) {
      if (FindOld(id, hello.client_uuid, old_id) != connections_.end()) Destroy(old_id);
    }
  }
  if (connection.is_queue_pair()) newcomers_.erase(id);
  Welcome welcome = admitted ? Welcome{} : Refusal(admitted.error());
  welcome.incarnation = incarnation_;
  welcome.token = memory_->token();
  welcome.in_process = connection.in_process ? 1 : 0;
  welcome.queue_pair = id;
  welcome.region_bytes = memory_->view(Space::kRegion).bytes;
  welcome.lock_table_bytes = memory_->view(Space::kLockTable).bytes;
  std::vector<int> fds;
  if (admitted) {
    welcome.accepted = 1;
    if (!connection.in_process) fds = {memory_->region_fd(), memory_->lock_table_fd()};
    if (connection.is_queue_pair()) {
      fds.push_back(pages_.FileOf(connection.own_page));
      welcome.page_at = pages_.PlaceOf(connection.own_page);
    }
  }
  const Transfer sent =
      SendMessage(connection.socket, std::as_bytes(std::span(&welcome, 1)), fds, false);
  connection.own_page.own_file = {};
  return sent == Transfer::kDone && admitted.has_value();
}

ShmMemoryPort::Connections::iterator ShmMemoryPort::FindOld(ConnectionId by, uint64_t client_uuid,
                                                            ConnectionId id) {
  const auto old = connections_.find(id);
  const bool is_old = old != connections_.end() && id != by && old->second.is_queue_pair() &&
                      old->second.client_uuid == client_uuid;
  return is_old ? old : connections_.end();
}

}  // namespace gossamer::shm
