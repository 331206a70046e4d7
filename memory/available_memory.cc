#include "memory/available_memory.h"

#include <algorithm>
#include <string>

#include "common/huge_pages.h"

namespace gossamer {

uint64_t MachineMemory::Room(bool may_be_huge) const {
  return available != 0 && may_be_huge ? std::max(available, huge_pages) : available;
}

MachineMemory ReadMachineMemory(std::istream& meminfo) {
  MachineMemory memory;
  uint64_t free_pages = 0;
  uint64_t reserved_pages = 0;
  uint64_t page_bytes = 0;
  std::string rest_of_line;
  for (std::string name; meminfo >> name; std::getline(meminfo, rest_of_line)) {
    uint64_t number = 0;
    if (!(meminfo >> number)) break;
    if (name == "MemAvailable:") memory.available = number << 10;
    if (name == "CommitLimit:") memory.commit_limit = number << 10;
    if (name == "Committed_AS:") memory.committed = number << 10;
    if (name == "HugePages_Free:") free_pages = number;
    if (name == "HugePages_Rsvd:") reserved_pages = number;
    if (name == "Hugepagesize:") page_bytes = number << 10;
  }
  if (page_bytes == kHugePageBytes) {
    memory.huge_pages = (free_pages - std::min(free_pages, reserved_pages)) * kHugePageBytes;
  }
  return memory;
}

}  // namespace gossamer
