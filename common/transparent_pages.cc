#include "common/transparent_pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "common/huge_pages.h"

namespace gossamer {

// The file reads "always [madvise] never".
bool MayBeTransparent(PageKind kind) {
  const char* const file = kind == PageKind::kPrivate ? "enabled" : "shmem_enabled";
  std::ifstream input(std::string("/sys/kernel/mm/transparent_hugepage/") + file);
  std::string line;
  std::getline(input, line);
  return !line.empty() && line.find("[never]") == std::string::npos &&
         line.find("[deny]") == std::string::npos;
}

uint64_t BytesInTransparentPages(std::span<const std::byte> memory) {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  std::ifstream input("/proc/self/smaps");
  uint64_t bytes = 0;
  uint64_t overlap = 0;  // of the mapping that is being described
  for (std::string line; std::getline(input, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    unsigned long kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2) {
      const uintptr_t first = std::max<uintptr_t>(from, begin);
      const uintptr_t last = std::min<uintptr_t>(to, begin + memory.size());
      overlap = first < last ? last - first : 0;
    } else if (overlap != 0 &&
               (std::sscanf(line.c_str(), "AnonHugePages: %lu", &kibibytes) == 1 ||
                std::sscanf(line.c_str(), "ShmemPmdMapped: %lu", &kibibytes) == 1)) {
      bytes += std::min(uint64_t{kibibytes} << 10, overlap);
    }
  }
  return bytes;
}

std::string DescribeTouched(std::span<const std::byte> memory, std::string without) {
  const uint64_t bytes = BytesInTransparentPages(memory);
  if (bytes == 0 || memory.size() < kHugePageBytes) return without;
  if (bytes >= memory.size() / kHugePageBytes * kHugePageBytes) return "2 MB pages (transparent)";
  return fmt::format("2 MB pages (transparent) for {} %, else 4 KB", 100 * bytes / memory.size());
}

}  // namespace gossamer
