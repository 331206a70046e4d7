// Worker: a thread that serves Redis clients over a session of its own.
//
// One loop polls the clients' sockets (epoll, edge-triggered) and the session. What clients have
// sent is parsed into a batch; while that is on its way, requests of other clients make the next
// one. A command that reads many keys runs as a task of its own. New clients come by way of an
// inbox: workers share them out evenly. With nothing in flight the thread sleeps until a client
// sends something, or its next look at what is due.
//
// A turn is what happens between two looks at the sockets. It is bounded, so that a short request
// waits for little, whatever others ask for:
//   - clients with little to receive or send come first. The others share kTurnBytes, also those
//     with long answers of batches that have ended; the next turn goes on with the next of them;
//   - a batch brings kMostTogether bytes of values, and answers that need no store do not wait
//     for it;
//   - long reads bring one part, and walks have one slice of time;
//   - messages of channels bring kTurnBytes to clients.
//
// Memory of a client is bounded: its requests are not read while earlier ones are in flight, or
// while more than kMostUnsent bytes of answers wait for it. Reads of long values leave their batch
// and go on in parts, one part of one client for each look at the sockets, and only once the client
// has taken the part before. Memory of all clients is bounded too: see ClientMemory and
// LookAtMemory.
//
// Thread-safety: Run by one thread; Stop and Use by any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compute/gateway/channels/channels.h"
#include "compute/gateway/channels/peer_queue.h"
#include "compute/gateway/channels/subscribers.h"
#include "compute/gateway/commands/gateway_options.h"
#include "compute/gateway/commands/server_answers.h"
#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/connection/acceptor.h"
#include "compute/gateway/connection/client.h"
#include "compute/gateway/connection/client_memory.h"
#include "compute/gateway/connection/epoll_set.h"
#include "compute/gateway/connection/inbox.h"
#include "compute/gateway/connection/listener.h"
#include "compute/gateway/script/script.h"
#include "compute/gateway/worker/batch.h"
#include "compute/gateway/worker/client_queues.h"
#include "compute/gateway/worker/key_move.h"
#include "compute/gateway/worker/long_reads.h"
#include "compute/gateway/worker/scan_positions.h"
#include "compute/gateway/worker/transaction.h"
#include "compute/gateway/worker/walk.h"
#include "compute/gateway/worker/walk_turns.h"
#include "compute/metrics/worker_metrics.h"
#include "gossamer/store.h"

namespace gossamer::gateway {

// What the workers of a gateway share.
struct Shared {
  explicit Shared(const GatewayOptions& given)
      : options(given),
        memory(given.client_memory_bytes),
        slow_log(given.slow_log),
        inboxes(given.threads),
        channels(memory, inboxes, given.threads) {}

  const GatewayOptions& options;
  ClientMemory memory;
  ScanPositions positions;
  ClientList client_list;
  SlowLog slow_log;
  Inboxes inboxes;
  Channels channels;
  PeerQueue peer_queue;
  std::atomic<uint64_t> next_number{1};
  // Workers that accept connections, each for any worker.
  std::atomic<size_t> acceptors{0};
  GatewayIdentity identity;
  ScriptCache scripts;
  std::atomic<int64_t> key_count{-1};  // as the last DBSIZE found it; negative: there was none
};

class Worker {
 public:
  Worker(size_t number, Shared& shared, Store& store, std::vector<Listener> listeners,
         WorkerMetrics& metrics);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Errors: Unsupported if this machine gives no descriptors; those of Store::NewSession.
  Status Open();
  // Serves until Stop: then what is in flight ends, answers are sent, and clients are disconnected.
  // Walks get kStopPatience for that, and so do clients that do not read their answers.
  void Run();
  void Stop();
  // Has the worker serve `store` over `session`, once what is in flight has ended: walks with an
  // error. The result is there once the worker uses nothing of the store before. Requires
  // (unchecked): it runs, and does not until then stop.
  std::future<void> Use(Store& store, std::unique_ptr<Session> session);

 private:
  struct NextStore {
    Store* store;
    std::unique_ptr<Session> session;
    std::promise<void> is_used;
  };
  struct Handshake {  // of TLS
    std::chrono::steady_clock::time_point deadline;
    uint64_t number;  // of the client: another one may have its descriptor by then
    int fd;
  };

  // Of a turn: rounds of the session, while something is in flight, and their time, and bytes
  // received and sent.
  static constexpr int kMostRounds = 16;
  static constexpr std::chrono::microseconds kRoundsTime{500};
  static constexpr uint64_t kTurnBytes = uint64_t{2} << 20;
  // Requests of one client in a batch, and bytes of answers that wait for it, before it has to wait
  // itself.
  static constexpr size_t kMostRequests = 1024;
  static constexpr size_t kMostUnsent = size_t{1} << 20;
  static constexpr size_t kMostUnsentWhenShort = size_t{16} << 10;
  // Likewise, of a client without a login, before its connection ends: it has been told NOAUTH
  // hundreds of times, and read nothing.
  static constexpr size_t kMostUnsentUnknown = size_t{16} << 10;

  // Begins to serve who has arrived in the inbox.
  void Welcome();
  // Notes who may have sent something, or taken answers.
  void HandleEvents(int timeout_ms);
  // Brings the TLS handshake of `client` on. Returns whether it is done. Handshakes share this
  // thread with clients that are connected already: a turn has kMostHandshakes steps of them.
  bool ShakeHands(Client& client);
  // A handshake that does not end gives back its client's place in time.
  void DropLateHandshakes();
  // Parses what `client` has sent, into the batch.
  void Collect(Client& client);
  // Returns false if the client's later requests must wait.
  bool CollectOne(Client& client, const std::vector<std::string_view>& arguments);
  // `is_last`: the worker stops, or changes its store, and does not wait for memory.
  void StartBatch(bool is_last);
  // Begins with the long reads of `batch`. Returns a batch of the other requests.
  std::unique_ptr<Batch> SplitBatch(Batch& batch);
  // Goes on with the long reads of a client that is not in a part, when it has taken its answers.
  void GoOn(Client& client);
  // Does the next part of long reads, of the client that has waited for the longest time: if no
  // answers wait for a later turn, or if the part `is_due`, or if batches wait for it.
  void StartPart(bool is_due);
  Task<void> RunPart(Client& client);
  // Sends the answers of `client`. Returns false if the connection is lost.
  bool Send(Client& client);
  // While memory is short (ClientMemory), parts of long reads are small, a client with more than
  // kMostUnsentWhenShort of answers is not read, and a client is disconnected that holds memory and
  // has neither sent nor taken anything for options.patience. Once it is full, reads wait. Then, or
  // while requests or walks wait for memory, a tenth of that time is enough, and of the clients
  // that have been behind for all of it, the one with the most is disconnected now and then.
  void LookAtMemory();
  Task<void> RunBatch(std::unique_ptr<Batch> batch);
  void AnswerState(Client& client, const Command& command,
                   const std::vector<std::string_view>& arguments);
  std::string AnswerAtOnce(const Client& client, const Command& command,
                           const std::vector<std::string_view>& arguments) const;
  // Also of EXEC and WATCH.
  void StartWalk(Client& client, const Command& command,
                 const std::vector<std::string_view>& arguments);
  // What a command does that runs by itself: one of both, or none, of EXEC and WATCH.
  struct Errand {
    std::unique_ptr<Walk> walk;
    std::unique_ptr<KeyMove> move;
  };
  // `words`: the request.
  Task<void> RunWalk(Client& client, Errand errand, const Command* command,
                     std::vector<std::string> words);
  // Sends the answers of a client that is not busy, and goes on with it.
  void Release(Client& client);
  void Drop(Client& client);
  // Goes on with what is in flight, and begins nothing.
  void PollInFlight();
  void SwitchStore();
  // Ends what is in flight, sends the answers, and disconnects all clients, so that they get what
  // was sent.
  void End();

  // Whether this turn may receive and send more.
  bool TurnHasRoom() const;
  size_t in_flight() const { return batches_ + walks_ + (is_in_part_ ? 1 : 0); }

  Shared& shared_;
  LargeIds large_ids_;
  ChangeMemory change_memory_;  // outlives all batches, and what the session still does of them
  Store* store_;
  Inbox& inbox_;
  WorkerMetrics& all_metrics_;
  std::unique_ptr<WorkerMetrics::Worker> metrics_;
  std::unique_ptr<Session> session_;
  EpollSet epoll_;
  Acceptor acceptor_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> has_next_store_{false};
  std::mutex next_store_mutex_;
  std::optional<NextStore> next_store_;                       // guarded by next_store_mutex_
  std::unordered_map<int, std::unique_ptr<Client>> clients_;  // by descriptor
  ClientQueues queues_;
  uint64_t turn_end_ = 0;  // of the bytes that this worker has received and sent
  std::unique_ptr<Batch> batch_;
  std::vector<std::unique_ptr<Batch>> idle_batches_;
  std::vector<Client*> done_;  // clients whose walk or transaction has ended
  std::unordered_map<const Client*, LongReads> long_reads_;
  Transactions transactions_{shared_.memory, change_memory_};
  Subscribers subscribers_;
  ReadyClients ready_;          // for the next part of their long reads
  Values part_values_;          // of the part in flight
  size_t reading_batches_ = 0;  // of those in flight
  size_t writing_ = 0;          // bytes that they write
  size_t range_walks_ = 0;      // walks in flight that read values
  bool part_is_next_ = false;   // memory was full: before any batch that reads
  bool is_in_part_ = false;
  bool is_short_ = false;  // of memory
  size_t most_unsent_ = kMostUnsent;
  std::chrono::steady_clock::time_point next_look_{};
  size_t batches_ = 0;                         // in flight
  size_t walks_ = 0;                           // likewise
  std::chrono::steady_clock::time_point now_;  // in this round of the loop
  std::deque<Handshake> handshakes_;           // begun of late, the oldest first; may have ended
  int handshake_steps_ = 0;                    // in this turn
  WalkTurns turns_;
};

}  // namespace gossamer::gateway
