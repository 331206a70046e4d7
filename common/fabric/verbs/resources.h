// Owners of libibverbs and librdmacm objects, and the meaning of their errors.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/status.h"

namespace gossamer::verbs {

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    static_cast<void>(kDestroy(object));
  }
};

struct FreeDeviceMemory {
  void operator()(ibv_dm* memory) const { static_cast<void>(ibv_free_dm(memory)); }
};
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using BareQueuePair = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using DeviceMemory = std::unique_ptr<ibv_dm, FreeDeviceMemory>;
struct FreeEventChannel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
using EventChannel = std::unique_ptr<rdma_event_channel, FreeEventChannel>;

// Owns a communication identifier and its queue pair. Requires (unchecked): when it is destroyed,
// the identifier's events are acknowledged and its event channel is alive.
struct FreeConnectionId {
  void operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    static_cast<void>(rdma_destroy_id(id));
  }
};
using ConnectionId = std::unique_ptr<rdma_cm_id, FreeConnectionId>;

inline std::string ErrnoText(int error) { return std::generic_category().message(error); }

// "what: why", from errno.
inline Error ErrnoError(Code code, std::string_view what) {
  const int error = errno;
  return MakeError(code, std::string(what) + ": " + ErrnoText(error));
}

// "what: why" of a call that locks memory of this process and ended with `error`. If the limit on
// locked memory may be the cause, the message names the limit and the remedy, and the code is
// NoResources in place of `code`.
Error LockingError(Code code, std::string_view what, int error);

// Makes a communication identifier whose events arrive on a channel of its own.
Status OpenConnectionManager(EventChannel& channel, ConnectionId& id);

// Makes reading events from `fd` fail with EAGAIN instead of waiting.
Status SetNonBlocking(int fd);

// Of a packet without an acknowledgement. SoftRoCE takes 7 for endless: there, the lack of progress
// ends a queue pair (`Watch`, `ClientConnection::AskForLife`).
inline constexpr uint8_t kRetryCount = 7;

// Local ACK timeouts (4.096 µs × 2^result) with which all retries end within half of `timeout_ms`,
// if the device adds nothing. The server's is the longest one: a network that is down for a moment
// should not cost a client its lease. A client's is at most 17 ms: it is what the loss of a packet
// costs an operation, and a client replaces a queue pair that ends too soon.
uint8_t ServerAckTimeout(uint32_t timeout_ms);
uint8_t ClientAckTimeout(uint32_t timeout_ms);

inline constexpr uint8_t kRnrRetryCount = 6;

}  // namespace gossamer::verbs
