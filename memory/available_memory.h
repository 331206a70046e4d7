// How much memory this machine can still give, as /proc/meminfo says.
#pragma once

#include <cstdint>
#include <istream>

namespace gossamer {

// Bytes that one mapping can have without swapping; 0 when `meminfo` does not say. Pages set aside
// as 2 MB pages are not among what the kernel calls available, and the other way round: with
// `huge_pages`, the larger of the two.
uint64_t AvailableBytes(std::istream& meminfo, bool huge_pages);

}  // namespace gossamer
