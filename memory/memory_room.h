// Whether there is room for a memory server's memory, by every limit that would otherwise end the
// process at some later touch of it: what the machine has, what control groups allow, what may be
// promised (vm.overcommit_memory=2), and the limits of the process (ulimit). /dev/shm is none of
// them: shared memory here has no file system.
//
// Errors: Exhausted, with a sentence that says what is too small, by how much, and what to do. What
// the machine does not say is no limit. `root` stands before /proc and /sys: for tests.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace gossamer {

struct MemoryWish {
  uint64_t bytes = 0;
  bool is_shared = false;    // a file in memory, else memory of this process alone
  bool is_locked = false;    // as what is registered with an RDMA device
  bool may_be_huge = false;  // may come from the pages that the machine has set aside
  uint64_t promised = 0;     // to others, by PromisedBytes
};

// Whether the pages that were set aside suffice: what is mapped then is reserved, and counts against
// nothing else.
bool FitsHugePages(const MemoryWish& wish, const std::string& root = {});

// Before anything is mapped. Beside the wish itself, there has to be room for page tables and the
// rest of the process.
Status CheckRoom(const MemoryWish& wish, const std::string& root = {});

// While mapped memory is being touched: `wish.bytes` are what is left to be touched.
Status CheckRoomLeft(const MemoryWish& wish, const std::string& root = {});

}  // namespace gossamer
