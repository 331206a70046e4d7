// The memory server's side of the shm fabric.
//
// One control thread waits in epoll for connections, calls, and the end of clients. Each connection
// is a queue pair. It ends when its socket hangs up or its process ends. A pidfd reports the end of
// the process, so a socket inherited by a child does not keep a dead client alive, and a stopped
// process does not count as dead. The port then finishes the WRITE that the client died in, if any;
// after the client's last queue pair it calls `ClientGone`.
//
// A fenced client may be performing verbs, and may be stopped there for any time. Its queue pairs
// are closed and set aside; the control thread checks them every turn and serves other clients
// meanwhile. Until they settle, new connections in the fenced client's name wait for their welcome,
// so that no queue pair belongs to two lives of a client.
//
// A newcomer must say hello within the connection time-out. A queue pair may be idle for ever.
//
// Thread-safety: `Start`, `Stop` and the destructor belong to one thread; any thread may call
// `Fence`; the rest is constant.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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
#include "common/fabric/shm/newcomers.h"
#include "common/fabric/shm/queue_pair.h"
#include "common/fabric/shm/refusal.h"
#include "common/fabric/shm/socket.h"

namespace gossamer::shm {

class ShmMemoryPort final : public MemoryPort {
 public:
  static Result<std::unique_ptr<MemoryPort>> Open(const MemoryPortOptions& options);
  ~ShmMemoryPort() override;

  Status Start(ControlHandler& handler, uint64_t incarnation) override;
  void Fence(uint64_t client_uuid) override;
  bool observes_death() const override { return true; }
  void Stop() override;
  std::span<std::byte> region() override;
  std::string address() const override { return listener_.path(); }
  LockTablePlacement lock_table_placement() const override { return LockTablePlacement::kDram; }
  uint32_t path_mtu() const override { return kPathMtu; }
  std::string memory_description() const override { return memory_->description(); }

 private:
  // A socket, and after its hello the queue pair behind it.
  struct Connection {
    UniqueFd socket;
    UniqueFd process;  // pidfd; empty if the kernel cannot name the peer
    Mapping page_mapping;
    uint64_t client_uuid = 0;
    bool in_process = false;
    bool awaits_fence = false;  // said hello while its client was being fenced

    QueuePairPage* page() { return reinterpret_cast<QueuePairPage*>(page_mapping.data()); }
    bool is_queue_pair() const { return page_mapping.data() != nullptr; }
  };
  using ConnectionId = uint64_t;
  using Clock = Endpoint::Clock;

  // A client being fenced: its closed queue pairs that may not have settled, and its connections that wait.
  struct Fencing {
    std::vector<Connection> closing;
    std::vector<std::pair<ConnectionId, Hello>> waiting;
  };

  ShmMemoryPort(const MemoryPortOptions& options, std::shared_ptr<SharedMemory> memory,
                ListeningSocket listener)
      : options_(options), memory_(std::move(memory)), listener_(std::move(listener)) {}

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
  bool Admit(ConnectionId id, Connection& connection, const Hello& hello);
  Status MakeQueuePair(Connection& connection, const Hello& hello, UniqueFd& page_file);
  // Destroys queue pair `id` of `client_uuid` on request of connection `by`. Ignores an unknown id.
  void DestroyOld(ConnectionId by, uint64_t client_uuid, ConnectionId id);
  void Destroy(ConnectionId id);
  void BeginFences();
  void BeginFence(uint64_t client_uuid);
  // Ends the fences whose queue pairs have all settled.
  void EndFences();
  // Whether no verb of a closed queue pair can land any more. Finishes the WRITE of a dead client.
  bool HasSettled(Connection& connection);
  // Blocks until HasSettled.
  void Quiesce(Connection& connection);

  const MemoryPortOptions options_;
  const std::shared_ptr<SharedMemory> memory_;
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
  std::unordered_map<ConnectionId, Connection> connections_;
  Newcomers newcomers_;
  std::unordered_map<uint64_t, uint32_t> queue_pairs_;  // by client uuid
  std::unordered_map<uint64_t, Fencing> fencing_;       // likewise
  ConnectionId next_id_ = 1;
  Clock::time_point next_tick_{};
  bool accepts_ = true;
  DescriptorShortage shortage_;
};

}  // namespace gossamer::shm
