// Pairs of fences of which one is executed often and costs nothing, and the other seldom and costs
// microseconds.
//
// A light and a heavy fence synchronize as two sequentially consistent fences do: of two threads
// that each store, fence and load what the other stores, at least one sees the other's store. Two
// light fences do not.
// Sources: P1202R4, "Asymmetric fences"; membarrier(2), the EXPEDITED commands: they interrupt each
// core that runs a thread of this process, or of a registered one. Where the kernel does not have
// them, both fences are plain ones.
//
// Thread-safety: LightFence and HeavyFence are for the threads of one process; the others also for
// several.
#pragma once

#include <atomic>

namespace gossamer {

namespace internal {
// Set before main. A light fence that is executed before that is a plain one.
extern const bool has_heavy_fence;
extern const bool has_heavy_fence_of_all;
}  // namespace internal

inline void FenceLightlyIf(bool is_light) {
  if (is_light) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

inline void LightFence() { FenceLightlyIf(internal::has_heavy_fence); }
void HeavyFence();

// Between processes on one machine. A light fence is FenceLightlyIf(true) if HasHeavyFenceOfAll()
// holds in its own process and in that of the heavy fences, and FenceLightlyIf(false) if not.
inline bool HasHeavyFenceOfAll() { return internal::has_heavy_fence_of_all; }
void HeavyFenceOfAll();

}  // namespace gossamer
