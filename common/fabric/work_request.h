// What a caller posts on an endpoint: a batch of verbs, a control call, or a request for a queue
// pair.
//
// A work request belongs to its caller and lives until its completion has counted it. It allocates
// nothing.
//
// Thread-safety: none; a work request belongs to the thread of its endpoint.
#pragma once

#include <array>
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "common/fabric/verb.h"
#include "common/status.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// Counts down. At zero, resumes the waiter, if there is one; the waiter may destroy this.
struct Completion {
  uint32_t remaining = 0;
  std::coroutine_handle<> waiter;

  void CountDown() {
    if (--remaining == 0 && waiter) waiter.resume();
  }
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
  Verb& Add(const Verb& verb) {
    assert(!full());
    // By its members: a copy of the whole would load in wide words what was just stored in narrow
    // ones. The binding names all of them, or does not compile.
    const auto& [opcode, space, fence, status, length, offset, local, compare, swap] = verb;
    const auto& [data, key] = local;
    Verb& added = *std::construct_at(&verbs_[size_++], opcode, space, fence, status, length, offset,
                                     LocalAddress{}, compare, swap);
    added.local.data = data;
    added.local.key = key;
    return added;
  }
  // Adds the verb that `make` returns, in its place: one that is made elsewhere is copied as soon
  // as it is stored.
  // Requires: !full().
  template <typename Make>
  void AddMade(Make make) {
    assert(!full());
    new (&verbs_[size_++]) Verb(make());
  }
  // Empties the batch, and addresses it to `server`.
  void Reset(ServerId server) {
    server_ = server;
    size_ = 0;
  }
  // kSuccess if every verb succeeded, else the status of the first that did not.
  VerbStatus status() const {
    for (const Verb& verb : verbs()) {
      if (verb.status != VerbStatus::kSuccess) return verb.status;
    }
    return VerbStatus::kSuccess;
  }

  // For fabrics: the completion to count down, and a link for the fabric's own queues.
  Completion* completion = nullptr;
  Batch* next = nullptr;
  // For callers: when it was posted, by a count of theirs. 0: it was not.
  uint64_t posted_at = 0;

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
  union {  // not initialized: Add makes a verb
    Verb storage_[kCapacity];
  };
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

// Requests a queue pair to a memory server: a first one, or a replacement. Once the request
// succeeds, nothing posted on the replaced queue pair can land (rule U1). At most one per server at
// a time.
struct QueuePairRequest {
  ServerId server{0};
  // The `BrokenQueuePairId` of another queue pair of this compute server, on any endpoint, to
  // destroy as well. 0: none.
  uint64_t also_destroys = 0;
  Status status = Ok();

  Completion* completion = nullptr;
  QueuePairRequest* next = nullptr;
};

// How far a connection that is being made has come, for steps that do not block.
enum class ConnectState : uint8_t { kUnderWay, kDone };

}  // namespace gossamer
