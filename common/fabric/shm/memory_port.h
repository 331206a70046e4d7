// The memory server's side of the shm fabric.
//
// One control thread waits in epoll for connections, calls, and the end of clients. Each connection
// is a queue pair. It ends when its socket hangs up, its process ends, its client replaces it, or
// its client is fenced. A pidfd reports the end of the process, so a socket inherited by a child
// does not keep a dead client alive, and a stopped process does not count as dead. If the process
// has ended, the port finishes the WRITE that the client died in, if any. After the client's last
// queue pair it calls `ClientGone`.
//
// The client of a queue pair that ends may live and be performing verbs, and may be stopped there
// for any time: a hang-up alone says nothing about that. Such queue pairs are closed and set aside;
// the control thread checks them every turn and serves other clients meanwhile. Until they settle,
// they count as queue pairs of their client, and new connections in its name wait for their
// welcome. So none of their verbs lands after `ClientGone` or after the welcome of the queue pair
// that replaces them, and no queue pair belongs to two lives of a fenced client.
//
// A newcomer must say hello within the connection time-out. A queue pair may be idle for ever.
//
// Thread-safety: `Start`, `Stop` and the destructor belong to one thread; any thread may call
// `Fence`; the rest is constant.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/shm/handles.h"
#include "common/fabric/shm/memory.h"
#include "common/fabric/shm/pages.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/shm/refusal.h"
#include "common/fabric/shm/socket.h"

namespace gossamer::shm {

class ShmMemoryPort final : public MemoryPort {
 public:
  ShmMemoryPort(const MemoryPortOptions& options, std::shared_ptr<SharedMemory> memory,
                ListeningSocket listener)
      : options_(options),
        lock_table_{LockTablePlacement::kDram, options.lock_table_bytes, {}},
        memory_(std::move(memory)),
        pages_(options.kept),
        listener_(std::move(listener)) {}
  ~ShmMemoryPort() override { Stop(); }

  // Ends what clients of a former process may still do. Call once, before `Start`.
  Status SettleOld();
  Status Start(ControlHandler& handler, uint64_t incarnation) override;
  void Fence(uint64_t client_uuid) override;
  bool observes_death() const override { return true; }
  void Stop() override;
  std::span<std::byte> region() override;
  std::string address() const override { return listener_.path(); }
  const LockTableFacts& lock_table() const override { return lock_table_; }
  uint32_t path_mtu() const override { return kPathMtu; }
  std::string memory_description() const override { return memory_->description(); }

 private:
  // A socket, and after its hello the queue pair behind it.
  struct Connection {
    UniqueFd socket;
    UniqueFd process;  // pidfd; empty if the kernel cannot name the peer: a hang-up is its end then
    PageSource::Page own_page;
    uint64_t client_uuid = 0;
    bool in_process = false;
    bool waits = false;  // said hello while verbs of its client's closed queue pairs could land

    QueuePairPage* page() { return own_page.get(); }
    bool is_queue_pair() const { return static_cast<bool>(own_page); }
  };
  using ConnectionId = uint64_t;
  using Clock = Endpoint::Clock;

  using Connections = std::unordered_map<ConnectionId, Connection>;

  // A client's closed queue pairs that may not have settled, and its connections that wait for
  // them.
  struct Closing {
    std::vector<Connection> unsettled;
    uint32_t queue_pairs = 0;  // settled or not
    bool is_fence = false;     // these are all of the client's queue pairs
    std::vector<std::pair<ConnectionId, Hello>> waiting;
  };

  bool Watch(int fd, uint64_t tag);
  void Unwatch(int fd);
  // Makes the control thread check for work.
  void Wake();
  void Serve();
  int MillisecondsToNextTurn() const;
  void Tick();
  void Accept();
  // Ends the connection, unless it says hello now.
  void Dismiss(ConnectionId id);
  void DismissLateNewcomers(Clock::time_point now);
  // Pauses until the next tick, for the reason in errno.
  void PauseAccepting();
  // Answers what has arrived. Returns whether to keep the connection.
  bool Receive(ConnectionId id, Connection& connection);
  bool Answer(Connection& connection, const Call& call, size_t bytes);
  // Answers the hello, or lets it wait. Returns whether to keep the connection.
  bool Admit(ConnectionId id, Connection& connection, const Hello& hello);
  // Whether verbs may still land that must not land after a welcome. Closes the queue pairs that
  // `hello` replaces.
  bool MustWait(ConnectionId id, const Hello& hello);
  Status MakeQueuePair(Connection& connection, const Hello& hello);
  // Queue pair `id` of `client_uuid`, which connection `by` replaces. The end if there is none.
  Connections::iterator FindOld(ConnectionId by, uint64_t client_uuid, ConnectionId id);
  // Ends the connection. A queue pair that has not settled is set aside.
  void Destroy(ConnectionId id);
  // Closes a queue pair and keeps it in closing_ until it settles. Returns the next connection.
  Connections::iterator SetAside(Connections::iterator at);
  // `queue_pairs` of the client have settled. Calls `ClientGone` after its last one.
  void Settled(uint64_t client_uuid, uint32_t queue_pairs);
  void BeginFences();
  void BeginFence(uint64_t client_uuid);
  // Ends what waits for closed queue pairs that have all settled.
  void EndClosings();
  // Closes the queue pair. Returns whether none of its verbs can land any more. Finishes the WRITE
  // of a dead client.
  bool HasSettled(Connection& connection);
  // Blocks until HasSettled.
  void Quiesce(Connection& connection);

  const MemoryPortOptions options_;
  const LockTableFacts lock_table_;
  const std::shared_ptr<SharedMemory> memory_;
  PageSource pages_;  // outlives all connections
  ListeningSocket listener_;
  ControlHandler* handler_ = nullptr;
  uint64_t incarnation_ = 0;
  UniqueFd epoll_;
  UniqueFd wake_event_;
  std::thread thread_;
  bool stopped_ = false;
  std::atomic<bool> stopping_ = false;
  std::mutex fence_mutex_;
  std::vector<uint64_t> to_fence_;  // client uuids; guarded by fence_mutex_

  // Used by the control thread only.
  Connections connections_;
  // Connections that are no queue pairs yet, and when they came. Ids grow, so the first is the
  // oldest. Their time and number are bounded: a peer that connects and says nothing holds two of
  // the server's file descriptors.
  std::map<ConnectionId, Clock::time_point> newcomers_;
  // How many queue pairs each client has, by its uuid. Those in closing_ count.
  std::unordered_map<uint64_t, uint32_t> queue_pairs_;
  std::unordered_map<uint64_t, Closing> closing_;  // likewise
  ConnectionId next_id_ = 1;
  Clock::time_point next_tick_{};
  bool accepts_ = true;
  DescriptorShortage shortage_;
};

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);

}  // namespace gossamer::shm
