// How a worker ends, or changes its store: what it has taken is answered, and clients get the
// answers.
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "compute/gateway/worker/worker.h"

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

// For walks, for clients that do not read, and for clients that go on sending: for each as long.
constexpr std::chrono::milliseconds kStopPatience{1500};
// A client that has got all, and has sent nothing for so long, is left.
constexpr std::chrono::milliseconds kQuiet{50};
constexpr std::chrono::milliseconds kPause{5};
constexpr std::string_view kStopping = "ERR this compute server is stopping";
constexpr std::string_view kSwitching =
    "UNREACHABLE the store is gone, and this compute server serves the one that has its name now";

// Takes what has arrived, and forgets it. Returns whether the connection still is.
bool Discard(int fd, bool& has_got) {
  std::array<char, 16 * 1024> bytes;
  for (int times = 0; times < 64; ++times) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    has_got = true;
  }
  return true;
}

// Whether the other side has not got all that was sent to it.
bool IsOnItsWay(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

}  // namespace

std::future<void> Worker::Use(Store& store, std::unique_ptr<Session> session) {
  const std::lock_guard guard(next_store_mutex_);
  next_store_.emplace(NextStore{&store, std::move(session), {}});
  has_next_store_.store(true, std::memory_order_release);
  inbox_.Wake();
  return next_store_->is_used.get_future();
}

// Nothing of the store before lives on: batches have the new one's parameters, and an operation in
// flight never goes over to it.
void Worker::SwitchStore() {
  std::optional<NextStore> next;
  {
    const std::lock_guard guard(next_store_mutex_);
    next.swap(next_store_);
    has_next_store_.store(false, std::memory_order_relaxed);
  }
  turns_.EndAll(kSwitching);
  while (in_flight() != 0 || !batch_->empty()) {
    StartBatch(true);
    PollInFlight();
  }
  turns_.LetGoOn();
  session_->WaitAll();
  session_ = std::move(next->session);
  store_ = next->store;
  batch_ = std::make_unique<Batch>(store_->parameters().max_key_bytes);
  idle_batches_.clear();
  shared_.key_count.store(-1, std::memory_order_relaxed);
  next->is_used.set_value();
}

void Worker::End() {
  // Also answers that wait for the rest of their pipeline, which is not done any more.
  const auto send_queued = [this] {
    queues_.BeginTurn(Clock::now());
    while (Client* const client = queues_.Next(true)) {
      if (client->is_busy) continue;
      if (client->has_long_reads) {
        GoOn(*client);
      } else if (!Send(*client)) {
        Drop(*client);
      }
    }
  };
  send_queued();
  const Clock::time_point end_of_walks = Clock::now() + kStopPatience;
  const auto has_long_reads = [&] { return !long_reads_.empty() && Clock::now() < end_of_walks; };
  while (in_flight() != 0 || !batch_->empty() || has_long_reads()) {
    StartBatch(true);
    StartPart(true);
    PollInFlight();
    HandleEvents(0);
    send_queued();
    if (Clock::now() > end_of_walks) turns_.EndAll(kStopping);
  }
  const auto has_unsent = [](const auto& client) { return client.second->unsent() != 0; };
  const Clock::time_point deadline = Clock::now() + kStopPatience;
  while (Clock::now() < deadline && std::ranges::any_of(clients_, has_unsent)) {
    HandleEvents(10);
    send_queued();
  }

  // Closing a connection on which something has arrived that nobody has read would reset it, and
  // the client would lose answers.
  const Clock::time_point end_of_sending = Clock::now() + kStopPatience;
  Clock::time_point last_news = Clock::now();
  while (Clock::now() < end_of_sending) {
    bool has_news = false;
    // Other workers may still accept connections, and give them to this one: these are ended like
    // the others.
    const bool may_come = shared_.acceptors.load(std::memory_order_acquire) != 0;
    Welcome();
    for (const auto& [fd, client] : clients_) client->EndSending();
    std::erase_if(clients_, [&](const auto& client) { return !Discard(client.first, has_news); });
    const auto is_on_its_way = [](const auto& client) { return IsOnItsWay(client.first); };
    has_news = has_news || std::ranges::any_of(clients_, is_on_its_way);
    if (has_news) last_news = Clock::now();
    std::this_thread::sleep_for(kPause);
    const bool is_quiet = clients_.empty() || Clock::now() - last_news >= kQuiet;
    if (is_quiet && !may_come) break;
  }
  clients_.clear();
}

}  // namespace gossamer::gateway
