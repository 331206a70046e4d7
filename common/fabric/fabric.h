// The fabric contract: the interface that carries one-sided verbs between compute and memory servers.
//
// A memory server opens a `MemoryPort`: a region and a lock table that clients reach with verbs, and a control
// service that answers small messages. A compute server opens a `ComputePort`, connects it to memory servers,
// and gives each thread an `Endpoint`. An endpoint owns one queue pair to each connected memory server.
//
// Callers may rely on the lines of CONTRACT.md and on nothing else. In short:
//   - On one endpoint and server, verbs of one batch and of consecutive batches take effect in
//     posted order for these pairs: WRITE then WRITE, WRITE then atomic, atomic then READ. A WRITE
//     after a READ or an atomic needs `Verb::fence`.
//   - Atomics are atomic among the verbs of one memory server. Only atomics change a word that atomics change.
//   - A READ may return any byte-wise mixture of what concurrent WRITEs leave.
//   - If a client dies, its WRITE of at most `Limits::path_mtu` bytes happens whole or not at all.
//   - Every verb ends with a status, within `connection_timeout_ms` if the peer is lost. The first failing
//     verb breaks the queue pair: all later ones on it end as `kFlushed` until `Endpoint::Reconnect`.
//
// Cost: the data path calls only `Post` and `Poll`; neither allocates, locks or blocks.
// Thread-safety: ports are thread-safe; an endpoint, its buffers and batches belong to one thread.
#pragma once

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/verb_table.h"
#include "common/status.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class SimulatedNetwork;

enum class FabricKind : uint8_t { kShm, kVerbs, kSim };

// "shm" or "verbs". Programs never select the simulator by name: its callers create its network (sim.h).
Result<FabricKind> ParseFabricKind(std::string_view name);
std::string_view FabricKindName(FabricKind kind);

// The memory of a memory server that an offset counts from.
enum class Space : uint8_t { kRegion, kLockTable };

enum class VerbStatus : uint8_t {
  kPending,
  kSuccess,
  kRemoteAccess,  // Out of bounds, misaligned atomic, wrong key: not applied.
  kFlushed,  // Behind a failed verb on its queue pair: not applied if that one was kRemoteAccess.
  kUnknown,  // Peer lost: applied, not applied, or still in flight.
};

std::string_view VerbStatusName(VerbStatus status);

// One one-sided operation. `local` lies in a buffer of the posting endpoint, is disjoint from that
// of every other verb in flight, and stays untouched until the batch completes. `length` is in
// bytes. An atomic has length 8 and a remote offset that is a multiple of 8; it stores the old
// value at `local` (8-byte aligned). A verb of length 0 moves nothing and succeeds at any offset
// inside the space or at its end.
struct Verb {
  Opcode opcode = Opcode::kRead;
  Space space = Space::kRegion;
  // Starts only after the READs and atomics before it on this queue pair have ended.
  bool fence = false;
  VerbStatus status = VerbStatus::kPending;
  uint32_t length = 0;
  uint64_t remote_offset = 0;
  LocalAddress local;
  uint64_t compare = 0;      // CAS only
  uint64_t swap_or_add = 0;  // CAS: new value; fetch-add: addend

  static Verb Read(uint64_t offset, uint32_t length, LocalAddress into,
                   Space space = Space::kRegion);
  static Verb Write(uint64_t offset, uint32_t length, LocalAddress from,
                    Space space = Space::kRegion);
  static Verb CompareSwap(Space space, uint64_t offset, uint64_t compare, uint64_t swap,
                          LocalAddress old_value);
  static Verb FetchAdd(Space space, uint64_t offset, uint64_t addend, LocalAddress old_value);

  bool is_read() const { return TraitsOf(opcode).verb_class == VerbClass::kRead; }
  bool is_write() const { return TraitsOf(opcode).verb_class == VerbClass::kWrite; }
  bool is_atomic() const { return TraitsOf(opcode).verb_class == VerbClass::kAtomic; }
  // Requires: a completed atomic. Returns: the value before it.
  uint64_t old_value() const;
};

// Counts down, and resumes its coroutine at zero.
struct Completion {
  uint32_t remaining = 0;
  std::coroutine_handle<> waiter;
};

// An ordered list of verbs for one memory server, posted with one doorbell. `InlineBatch<N>` holds
// the storage. The list, its verbs and its completion live until the batch has completed.
class Batch {
 public:
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  ServerId server() const { return server_; }
  std::span<Verb> verbs() { return {verbs_, size_}; }
  std::span<const Verb> verbs() const { return {verbs_, size_}; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == capacity_; }
  // Requires: !full().
  Verb& Add(const Verb& verb) { return verbs_[size_++] = verb; }
  // Empties the batch, and addresses it to `server`.
  void Reset(ServerId server) {
    server_ = server;
    size_ = 0;
  }
  // kSuccess if every verb succeeded, else the status of the first that did not.
  VerbStatus status() const;

  // For fabrics: the completion to count down, and a link for the fabric's own queues.
  Completion* completion = nullptr;
  Batch* next = nullptr;

 protected:
  Batch(ServerId server, Verb* verbs, uint32_t capacity)
      : verbs_(verbs), capacity_(capacity), server_(server) {}

 private:
  Verb* verbs_;
  uint32_t size_ = 0;
  uint32_t capacity_;
  ServerId server_;
};

template <uint32_t kCapacity>
class InlineBatch final : public Batch {
 public:
  explicit InlineBatch(ServerId server = ServerId{0}) : Batch(server, storage_, kCapacity) {}

 private:
  Verb storage_[kCapacity];
};

inline constexpr size_t kMaxControlBytes = 256;

// One request to a memory server's control service, and its reply.
struct ControlCall {
  ServerId server{0};
  std::array<std::byte, kMaxControlBytes> request{};
  uint32_t request_bytes = 0;
  std::array<std::byte, kMaxControlBytes> reply{};
  uint32_t reply_bytes = 0;
  VerbStatus status = VerbStatus::kPending;

  Completion* completion = nullptr;
  ControlCall* next = nullptr;
};

// Requests a queue pair to a memory server: a first one, or a replacement. Once the request succeeds,
// nothing posted on the replaced queue pair can land (rule U1). At most one per server at a time.
struct QueuePairRequest {
  ServerId server{0};
  // The `BrokenQueuePairId` of another queue pair of this compute server, on any endpoint, to destroy as well. 0: none.
  uint64_t also_destroys = 0;
  Status status = Ok();

  Completion* completion = nullptr;
  QueuePairRequest* next = nullptr;
};

// Limits of the path to a memory server, as the device reports them.
struct Limits {
  uint32_t path_mtu = 0;         // bytes; a WRITE up to this is atomic with respect to death
  uint32_t max_batch_verbs = 0;  // verbs in one batch, at least 64
  // Verbs posted and not completed on one queue pair. More are queued inside the endpoint, in order.
  uint32_t max_outstanding_verbs = 0;
  uint32_t max_inline_bytes = 0;
};

// A thread's access to all memory servers that its port is connected to.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Starts `batch`. A later `Poll` completes it with a status in every verb; a batch for a server without a working
  // queue pair completes as kFlushed. Never blocks: verbs beyond the queue pair's depth wait inside the endpoint.
  virtual void Post(Batch& batch) = 0;
  // Likewise for a control message. Cost: one SEND each way.
  virtual void Post(ControlCall& call) = 0;
  // Likewise for a queue pair. Ends within the connection timeout. Flushes what was posted on the old queue pair.
  // Errors: NodeUnreachable when the server is gone or another incarnation has taken its place;
  // InvalidArgument for a server that the port is not connected to. After an error there is no
  // working queue pair, and the old one still counts as not destroyed.
  virtual void Post(QueuePairRequest& request) = 0;
  // Completes what has arrived, and resumes the coroutines whose completions reached zero. Does not block.
  // Returns: the number of completed items.
  virtual size_t Poll() = 0;
  // True if nothing posted here is outstanding: polling is useless until the next post, and this
  // endpoint's thread may sleep. False where time passes only in `Poll`.
  virtual bool IsIdle() const { return false; }
  // Lets other threads use the processor while polling is useless.
  virtual void Yield();

  // Whether there is, or was, a queue pair to `server`: it may be broken.
  virtual bool IsAttached(ServerId server) const = 0;
  // Identifies the queue pair to `server`, unique among all that the server ever had, if it is
  // broken and not replaced. 0: no such queue pair.
  virtual uint64_t BrokenQueuePairId(ServerId server) const = 0;
  // For callers without coroutines: posts a QueuePairRequest, and polls until it has ended.
  Status Reconnect(ServerId server);
  // Likewise, unless there is a queue pair.
  Status Attach(ServerId server);
  // Likewise for several servers in parallel. Unreachable servers stay unattached.
  void AttachAll(std::span<const ServerId> servers);

  using Clock = std::chrono::steady_clock;
  // The clock for pauses and time-outs of this endpoint's thread. The simulator has its own.
  virtual Clock::time_point Now() const { return Clock::now(); }
  // Announces that this endpoint's thread has work other than a completion at `due`, or at once if `due`
  // is past. Only the simulator needs it: its time does not pass by itself. Thread-safety: any thread.
  virtual void WakeAt(Clock::time_point /*due*/) {}

  // The endpoint of the fabric, below all decorators.
  virtual Endpoint& undecorated() { return *this; }

  virtual const Limits& limits() const = 0;
  // The source of local buffers for verbs.
  virtual BufferPool& buffers() = 0;

  // co_await endpoint.Execute(batch): one round trip.
  auto Execute(Batch& batch);
  // co_await endpoint.Execute(call)
  auto Execute(ControlCall& call);
  // co_await endpoint.Execute(request)
  auto Execute(QueuePairRequest& request);
  // co_await endpoint.ExecuteAll(batches): one round trip for all; skips empty batches and nulls.
  auto ExecuteAll(std::span<Batch* const> batches);
};

struct ComputePortOptions {
  std::string device;     // verbs: RDMA device; empty: the one that reaches the server
  int gid_index = -1;     // verbs: -1: discovered
  uint32_t path_mtu = 0;  // verbs: bytes; 0: the port's active MTU
  uint32_t connection_timeout_ms = 2000;  // after this, a lost peer is an error
  // `Connect` and each new queue pair fail with Unsupported where the path MTU is smaller (rule W2). Bytes; 0: any MTU.
  uint32_t least_path_mtu = 0;
  uint64_t client_uuid = 0;             // names this compute server in its connections; not 0
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
};

// The NodeUnreachable message when another incarnation answers at the address than the one connected to.
inline constexpr std::string_view kStartedAnew =
    "this memory server has been started anew, and what it held is gone: open the store again";

// Errors: Unsupported if `path_mtu`, that of the path to `address`, is below what the options require.
Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address);

// A compute server's side of a fabric.
class ComputePort {
 public:
  virtual ~ComputePort() = default;
  // Sets `ComputePortOptions::least_path_mtu` for later `Connect` and `NewEndpoint` calls, when the
  // caller does not know it as the port is opened. Requires: no other thread uses the port.
  virtual void RequirePathMtu(uint32_t bytes) = 0;
  // Makes `server` reachable at `address` (from `MemoryPort::address`). All later queue pairs to
  // `server` are to this `incarnation`, or, if 0, to the one that answers now. A server restarted
  // at the same address is another server (rule U6) and has none of the old one's data.
  // Errors: NodeUnreachable if no server or another incarnation answers there; Unsupported if the
  // path MTU is already known and too small.
  virtual Status Connect(ServerId server, const std::string& address, uint64_t incarnation = 0) = 0;
  // A new endpoint with a queue pair to each connected server that can be reached. Blocks for up to the
  // connection timeout if a server is silent. The port outlives the endpoint. verbs: if the options name no
  // device, this selects the one that reaches the first connected server, or without servers the machine's first.
  virtual Result<std::unique_ptr<Endpoint>> NewEndpoint() = 0;
  // verbs: the name of the RDMA device, once it is known. Other fabrics: empty.
  virtual std::string device() { return {}; }
};

// Answers control messages on the memory server. The port's control thread makes all calls, one at a time.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  // `client_uuid` names the compute server that sent `request`. Writes the reply. Returns: its bytes.
  virtual uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                          std::span<std::byte, kMaxControlBytes> reply) = 0;
  // The last queue pair of a compute server is destroyed: the client closed it, died (and its
  // WRITEs are finished), or was fenced. None of its verbs can land any more.
  virtual void ClientGone(uint64_t client_uuid) = 0;
  // Called about every kTickInterval, by the same thread. Returns: the compute servers to fence:
  // `MemoryPort::Fence` follows for each.
  virtual std::vector<uint64_t> Tick(Endpoint::Clock::time_point /*now*/) { return {}; }
};

inline constexpr std::chrono::milliseconds kTickInterval{10};

enum class LockTablePlacement : uint8_t { kDeviceMemory, kDram };

struct MemoryPortOptions {
  uint64_t region_bytes = 0;      // a multiple of 4096
  uint64_t lock_table_bytes = 0;  // a power of two
  std::string listen;         // verbs: ADDRESS:PORT; shm: path of a Unix socket, empty: a fresh one
  std::string device;         // verbs
  bool on_chip_locks = true;  // lock table in device memory if there is any
  // verbs: clients wait for each verb before they post the next, for a device that does not order.
  bool one_verb_at_a_time = false;
  bool huge_pages = true;        // 2 MB pages if there are any
  bool in_process_only = false;  // shm: clients live in this process, so the memory needs no name
  uint32_t connection_timeout_ms = 2000;
  // Called with the region, and with a lock table in DRAM, as soon as each is mapped. Its error
  // fails the opening of the port. Empty: pages are allocated on first use (verbs: when they are
  // registered). The simulator does not call it.
  std::function<Status(std::span<std::byte>)> touch = {};
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
};

// A memory server's side of a fabric: the zeroed memory and the control service. Clients can
// connect from `Start` on; the destructor disconnects them.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // `incarnation`, not 0, names this server among all that ever were (CONTRACT.md, E8).
  virtual Status Start(ControlHandler& handler, uint64_t incarnation) = 0;
  // Destroys every queue pair of a compute server, including one whose connection is being made.
  // Returns at once. `ControlHandler::ClientGone` follows when nothing of that compute server can
  // land any more (not called if it had no queue pair). Its verbs in flight end as kUnknown or
  // kFlushed. It may connect and register again afterwards. Thread-safety: any thread.
  virtual void Fence(uint64_t client_uuid) = 0;
  // Whether the port always notices the end of a compute server's process and then calls
  // `ClientGone`. If not, registrations are leases that expire.
  virtual bool observes_death() const = 0;
  // Ends the control service and breaks all queue pairs. The memory stays mapped until destruction.
  virtual void Stop() = 0;

  // The memory server's own view, for initialisation before `Start` and reading after `Stop`.
  virtual std::span<std::byte> region() = 0;
  // Input of `ComputePort::Connect`; one line without blanks.
  virtual std::string address() const = 0;
  virtual LockTablePlacement lock_table_placement() const = 0;
  // Bytes that one packet carries at most through this server's end of the network, whatever the clients' ends carry.
  virtual uint32_t path_mtu() const = 0;
  // For the start-up report: "2 MB pages" or "4 KB pages (no huge pages: …)".
  virtual std::string memory_description() const = 0;
};

// Opens the ports of FabricKind::kSim: the simulator's network (sim/sim.h), which no shipped program links.
class SimulatedNetwork {
 public:
  virtual Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) = 0;
  virtual Result<std::unique_ptr<ComputePort>> OpenComputePort(
      const ComputePortOptions& options) = 0;

 protected:
  ~SimulatedNetwork() = default;
};

// ---- Awaiting

namespace internal {

template <typename Posted>
struct ExecuteOne {
  Endpoint& endpoint;
  Posted& posted;
  Completion completion;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    completion = {1, waiter};
    posted.completion = &completion;
    endpoint.Post(posted);
  }
  void await_resume() const noexcept {}
};

struct ExecuteMany {
  Endpoint& endpoint;
  std::span<Batch* const> batches;
  Completion completion;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    completion.waiter = waiter;
    for (const Batch* batch : batches) {
      if (batch != nullptr && !batch->empty()) ++completion.remaining;
    }
    if (completion.remaining == 0) return false;
    for (Batch* batch : batches) {
      if (batch == nullptr || batch->empty()) continue;
      batch->completion = &completion;
      endpoint.Post(*batch);
    }
    return true;
  }
  void await_resume() const noexcept {}
};

}  // namespace internal

inline auto Endpoint::Execute(Batch& batch) {
  return internal::ExecuteOne<Batch>{*this, batch, {}};
}
inline auto Endpoint::Execute(ControlCall& call) {
  return internal::ExecuteOne<ControlCall>{*this, call, {}};
}
inline auto Endpoint::Execute(QueuePairRequest& request) {
  return internal::ExecuteOne<QueuePairRequest>{*this, request, {}};
}
inline auto Endpoint::ExecuteAll(std::span<Batch* const> batches) {
  return internal::ExecuteMany{*this, batches, {}};
}

}  // namespace gossamer
