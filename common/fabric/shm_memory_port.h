// The memory server's side of the shm fabric.
//
// One control thread waits in epoll for connections, calls, and the end of clients. Each connection
// is a queue pair. It ends when its socket hangs up or its process does (a pidfd tells, so that a
// socket inherited by a child keeps no dead client alive, and a stopped process is not taken for a
// dead one): then the WRITE the client died in, if any, is finished, and when it was the client's
// last queue pair the handler hears `ClientGone`.
//
// Thread-safety: `Start`, `Stop` and the destructor belong to one thread; the rest is constant.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "common/fabric/fabric.h"
#include "common/fabric/shm_handles.h"
#include "common/fabric/shm_memory.h"
#include "common/fabric/shm_queue_pair.h"
#include "common/fabric/shm_socket.h"

namespace gossamer::shm {

class ShmMemoryPort final : public MemoryPort {
 public:
  static Result<std::unique_ptr<MemoryPort>> Open(const MemoryPortOptions& options);
  ~ShmMemoryPort() override;

  Status Start(ControlHandler& handler) override;
  void Stop() override;
  std::span<std::byte> region() override;
  std::string address() const override { return listener_.path(); }
  LockTablePlacement lock_table_placement() const override { return LockTablePlacement::kDram; }
  std::string memory_description() const override { return memory_->description(); }

 private:
  // A socket, and the queue pair behind it once it has said hello.
  struct Connection {
    UniqueFd socket;
    UniqueFd process;  // pidfd; empty where the kernel cannot name the peer
    Mapping page_mapping;
    uint64_t client_uuid = 0;
    bool in_process = false;

    QueuePairPage* page() { return reinterpret_cast<QueuePairPage*>(page_mapping.data()); }
    bool is_queue_pair() const { return page_mapping.data() != nullptr; }
  };
  using ConnectionId = uint64_t;

  ShmMemoryPort(const MemoryPortOptions& options, std::shared_ptr<SharedMemory> memory,
                ListeningSocket listener)
      : options_(options), memory_(std::move(memory)), listener_(std::move(listener)) {}

  bool Watch(int fd, uint64_t tag);
  void Serve();
  void Accept();
  // Answers what has arrived. Returns whether the connection goes on.
  bool Receive(ConnectionId id, Connection& connection);
  bool Answer(Connection& connection, const Call& call, size_t bytes);
  bool Admit(ConnectionId id, Connection& connection, const Hello& hello);
  Status MakeQueuePair(Connection& connection, const Hello& hello, UniqueFd& page_file);
  void Destroy(ConnectionId id);
  // Closes a queue pair and waits until no verb of it can land any more.
  void Quiesce(Connection& connection);

  const MemoryPortOptions options_;
  const std::shared_ptr<SharedMemory> memory_;
  ListeningSocket listener_;
  ControlHandler* handler_ = nullptr;
  UniqueFd epoll_;
  UniqueFd stop_event_;
  std::thread thread_;
  bool stopped_ = false;

  // The control thread's own.
  std::unordered_map<ConnectionId, Connection> connections_;
  std::unordered_map<uint64_t, uint32_t> queue_pairs_;  // by client uuid
  ConnectionId next_id_ = 1;
};

}  // namespace gossamer::shm
