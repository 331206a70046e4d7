// ClientQueues: the clients that a worker is to look at.
//
// Those with little to receive and to send come first in each turn, all of them; the others share
// what a turn moves, and the next turn goes on with the next one. Clients that wait for memory are
// hungry: they are looked at again every kHunger.
//
// Thread-safety: none; the worker's.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "compute/gateway/connection/client.h"

namespace gossamer::gateway {

class ClientQueues {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kHunger{10};
  // Bytes that a client may receive or send before others.
  static constexpr size_t kLittle = 64 * 1024;

  bool empty() const { return little_.empty() && much_.empty(); }
  // Whether answers wait for the bytes of a later turn.
  bool has_answers() const { return with_answers_ != 0; }
  bool are_hungry() const { return !hungry_.empty(); }

  void Add(Client& client) {
    if (client.is_queued) return;
    client.is_queued = true;
    if (std::max(client.unsent(), client.unparsed_bytes()) <= kLittle) {
      little_.push_back(&client);
    } else {
      much_.push_back(&client);
      // It may send, or get answers, before its turn comes.
      client.is_queued_to_send = client.unsent() > kLittle;
      if (client.is_queued_to_send) ++with_answers_;
    }
  }
  void AddHungry(Client& client) {
    if (!client.is_hungry) hungry_.push_back(&client);
    client.is_hungry = true;
  }

  // Begins a turn. Returns whether hungry clients, and what else waits, are to try again.
  bool BeginTurn(Clock::time_point now) {
    const bool is_due = now >= next_feeding_;
    if (is_due) {
      next_feeding_ = now + kHunger;
      for (Client* client : std::exchange(hungry_, {})) {
        client->is_hungry = false;
        Add(*client);
      }
    }
    little_left_ = little_.size();
    much_left_ = much_.size();
    has_served_much_ = false;
    return is_due;
  }
  // The next client of this turn, out of its queue; null if there is none. `has_room`: for what
  // moves much.
  Client* Next(bool has_room) {
    if (little_left_ != 0) return Take(little_, little_left_);
    // One of them at least, whatever the others have moved.
    if (much_left_ == 0 || (has_served_much_ && !has_room)) return nullptr;
    has_served_much_ = true;
    if (much_.front()->is_queued_to_send) --with_answers_;
    return Take(much_, much_left_);
  }

 private:
  static Client* Take(std::deque<Client*>& queue, size_t& left) {
    Client* const client = queue.front();
    queue.pop_front();
    --left;
    client->is_queued = false;
    return client;
  }

  std::deque<Client*> little_;
  std::deque<Client*> much_;
  size_t with_answers_ = 0;  // clients in much_ that are queued to send
  std::vector<Client*> hungry_;
  Clock::time_point next_feeding_{};
  // Of this turn.
  size_t little_left_ = 0;
  size_t much_left_ = 0;
  bool has_served_much_ = false;
};

// The clients of a worker with long reads that may go on. Those with short answers take turns with
// the others: a short read that was left out beside long ones does not wait for all of them.
class ReadyClients {
 public:
  bool empty() const { return short_.empty() && long_.empty(); }
  void Add(Client& client) { (client.has_short_answers ? short_ : long_).push_back(&client); }
  // Requires: not empty.
  Client& Take() {
    assert(!empty());
    const bool is_short = !short_.empty() && (is_short_next_ || long_.empty());
    is_short_next_ = !is_short;
    std::deque<Client*>& from = is_short ? short_ : long_;
    Client& client = *from.front();
    from.pop_front();
    return client;
  }

 private:
  std::deque<Client*> short_;
  std::deque<Client*> long_;
  bool is_short_next_ = true;
};

}  // namespace gossamer::gateway
