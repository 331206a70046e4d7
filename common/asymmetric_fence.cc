#include "common/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace gossamer {
namespace {

bool Membarrier(membarrier_cmd command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

void Fence(bool is_heavy, membarrier_cmd command) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!is_heavy || Membarrier(command)) return;
  // A system call filter that came after the registration. The light fences rely on this one.
  std::fputs(
      "gossamer: the kernel refuses membarrier(2), which it allowed at the start; allow it in the "
      "system call filter\n",
      stderr);
  std::abort();
}

}  // namespace

namespace internal {
const bool has_heavy_fence = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
const bool has_heavy_fence_of_all = Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}  // namespace internal

void HeavyFence() { Fence(internal::has_heavy_fence, MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
void HeavyFenceOfAll() { Fence(internal::has_heavy_fence_of_all, MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

}  // namespace gossamer
