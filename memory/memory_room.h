// Whether a memory server's memory fits every limit that could otherwise kill the process when it
// touches memory later: the machine's memory, control groups (containers, systemd units; versions 1
// and 2, where systems mount them), and process limits (ulimit). The size of /dev/shm does not
// matter: shared memory here is not in a file system.
//
// What other memory servers have not touched yet counts as available. Servers that start together
// and are too large together learn it while they touch their memory: one of them ends, or both.
//
// Errors: NoResources. The message says what is too small, by how much, and what to do. A limit
// that cannot be read is no limit. `root` prefixes /proc and /sys: for tests.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace gossamer {

struct MemoryWish {
  uint64_t bytes = 0;
  bool is_shared = false;     // a memory file; otherwise private memory
  bool is_mapped = false;     // its addresses are taken already
  bool is_locked = false;     // memory registered with an RDMA device is locked
  bool may_be_huge = false;   // may use the 2 MB pages that the machine has set aside
  bool may_be_giant = false;  // and, but for a little, those of 1 GB
  uint64_t bookkeeping = 0;   // private memory about the heap, which is touched as that breaks up
};

// Whether the huge pages set aside suffice. Mapping reserves them, and they count against no other
// limit.
bool FitsHugePages(const MemoryWish& wish, const std::string& root = {});

// Checks before memory is mapped. Page tables, bookkeeping and the rest of the process must fit
// too.
Status CheckRoom(const MemoryWish& wish, const std::string& root = {});

// Checks while mapped memory is touched. `wish.bytes`: bytes left to touch.
Status CheckRoomLeft(const MemoryWish& wish, const std::string& root = {});

}  // namespace gossamer
