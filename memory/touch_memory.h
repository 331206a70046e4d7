// Makes the machine provide every page of fresh memory now. A page that is missing at its first use
// ends the process in the middle of its clients' work.
//
// Several threads touch memory slice by slice. Before each slice the caller decides whether to go
// on, so that a shortage becomes an error here.
//
// Thread-safety: no other thread may use the memory meanwhile. Its bytes stay as they are.
// Cost: zeroing the memory, about 2 GB/s for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/status.h"

namespace gossamer {

struct TouchOptions {
  size_t slice_bytes = size_t{64} << 20;
  unsigned threads = 0;  // at most; 0: one for each processor, up to 8
  // Whether to ask for 2 MB pages, which Linux 6.1 and later give shared memory whatever
  // transparent_hugepage/shmem_enabled says. Where there are none, the pages have 4 KB.
  bool huge_pages = false;
  // Called before a slice is touched, by one thread at a time. `left`: the bytes of this slice and
  // all slices not yet begun. An error ends the touching.
  std::function<Status(uint64_t left)> may_go_on = {};
  // Called by the calling thread. `done`: bytes touched so far.
  std::function<void(uint64_t done)> progress = {};
};

// Errors: those of `may_go_on`; NoResources if the kernel refuses pages.
Status TouchMemory(std::span<std::byte> memory, const TouchOptions& options);

}  // namespace gossamer
