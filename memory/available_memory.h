// How much memory this machine can still give, as /proc/meminfo says.
#pragma once

#include <cstdint>
#include <istream>

namespace gossamer {

struct MachineMemory {
  uint64_t available = 0;   // bytes that can be had without swapping; 0: `meminfo` does not say
  uint64_t huge_pages = 0;  // bytes set aside as 2 MB pages that nobody has or has reserved
  // What may be promised to processes where vm.overcommit_memory is 2, and what is.
  uint64_t commit_limit = 0;
  uint64_t committed = 0;

  // That one mapping can have. Pages set aside are not among what the kernel calls available, and
  // the other way round: with `may_be_huge`, the larger of the two.
  uint64_t Room(bool may_be_huge) const;
};

MachineMemory ReadMachineMemory(std::istream& meminfo);

}  // namespace gossamer
