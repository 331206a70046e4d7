#include "common/huge_pages.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace gossamer {
namespace {

std::byte* Map(size_t bytes, int extra_flags) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

}  // namespace

MemoryMapping::~MemoryMapping() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

Result<MemoryMapping> MapMemory(size_t bytes, bool huge_pages) {
  std::string why = "switched off";
  if (huge_pages) {
    const size_t rounded = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    if (std::byte* data = Map(rounded, MAP_HUGETLB)) {
      return MemoryMapping(data, bytes, rounded, "2 MB pages");
    }
    why = fmt::format("vm.nr_hugepages gives fewer than {}", rounded / kHugePageBytes);
  }
  std::byte* start = Map(bytes, 0);
  if (start == nullptr) {
    return MakeError(Code::kExhausted, fmt::format("mapping {} bytes: {}", bytes,
                                                   std::generic_category().message(errno)));
  }
  MemoryMapping mapping(start, bytes, bytes, "4 KB pages (no huge pages: " + why + ")");
  // Asks the kernel for huge pages on first touch.
  if (huge_pages) madvise(start, bytes, MADV_HUGEPAGE);
  return mapping;
}

}  // namespace gossamer
