// How much memory this machine can still give, from /proc/meminfo.
#pragma once

#include <cstdint>
#include <istream>

namespace gossamer {

struct MachineMemory {
  uint64_t available = 0;   // bytes available without swapping; 0: `meminfo` does not say
  uint64_t huge_pages = 0;  // bytes in 2 MB pages set aside, neither used nor reserved
  // Limit and use of promised memory, enforced where vm.overcommit_memory is 2.
  uint64_t commit_limit = 0;
  uint64_t committed = 0;

  // Bytes that one mapping can get. The kernel's "available" excludes the huge pages set aside, so
  // with `may_be_huge` this is the larger of the two.
  uint64_t Room(bool may_be_huge) const;
};

MachineMemory ReadMachineMemory(std::istream& meminfo);

}  // namespace gossamer
