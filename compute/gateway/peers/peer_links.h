// PeerLinks: brings what clients of this compute server publish to the other compute servers of the
// store, its peers.
//
// One thread looks for peers (PeerList) every kLook. Another one takes messages from the gateway's
// PeerQueue and sends each to every peer, over one connection of its own to each: so workers never
// wait, and what one worker publishes arrives at a peer in that order. A connection is opened with
// the first message. The peer shows its messages to its own clients, and forwards none.
//
// A message arrives at most once. It is lost for a peer that does not take it: one that cannot be
// reached, or for which kMostUnsent bytes wait. What waits for a connection that breaks is lost.
//
// Thread-safety: one thread starts and destroys it; figures may be read by any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/admin/metrics.h"
#include "common/bootstrap/bootstrap.h"
#include "common/resting_thread.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "compute/gateway/channels/peer_queue.h"
#include "compute/gateway/connection/epoll_set.h"
#include "compute/gateway/peers/peer_list.h"

namespace gossamer::gateway {

// Where peers reach a gateway that listens at `addresses`, with commas between them: the first one;
// "" if there is none. In place of an address that stands for all of this machine's own, the first
// of those that is not of the loopback interface.
std::string PeerAddressOf(std::string_view addresses);

// Errors: InvalidArgument, a sentence, unless `where` is ADDRESS:PORT or unix:PATH, and one word.
Status CheckPeerAddress(const std::string& where);

class PeerLinks {
 public:
  static constexpr std::chrono::milliseconds kLook{1000};
  static constexpr std::chrono::milliseconds kRetry{1000};
  static constexpr size_t kMostUnsent = size_t{16} << 20;

  struct Figures {
    uint64_t peers = 0;      // that are known
    uint64_t connected = 0;  // of them
    uint64_t sent = 0;       // messages, each as often as there are peers
    uint64_t lost = 0;       // likewise
  };

  // `self` is how others find this one; an empty address: they do not. `queue` outlives this.
  // Returns once it is in the list, unless the bootstrap does not answer now.
  // Errors: Unsupported if there is no thread or no descriptor.
  static Result<std::unique_ptr<PeerLinks>> Start(std::unique_ptr<Bootstrap> bootstrap,
                                                  const std::string& store, Peer self,
                                                  PeerQueue& queue);
  // Takes this one out of the list.
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  Figures figures() const;
  void AddTo(Families& families) const;
  // The field peers of /state (docs/metrics.md).
  nlohmann::ordered_json State() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    Peer peer;
    UniqueFd socket = {};
    bool is_connected = false;
    bool awaits_room = false;
    Clock::time_point retry_at{};
    std::deque<PeerQueue::Request> unsent = {};
    size_t unsent_bytes = 0;
    size_t sent = 0;  // of the first one
    std::string last_failure = {};
  };

  PeerLinks(std::unique_ptr<Bootstrap> bootstrap, const std::string& store, Peer self,
            PeerQueue& queue)
      : bootstrap_(std::move(bootstrap)),
        self_(self),
        list_(*bootstrap_, store, std::move(self)),
        queue_(queue) {}

  void Look();
  void Run();
  // Takes over what Look has found.
  void UpdateLinks();
  void Handle(const epoll_event& event);
  void Forward(const std::vector<PeerQueue::Request>& requests);
  // Requires: it has no socket.
  void Connect(Link& link);
  void Send(Link& link);
  // Forgets what the peer has answered. Returns why the connection is to end; "": it goes on.
  static std::string ReadAnswers(int fd);
  // Forgets the connection, and what waits for it.
  void Close(Link& link, const std::string& why);

  const std::unique_ptr<Bootstrap> bootstrap_;
  const Peer self_;
  PeerList list_;  // the looking thread's
  std::string last_problem_;
  PeerQueue& queue_;
  EpollSet epoll_;                  // and the next: the sending thread's
  std::map<uint64_t, Link> links_;  // by the peer's id
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> known_{0};
  std::atomic<uint64_t> connected_{0};
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> lost_{0};
  std::mutex mutex_;
  std::vector<Peer> found_;  // guarded by mutex_
  std::thread sender_;
  RestingThread looker_;  // uses the above
};

}  // namespace gossamer::gateway
