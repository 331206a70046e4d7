// Has the machine give every page of fresh memory now, so that none is missing later: a page that
// cannot be had when it is first used ends the process, in the middle of its clients' work.
//
// Memory is touched slice by slice, by several threads. Before each slice the caller says whether to
// go on, so that a shortage is an error here.
//
// Thread-safety: nobody else uses the memory meanwhile; its bytes stay as they are. Cost: zeroing
// it, about 2 GB/s a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/status.h"

namespace gossamer {

struct TouchOptions {
  size_t slice_bytes = size_t{64} << 20;
  unsigned threads = 0;  // at most; 0: as many as the machine has processors, up to 8
  // Before a slice is touched, with the bytes of it and of all that nobody has begun: an error ends
  // the touching. By one thread at a time.
  std::function<Status(uint64_t left)> may_go_on = {};
  // Of the calling thread, with the bytes that have been touched.
  std::function<void(uint64_t done)> progress = {};
};

// Errors: that of `may_go_on`; Exhausted when the kernel refuses pages.
Status TouchMemory(std::span<std::byte> memory, const TouchOptions& options);

}  // namespace gossamer
