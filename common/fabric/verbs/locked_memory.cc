#include "common/fabric/verbs/locked_memory.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

#include "common/fabric/buffer_pool.h"

namespace gossamer::verbs {
namespace {

constexpr int kIpcLockBit = 14;  // CAP_IPC_LOCK

// More than mlx5 and SoftRoCE take for the send and the receive ring, and for the completion queue's
// entries of one queue pair.
constexpr uint64_t kRingBytes = uint64_t{64} << 10;

}  // namespace

LockedMemory OwnLockedMemory() {
  LockedMemory memory;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    memory.limit = limit.rlim_cur;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    uint64_t number = 0;
    if (name == "VmPin:" && words >> number) memory.locked = number << 10;
    if (name == "CapEff:" && words >> std::hex >> number && (number >> kIpcLockBit & 1) != 0) {
      memory.limit = std::numeric_limits<uint64_t>::max();
    }
  }
  return memory;
}

uint64_t BytesLockedBy(uint32_t endpoints, uint32_t servers) {
  return endpoints * (BufferPool::kSlabBytes + servers * kRingBytes);
}

Status CheckLockedMemory(const LockedMemory& memory, uint64_t more_bytes) {
  if (memory.limit >= memory.locked && more_bytes <= memory.limit - memory.locked) return Ok();
  return MakeError(
      Code::kNoResources,
      fmt::format(
          "this program is about to lock {} MiB for RDMA, and the limit on locked memory is "
          "{} KiB, of which {} KiB are used: raise it (ulimit -l unlimited), or use fewer "
          "threads",
          (more_bytes + (1 << 20) - 1) >> 20, memory.limit >> 10, memory.locked >> 10));
}

}  // namespace gossamer::verbs
