#include "common/fabric/verbs/resources.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>

namespace gossamer::verbs {
namespace {

// In bytes, or RLIM_INFINITY.
rlim_t LockedMemoryLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur;
}

}  // namespace

Error LockingError(Code code, std::string_view what, int error) {
  std::string message = fmt::format("{}: {}", what, ErrnoText(error));
  const bool may_be_limit = error == ENOMEM || error == EPERM || error == EAGAIN;
  const rlim_t limit = LockedMemoryLimit();
  if (!may_be_limit || limit == RLIM_INFINITY) return MakeError(code, std::move(message));
  message += fmt::format(
      " (perhaps for the limit on locked memory, which is {} bytes: ulimit -l unlimited)", limit);
  return MakeError(Code::kNoResources, std::move(message));
}

Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoError(Code::kUnsupported, "making an event channel non-blocking");
  }
  return Ok();
}

Status OpenConnectionManager(EventChannel& channel, ConnectionId& id) {
  channel.reset(rdma_create_event_channel());
  if (channel == nullptr) {
    return ErrnoError(Code::kUnsupported, "opening the RDMA connection manager");
  }
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel.get(), &made, nullptr, RDMA_PS_TCP) != 0) {
    return ErrnoError(Code::kNoResources, "making an RDMA communication identifier");
  }
  id.reset(made);
  return Ok();
}

uint8_t ServerAckTimeout(uint32_t timeout_ms) {
  const double bound_us = timeout_ms * 1000.0 / 2 / (kRetryCount + 1);
  uint8_t exponent = 8;  // 1 ms; a shorter timeout takes a busy peer for a dead one
  while (exponent < 31 && 4.096 * static_cast<double>(uint64_t{2} << exponent) <= bound_us) {
    ++exponent;
  }
  return exponent;
}

uint8_t ClientAckTimeout(uint32_t timeout_ms) {
  constexpr uint8_t kLongest = 12;  // 16.8 ms
  return std::min(kLongest, ServerAckTimeout(timeout_ms));
}

}  // namespace gossamer::verbs
