// Counts what each thread of a test's program allocates and frees on the heap.
//
//   const uint64_t before = allocations;
//   …
//   EXPECT_EQ(allocations, before);
//
// It replaces the global operators: one source of a program includes it.
//
// Thread-safety: each thread sees its own counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gossamer {

inline thread_local uint64_t allocations = 0;
inline thread_local uint64_t releases = 0;

}  // namespace gossamer

// Not inlined: g++ would report a mismatch between a `new` that it does not see and the `free`.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++gossamer::allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  ++gossamer::allocations;
  const auto grain = static_cast<size_t>(alignment);
  void* memory = std::aligned_alloc(grain, (bytes + grain - 1) / grain * grain);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) ++gossamer::releases;
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  operator delete(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  operator delete(memory);
}
