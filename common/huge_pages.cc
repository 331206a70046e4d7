#include "common/huge_pages.h"

#include <fmt/core.h>
#include <linux/mman.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gossamer {
namespace {

std::byte* Map(size_t bytes, int extra_flags) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

Result<MemoryMapping> MapSmallPages(size_t bytes, std::string_view why) {
  std::byte* start = Map(bytes, 0);
  if (start == nullptr) {
    return MakeError(Code::kNoResources, fmt::format("mapping {} bytes: {}", bytes,
                                                     std::generic_category().message(errno)));
  }
  return MemoryMapping(start, bytes, bytes, fmt::format("4 KB pages (no huge pages: {})", why));
}

// The kernel gives them on first touch.
void AskForHugePages(const MemoryMapping& mapping) {
  madvise(mapping.data(), mapping.bytes(), MADV_HUGEPAGE);
}

// Why `bytes` of `what` cannot be mapped, from errno.
Error CannotMap(size_t bytes, const char* what) {
  const bool lacks_memory = errno == ENOMEM;
  std::string text =
      fmt::format("mapping {} bytes{}: {}", bytes, what, std::system_category().message(errno));
  rlimit limit{};
  if (lacks_memory && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(" (this process may map {} bytes in all: raise `ulimit -v` by {})",
                        limit.rlim_cur, bytes);
  }
  return MakeError(Code::kNoResources, std::move(text));
}

// Address space alone. From 2 MB on it starts at a multiple of that: only there can 2 MB pages be.
Result<std::byte*> ReserveAddresses(size_t bytes) {
  const size_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const size_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* data = mmap(nullptr, pages + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return CannotMap(bytes, "");
  auto* start = static_cast<std::byte*>(data);
  if (slack != 0) {
    const size_t head =
        (kHugePageBytes - reinterpret_cast<uintptr_t>(start) % kHugePageBytes) % kHugePageBytes;
    if (head != 0) munmap(start, head);
    if (head != slack) munmap(start + head + pages, slack - head);
    start += head;
  }
  return start;
}

}  // namespace

void MemoryMapping::Unmap::operator()(std::byte* data) const {
  // What an owner has poisoned is not so for what is mapped here next.
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  munmap(data, bytes);
}

Result<MemoryMapping> MapMemory(size_t bytes, bool huge_pages) {
  if (!huge_pages) return MapSmallPages(bytes, "switched off");
  if (bytes % kGiantPageBytes == 0) {
    if (std::byte* data = Map(bytes, MAP_HUGETLB | MAP_HUGE_1GB)) {
      return MemoryMapping(data, bytes, bytes, "1 GB pages");
    }
  }
  const size_t rounded = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (std::byte* data = Map(rounded, MAP_HUGETLB | MAP_HUGE_2MB)) {
    return MemoryMapping(data, bytes, rounded, "2 MB pages");
  }
  BOOST_OUTCOME_TRY(mapping, MapSmallPages(bytes, fmt::format("vm.nr_hugepages gives fewer than {}",
                                                              rounded / kHugePageBytes)));
  AskForHugePages(mapping);
  return mapping;
}

Result<MemoryMapping> MapShared(int file, uint64_t offset, size_t bytes) {
  BOOST_OUTCOME_TRY(start, ReserveAddresses(bytes));
  if (mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    // The kernel has taken the reserved range away first. By now it may be another thread's: to
    // unmap it would be wrong.
    return CannotMap(bytes, " of shared memory");
  }
  return MemoryMapping(start, bytes, bytes, {});
}

Result<MemoryMapping> MapPrivate(size_t bytes) {
  BOOST_OUTCOME_TRY(start, ReserveAddresses(bytes));
  MemoryMapping mapping(start, bytes, bytes, {});
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return CannotMap(bytes, "");
  return mapping;
}

Result<MemoryMapping> MapTransparentPages(size_t bytes) {
  BOOST_OUTCOME_TRY(mapping, MapSmallPages(bytes, "none asked for"));
  AskForHugePages(mapping);
  return mapping;
}

}  // namespace gossamer
