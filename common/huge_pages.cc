#include "common/huge_pages.h"

#include <fmt/core.h>
#include <linux/mman.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cerrno>
#include <string_view>
#include <system_error>

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

Result<MemoryMapping> MapTransparentPages(size_t bytes) {
  BOOST_OUTCOME_TRY(mapping, MapSmallPages(bytes, "none asked for"));
  AskForHugePages(mapping);
  return mapping;
}

}  // namespace gossamer
