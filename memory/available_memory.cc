#include "memory/available_memory.h"

#include <algorithm>
#include <string>

#include "common/huge_pages.h"

namespace gossamer {

uint64_t AvailableBytes(std::istream& meminfo, bool huge_pages) {
  uint64_t available = 0;
  uint64_t free_huge_pages = 0;
  uint64_t huge_page_bytes = 0;
  std::string rest_of_line;
  for (std::string name; meminfo >> name; std::getline(meminfo, rest_of_line)) {
    uint64_t number = 0;
    if (!(meminfo >> number)) break;
    if (name == "MemAvailable:") available = number << 10;
    if (name == "HugePages_Free:") free_huge_pages = number;
    if (name == "Hugepagesize:") huge_page_bytes = number << 10;
  }
  if (available == 0 || !huge_pages || huge_page_bytes != kHugePageBytes) return available;
  return std::max(available, free_huge_pages * kHugePageBytes);
}

}  // namespace gossamer
