// The end of queue pairs: closed, set aside until their verbs have ended, counted until then.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "common/asymmetric_fence.h"
#include "common/fabric/shm/memory_port.h"

namespace gossamer::shm {

bool ShmMemoryPort::HasSettled(Connection& connection) {
  QueuePairPage& page = *connection.page();
  page.closed.store(1, std::memory_order_release);
  HeavyFenceOfAll();  // one of the two sees what the other stored
  if (page.busy.load(std::memory_order_acquire) == 0) return true;
  // A connection may be lost while its client lives and is in the middle of a WRITE. That client
  // finishes the WRITE itself. A copy from its journal could land after its unlock, or with bytes
  // of its next WRITE.
  const bool is_dead =
      connection.process ? ProcessEnded(connection.process) : HungUp(connection.socket);
  if (!is_dead) return false;
  FinishWrite(page.journal, *memory_);
  return true;
}

void ShmMemoryPort::Quiesce(Connection& connection) {
  if (!connection.is_queue_pair()) return;
  const auto deadline = Clock::now() + std::chrono::milliseconds(options_.connection_timeout_ms);
  while (!HasSettled(connection) && Clock::now() < deadline) std::this_thread::yield();
}

void ShmMemoryPort::Destroy(ConnectionId id) {
  newcomers_.erase(id);
  const auto found = connections_.find(id);
  if (found->second.is_queue_pair() && !HasSettled(found->second)) {
    SetAside(found);
    return;
  }
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  if (connection.is_queue_pair()) Settled(connection.client_uuid, 1);
}

void ShmMemoryPort::Settled(uint64_t client_uuid, uint32_t queue_pairs) {
  const auto count = queue_pairs_.find(client_uuid);
  count->second -= queue_pairs;
  if (count->second != 0) return;
  queue_pairs_.erase(count);
  handler_->ClientGone(client_uuid);
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
  eventfd_t wakes = 0;
  ::eventfd_read(wake_event_.get(), &wakes);
  std::vector<uint64_t> clients;
  {
    const std::lock_guard guard(fence_mutex_);
    clients.swap(to_fence_);
  }
  for (const uint64_t client_uuid : clients) BeginFence(client_uuid);
}

void ShmMemoryPort::BeginFence(uint64_t client_uuid) {
  if (!queue_pairs_.contains(client_uuid)) return;
  Closing& closing = closing_[client_uuid];
  if (std::exchange(closing.is_fence, true)) return;
  for (auto next = connections_.begin(); next != connections_.end();) {
    const bool is_fenced = next->second.is_queue_pair() && next->second.client_uuid == client_uuid;
    next = is_fenced ? SetAside(next) : std::next(next);
  }
}

ShmMemoryPort::Connections::iterator ShmMemoryPort::SetAside(Connections::iterator at) {
  Connection& connection = at->second;
  connection.page()->closed.store(1);
  // The client learns of it at once and gets no more answers. Its hang-up is still seen.
  ::shutdown(connection.socket.get(), SHUT_WR);
  Unwatch(connection.socket.get());
  if (connection.process && !connection.in_process) Unwatch(connection.process.get());
  Closing& closing = closing_[connection.client_uuid];
  ++closing.queue_pairs;
  closing.unsettled.push_back(std::move(connection));
  return connections_.erase(at);
}

void ShmMemoryPort::EndClosings() {
  std::vector<std::pair<uint64_t, Closing>> ended;
  for (auto next = closing_.begin(); next != closing_.end();) {
    Closing& closing = next->second;
    std::erase_if(closing.unsettled, [this](Connection& closed) { return HasSettled(closed); });
    if (!closing.unsettled.empty()) {
      ++next;
      continue;
    }
    ended.emplace_back(next->first, std::move(closing));
    next = closing_.erase(next);
  }
  for (const auto& [client_uuid, closing] : ended) {
    // The life of a fenced client ends before the next one begins. Otherwise the new queue pairs
    // count before the closed ones end, as in Admit.
    if (closing.is_fence) Settled(client_uuid, closing.queue_pairs);
    for (const auto& [id, hello] : closing.waiting) {
      const auto found = connections_.find(id);
      if (found != connections_.end() && !Admit(id, found->second, hello)) Destroy(id);
    }
    if (!closing.is_fence) Settled(client_uuid, closing.queue_pairs);
  }
}

}  // namespace gossamer::shm
