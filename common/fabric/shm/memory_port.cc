#include "common/fabric/shm/memory_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "common/asymmetric_fence.h"
#include "common/fabric/compute_port.h"
#include "common/fabric/shm/peer.h"
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
// How often to check whether a fenced client has left its verbs.
constexpr std::chrono::milliseconds kFenceInterval{1};

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
  for (auto& [uuid, fencing] : fencing_) {
    for (Connection& connection : fencing.closing) Quiesce(connection);
  }
  connections_.clear();
  fencing_.clear();
  queue_pairs_.clear();
}

void ShmMemoryPort::Wake() {
  const uint64_t one = 1;
  // An eventfd write fails only on a broken invariant, and the thread would then never end.
  if (::write(wake_event_.get(), &one, sizeof one) != sizeof one) std::abort();
}

bool ShmMemoryPort::HasSettled(Connection& connection) {
  QueuePairPage& page = *connection.page();
  page.closed.store(1, std::memory_order_release);
  HeavyFenceOfAll();  // one of the two sees what the other stored
  if (page.busy.load(std::memory_order_acquire) == 0) return true;
  if (!ProcessEnded(connection.process) && !HungUp(connection.socket)) return false;
  FinishWrite(page.journal, *memory_);
  return true;
}

void ShmMemoryPort::Quiesce(Connection& connection) {
  if (!connection.is_queue_pair()) return;
  const auto deadline = Clock::now() + std::chrono::milliseconds(options_.connection_timeout_ms);
  while (!HasSettled(connection) && Clock::now() < deadline) std::this_thread::yield();
}

int ShmMemoryPort::MillisecondsToNextTurn() const {
  const auto due = std::chrono::ceil<std::chrono::milliseconds>(next_tick_ - Clock::now());
  const auto wait = std::max(due, std::chrono::milliseconds(0));
  return static_cast<int>((fencing_.empty() ? wait : std::min(wait, kFenceInterval)).count());
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
    if (!fencing_.empty()) EndFences();
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

// Any thread may fence, even the control thread in the middle of a call.
void ShmMemoryPort::Fence(uint64_t client_uuid) {
  {
    const std::lock_guard guard(fence_mutex_);
    to_fence_.push_back(client_uuid);
  }
  if (wake_event_) Wake();
}

void ShmMemoryPort::BeginFences() {
  uint64_t wakes;
  // An empty read means no new wakes.
  static_cast<void>(!::read(wake_event_.get(), &wakes, sizeof wakes));
  std::vector<uint64_t> clients;
  {
    const std::lock_guard guard(fence_mutex_);
    clients.swap(to_fence_);
  }
  for (const uint64_t client_uuid : clients) BeginFence(client_uuid);
}

void ShmMemoryPort::BeginFence(uint64_t client_uuid) {
  if (!queue_pairs_.contains(client_uuid) || fencing_.contains(client_uuid)) return;
  Fencing& fencing = fencing_[client_uuid];
  for (auto next = connections_.begin(); next != connections_.end();) {
    Connection& connection = next->second;
    if (!connection.is_queue_pair() || connection.client_uuid != client_uuid) {
      ++next;
      continue;
    }
    connection.page()->closed.store(1);
    // The client learns of the fence at once and gets no more answers. Its hang-up is still seen.
    ::shutdown(connection.socket.get(), SHUT_WR);
    Unwatch(connection.socket.get());
    if (connection.process && !connection.in_process) Unwatch(connection.process.get());
    fencing.closing.push_back(std::move(connection));
    next = connections_.erase(next);
  }
}

void ShmMemoryPort::EndFences() {
  for (auto next = fencing_.begin(); next != fencing_.end();) {
    const uint64_t client_uuid = next->first;
    Fencing& fencing = next->second;
    std::erase_if(fencing.closing, [this](Connection& closing) { return HasSettled(closing); });
    if (!fencing.closing.empty()) {
      ++next;
      continue;
    }
    const auto waiting = std::move(fencing.waiting);
    next = fencing_.erase(next);
    queue_pairs_.erase(client_uuid);
    handler_->ClientGone(client_uuid);
    for (const auto& [id, hello] : waiting) {
      const auto found = connections_.find(id);
      if (found != connections_.end() && !Admit(id, found->second, hello)) Destroy(id);
    }
  }
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
  while (const auto id = newcomers_.FirstUpTo(latest)) Dismiss(*id);
}

void ShmMemoryPort::Accept() {
  while (true) {
    // Silent clients keep no other client out.
    if (newcomers_.size() == kMostNewcomers) Dismiss(*newcomers_.FirstUpTo(Clock::now()));
    UniqueFd socket = listener_.Accept();
    if (!socket) {
      if (LacksDescriptors() && shortage_.RefuseNext(listener_)) continue;
      // A client that cannot be accepted now stays in the queue, and epoll would report it again and again.
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
    newcomers_.Add(id, Clock::now());
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
      if (bytes < sizeof hello.magic || connection.awaits_fence) return false;
      std::memcpy(static_cast<void*>(&hello), &call, std::min(bytes, sizeof hello));
      // Tell a client of another version, whose hello may have another length.
      if (hello.magic != kMagic) return Admit(id, connection, hello);
      if (bytes != sizeof hello) return false;
      const auto fencing = fencing_.find(hello.client_uuid);
      if (fencing != fencing_.end() && hello.kind == HelloKind::kQueuePair) {
        connection.awaits_fence = true;
        newcomers_.Remove(id);
        fencing->second.waiting.emplace_back(id, hello);
        continue;
      }
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

Status ShmMemoryPort::MakeQueuePair(Connection& connection, const Hello& hello,
                                    UniqueFd& page_file) {
  if (hello.client_uuid == 0) return MakeError(Code::kInvalidArgument, "client uuid 0");
  Result<UniqueFd> file = CreateMemfd("gossamer-queue-pair", kQueuePairPageBytes, false);
  if (!file && LacksDescriptors()) return NoDescriptorHere();
  if (!file) return MakeError(Code::kNodeUnreachable, file.error().message);
  BOOST_OUTCOME_TRY(mapping, Mapping::OfFile(file.value()));
  page_file = std::move(file).value();
  connection.page_mapping = std::move(mapping);
  auto* const page = ::new (connection.page_mapping.data()) QueuePairPage;
  page->fences_heavily.store(HasHeavyFenceOfAll() ? 1 : 0, std::memory_order_relaxed);
  connection.client_uuid = hello.client_uuid;
  ++queue_pairs_[hello.client_uuid];
  return Ok();
}

bool ShmMemoryPort::Admit(ConnectionId id, Connection& connection, const Hello& hello) {
  UniqueFd page_file;
  Status admitted = Ok();
  if (hello.magic != kMagic) {
    admitted = MakeError(Code::kInvalidArgument, "another version of the shm fabric");
  } else if (memory_->in_process_only() && !connection.in_process) {
    admitted = MakeError(Code::kInvalidArgument, "this memory server serves its own process only");
  } else if (hello.incarnation != 0 && hello.incarnation != incarnation_) {
    admitted = MakeError(Code::kNodeUnreachable, std::string(kStartedAnew));
  } else if (hello.kind == HelloKind::kQueuePair) {
    admitted = MakeQueuePair(connection, hello, page_file);
  }
  if (admitted) {
    // The new queue pair already counts, so that replacing the last one causes no ClientGone.
    DestroyOld(id, hello.client_uuid, hello.old_queue_pair);
    DestroyOld(id, hello.client_uuid, hello.other_queue_pair);
  }
  connection.awaits_fence = false;
  if (connection.is_queue_pair()) newcomers_.Remove(id);
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
    if (page_file) fds.push_back(page_file.get());
  }
  return SendMessage(connection.socket, std::as_bytes(std::span(&welcome, 1)), fds, false) ==
             Transfer::kDone &&
         admitted.has_value();
}

void ShmMemoryPort::DestroyOld(ConnectionId by, uint64_t client_uuid, ConnectionId id) {
  const auto old = connections_.find(id);
  const bool is_old = old != connections_.end() && id != by && old->second.is_queue_pair() &&
                      old->second.client_uuid == client_uuid;
  if (is_old) Destroy(id);
}

void ShmMemoryPort::Destroy(ConnectionId id) {
  const auto found = connections_.find(id);
  Connection connection = std::move(found->second);
  connections_.erase(found);
  newcomers_.Remove(id);
  if (!connection.is_queue_pair()) return;
  // The process is dead, or has closed the socket and performs nothing here any more.
  connection.page()->closed.store(1);
  FinishWrite(connection.page()->journal, *memory_);
  const auto count = queue_pairs_.find(connection.client_uuid);
  if (--count->second != 0) return;
  queue_pairs_.erase(count);
  handler_->ClientGone(connection.client_uuid);
}

}  // namespace gossamer::shm
