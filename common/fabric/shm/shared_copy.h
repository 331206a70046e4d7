// SharedCopy: the only place where the shm fabric touches memory that others may change
// concurrently.
//
// As with a NIC, a READ may return any byte-wise mixture of what concurrent WRITEs leave, and
// callers validate what they read. Here the same race happens between CPUs; it is intended, and
// confined to this function. ThreadSanitizer neither instruments nor intercepts the copy, so every
// race that it reports is a bug; it sees the ordering through the atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gossamer::shm {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// The compiler does not move memory accesses across this barrier. It alone orders what a killed
// process leaves
// behind: a process killed between two instructions has done all of the earlier one and none of the
// later.
inline void CompilerBarrier() { asm volatile("" ::: "memory"); }

// Copies `bytes` (not 0) bytes, in any order, each byte once or more often.
inline void SharedCopy(std::byte* to, const std::byte* from, size_t bytes) {
  CompilerBarrier();
  if constexpr (kThreadSanitizer) {
#if defined(__x86_64__)
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    asm volatile("1: ldrb w9, [%1], #1\n strb w9, [%0], #1\n subs %2, %2, #1\n b.ne 1b"
                 : "+r"(to), "+r"(from), "+r"(bytes)
                 :
                 : "w9", "cc", "memory");
#endif
  } else {
    std::memcpy(to, from, bytes);
  }
  CompilerBarrier();
}

inline constexpr uintptr_t kCacheLineBytes = 64;

// Prefetches the lines of [address, address + bytes) for reading or for writing. Any address is
// harmless.
template <bool kForWriting>
inline void Prefetch(uintptr_t address, uintptr_t bytes) {
  const uintptr_t end = address + bytes;
  for (uintptr_t line = address & ~(kCacheLineBytes - 1); line < end; line += kCacheLineBytes) {
#if defined(__x86_64__)
    // The builtin falls back to a prefetch for reading unless the target surely has the
    // instruction. Processors that lack it execute it as a no-op.
    if constexpr (kForWriting) {
      asm volatile("prefetchw (%0)" : : "r"(line));
    } else {
      asm volatile("prefetcht0 (%0)" : : "r"(line));
    }
#else
    __builtin_prefetch(reinterpret_cast<const void*>(line), kForWriting);
#endif
  }
}

}  // namespace gossamer::shm
