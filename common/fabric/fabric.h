// The fabric contract: what carries one-sided verbs between compute servers and memory servers.
//
// A memory server opens a `MemoryPort`: a region and a lock table that clients reach with verbs,
// and a control service that answers small messages. A compute server opens a `ComputePort`,
// connects it to memory servers, and gives each of its threads an `Endpoint`, which owns one queue
// pair to each connected memory server.
//
// What callers may rely on is in CONTRACT.md, line by line, and nothing else. In short:
//   - verbs of one batch, and of batches posted one after the other to one server on one endpoint,
//     take effect in the order posted for: WRITE then WRITE, WRITE then atomic, atomic then READ.
//     A READ or an atomic followed by a WRITE needs `Verb::fence` on the WRITE;
//   - atomics are atomic among verbs of the same memory server; a word changed by atomics is
//     changed by nothing else;
//   - a READ may return any byte-wise mixture of what concurrent WRITEs leave;
//   - a WRITE of at most `Limits::path_mtu` bytes from a client that dies happens whole or not at
//     all;
//   - every verb ends with a status, within `connection_timeout_ms` when the peer is lost.
//     The first failing verb breaks the queue pair: all later ones on it end as `kFlushed` until
//     `Endpoint::Reconnect`.
//
// Cost: `Post` and `Poll` are the only calls on the data path; neither allocates, locks or blocks.
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
#include "common/status.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class SimulatedNetwork;

enum class FabricKind : uint8_t { kShm, kVerbs, kSim };

// "shm" or "verbs", which programs run on; the simulator's callers make its network (sim.h).
Result<FabricKind> ParseFabricKind(std::string_view name);
std::string_view FabricKindName(FabricKind kind);

enum class Opcode : uint8_t { kRead, kWrite, kCompareSwap, kFetchAdd };

// What of a memory server an offset counts from.
enum class Space : uint8_t { kRegion, kLockTable };

enum class VerbStatus : uint8_t {
  kPending,
  kSuccess,
  kRemoteAccess,  // Outside the exposed memory, misaligned atomic, wrong key: not applied.
  kFlushed,  // Behind a failed verb on its queue pair: not applied if that one was kRemoteAccess.
  kUnknown,  // Peer lost: applied, not applied, or still on its way.
};

std::string_view VerbStatusName(VerbStatus status);

// One one-sided operation. `local` lies in a buffer of the endpoint that posts it, is distinct from
// that of every other verb in flight, and stays untouched until the batch completes. Lengths are in
// bytes; an atomic has length 8, a remote offset that is a multiple of 8, and puts the old value at
// `local` (8-byte aligned). A length of 0 is a verb that moves nothing and succeeds, wherever its
// offset is inside the space or at its end.
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

  bool is_atomic() const { return opcode == Opcode::kCompareSwap || opcode == Opcode::kFetchAdd; }
  // Of a completed atomic: the value before it.
  uint64_t old_value() const;
};

// What is waited for: counts down, and resumes its coroutine at zero.
struct Completion {
  uint32_t remaining = 0;
  std::coroutine_handle<> waiter;
};

// An ordered list of verbs for one memory server, posted with one doorbell. Storage comes from
// `InlineBatch<N>`. The list, its verbs and its completion live until the batch has completed.
class Batch {
 public:
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  ServerId server() const { return server_; }
  std::span<Verb> verbs() { return {verbs_, size_}; }
  std::span<const Verb> verbs() const { return {verbs_, size_}; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == capacity_; }
  // Appends; the batch must not be full.
  Verb& Add(const Verb& verb) { return verbs_[size_++] = verb; }
  // Empties the batch, to be used again for `server`.
  void Reset(ServerId server) {
    server_ = server;
    size_ = 0;
  }
  // kSuccess if every verb succeeded, else the status of the first that did not.
  VerbStatus status() const;

  // For fabrics: whom to tell, and a link for the fabric's own queues.
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

// Asks for a queue pair to a memory server: a first one, or one in the place of the present one, of
// which nothing can land any more when this succeeds (rule U1). One at a time for each server.
struct QueuePairRequest {
  ServerId server{0};
  // Another queue pair of this compute server, of any endpoint (its `BrokenQueuePairId`), which is
  // destroyed likewise. 0: none.
  uint64_t also_destroys = 0;
  Status status = Ok();

  Completion* completion = nullptr;
  QueuePairRequest* next = nullptr;
};

// Limits of the path to a memory server, asked of the device.
struct Limits {
  uint32_t path_mtu = 0;         // bytes; a WRITE up to this is atomic with respect to death
  uint32_t max_batch_verbs = 0;  // verbs in one batch, at least 64
  // Posted and not completed on one queue pair; more are queued inside the endpoint, in order.
  uint32_t max_outstanding_verbs = 0;
  uint32_t max_inline_bytes = 0;
};

// A thread's access to all memory servers that its port is connected to.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Sends `batch` on its way. It completes in a later `Poll` with a status in every verb; a batch
  // for a server without a working queue pair completes as kFlushed. Never blocks: what exceeds the
  // queue pair's depth waits inside the endpoint.
  virtual void Post(Batch& batch) = 0;
  // Likewise for a control message; costs one SEND each way.
  virtual void Post(ControlCall& call) = 0;
  // Likewise for a queue pair; it ends within the connection timeout. What was posted on the old one
  // is flushed. NodeUnreachable when the server is gone, or another incarnation has taken its place;
  // InvalidArgument for a server that the port was not connected to. After a failure there is no
  // working queue pair, and the one to be replaced still counts as not destroyed.
  virtual void Post(QueuePairRequest& request) = 0;
  // Completes what has arrived and resumes the coroutines whose completions reached zero. Returns
  // the number of what was completed. Does not block.
  virtual size_t Poll() = 0;
  // Whether nothing posted here is outstanding, so that nothing comes of polling before something else is posted, and
  // this endpoint's thread may sleep. False where time passes only in `Poll`.
  virtual bool IsIdle() const { return false; }
  // Lets other threads have the processor, as nothing comes of polling for a while.
  virtual void Yield();

  // Whether there is, or was, a queue pair to `server`: it may be broken.
  virtual bool IsAttached(ServerId server) const = 0;
  // Names the queue pair to `server`, if it has broken and has not been replaced, among all that the
  // server ever had. 0: none.
  virtual uint64_t BrokenQueuePairId(ServerId server) const = 0;
  // For callers without coroutines: post a QueuePairRequest, and poll until it has ended.
  Status Reconnect(ServerId server);
  // Likewise, unless there is one.
  Status Attach(ServerId server);
  // Likewise for several at the same time; those that cannot be reached stay unattached.
  void AttachAll(std::span<const ServerId> servers);

  using Clock = std::chrono::steady_clock;
  // The clock that pauses and time-outs of this endpoint's thread go by. The simulator has its own.
  virtual Clock::time_point Now() const { return Clock::now(); }
  // Something other than a completion has to be done by this endpoint's thread at `due`, or as soon
  // as that is past. Called by any thread. Only the simulator needs to know: its time does not pass
  // by itself.
  virtual void WakeAt(Clock::time_point /*due*/) {}

  virtual const Limits& limits() const = 0;
  // Where the local end of verbs comes from.
  virtual BufferPool& buffers() = 0;

  // co_await endpoint.Execute(batch): one round trip.
  auto Execute(Batch& batch);
  // co_await endpoint.Execute(call)
  auto Execute(ControlCall& call);
  // co_await endpoint.Execute(request)
  auto Execute(QueuePairRequest& request);
  // co_await endpoint.ExecuteAll(batches): one round trip for all; empty batches and nulls are
  // skipped.
  auto ExecuteAll(std::span<Batch* const> batches);
};

struct ComputePortOptions {
  std::string device;     // verbs: RDMA device; empty: the one that reaches the server
  int gid_index = -1;     // verbs: -1: discovered
  uint32_t path_mtu = 0;  // verbs: bytes; 0: what the port has active
  uint32_t connection_timeout_ms = 2000;  // bound after which a lost peer is an error
  // A queue pair whose path has less is refused with Unsupported (rule W2), each time that one is made. Bytes; 0: any
  // will do.
  uint32_t least_path_mtu = 0;
  uint64_t client_uuid = 0;             // names this compute server in its connections; not 0
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
};

// What NodeUnreachable says of an address where another incarnation answers than was connected to.
inline constexpr std::string_view kStartedAnew =
    "this memory server has been started anew, and what it held is gone: open the store again";

// Unsupported, if a path to `address` with this MTU is one that the options refuse.
Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address);

// A compute server's side of a fabric.
class ComputePort {
 public:
  virtual ~ComputePort() = default;
  // Sets `ComputePortOptions::least_path_mtu`, for what `Connect` and `NewEndpoint` make from then on: for a caller that
  // does not know it when the port is opened. While no other thread uses the port.
  virtual void RequirePathMtu(uint32_t bytes) = 0;
  // Makes `server` reachable at `address` (as `MemoryPort::address` printed it). From here on all
  // queue pairs to `server` are to this `incarnation`, or, given 0, to the one that answers now: what
  // is started anew at the same address is another server (rule U6), and has none of what this one
  // held. NodeUnreachable if nobody answers there, or another incarnation does; Unsupported if the MTU of the path is known
  // by then, and too small.
  virtual Status Connect(ServerId server, const std::string& address, uint64_t incarnation = 0) = 0;
  // A new endpoint, with a queue pair to each connected server that can be reached: blocks for up to
  // the connection timeout where one is silent. Outlived by the port. verbs: where the options name no device, this
  // takes the one that the first connected server is reached by; without any, the machine's first.
  virtual Result<std::unique_ptr<Endpoint>> NewEndpoint() = 0;
  // verbs: the name of the RDMA device, once it is known. Else empty.
  virtual std::string device() { return {}; }
};

// Answers control messages on the memory server. Called by the port's control thread, one at a
// time.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  // `client_uuid` names the compute server that sent `request`. Writes the reply, returns its
  // bytes.
  virtual uint32_t Handle(uint64_t client_uuid, std::span<const std::byte> request,
                          std::span<std::byte, kMaxControlBytes> reply) = 0;
  // The last queue pair of a compute server is destroyed (it closed them, or died and its WRITEs
  // are finished, or it was fenced): none of its verbs can land any more.
  virtual void ClientGone(uint64_t client_uuid) = 0;
  // Called about every kTickInterval, by the same thread. Returns the compute servers to fence:
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
  bool on_chip_locks = true;  // lock table in device memory where there is any
  // verbs: clients wait for each verb before they post the next, for a device that does not order.
  bool one_verb_at_a_time = false;
  bool huge_pages = true;        // 2 MB pages where there are any
  bool in_process_only = false;  // shm: clients live in this process, so that memory needs no name
  uint32_t connection_timeout_ms = 2000;
  // Called with the region, and with a lock table in DRAM, as soon as either is mapped; its error is
  // that of opening the port. Empty: the machine gives pages when they are first used (verbs: when
  // they are registered). The simulator does not call it.
  std::function<Status(std::span<std::byte>)> touch = {};
  SimulatedNetwork* network = nullptr;  // sim: outlives the port
};

// A memory server's side of a fabric: the memory (zeroed) and the control service. Clients can
// connect from `Start` on; the destructor disconnects them.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  // `incarnation`, not 0, names this server among all that ever were (CONTRACT.md, E8).
  virtual Status Start(ControlHandler& handler, uint64_t incarnation) = 0;
  // Destroys every queue pair of a compute server, also one whose connection is just being made.
  // Returns at once; `ControlHandler::ClientGone` follows when nothing of that compute server can
  // land any more (there is none when it had no queue pair). Its verbs in flight end as kUnknown or
  // kFlushed. It may connect anew afterwards, and has to register anew then. From any thread.
  virtual void Fence(uint64_t client_uuid) = 0;
  // Whether the end of a compute server's process is always noticed, so that its `ClientGone` comes
  // by itself. Where it is not, registrations are leases that expire.
  virtual bool observes_death() const = 0;
  // Ends the control service and breaks all queue pairs. The memory stays mapped until destruction.
  virtual void Stop() = 0;

  // The memory server's own view, for initialisation before `Start` and reading after `Stop`.
  virtual std::span<std::byte> region() = 0;
  // Where `ComputePort::Connect` finds this server; one line without blanks.
  virtual std::string address() const = 0;
  virtual LockTablePlacement lock_table_placement() const = 0;
  // Bytes that one packet carries at most through this server's end of the network, whatever the
  // clients' ends carry.
  virtual uint32_t path_mtu() const = 0;
  // What people want to know at start-up, as "2 MB pages" or "4 KB pages (no huge pages: …)".
  virtual std::string memory_description() const = 0;
};

// What opens the ports of FabricKind::kSim: the simulator's network (sim/sim.h), which no shipped program links.
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
