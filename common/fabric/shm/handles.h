// The operating-system resources of the shm fabric: mappings, and what errno says of descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/huge_pages.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::shm {

// "WHAT: the text of errno"
std::string ErrnoText(const std::string& what);

// Whether errno says that this process or the machine has no file descriptor left.
bool LacksDescriptors();
// "no file descriptor left (ulimit -n is 1024)"
std::string NoDescriptorText();

// The size of a file. Errors: Unsupported.
Result<uint64_t> BytesOf(const UniqueFd& file);
// Maps the whole of a memfd, shared.
Result<MemoryMapping> MapFile(const UniqueFd& file);

// A zeroed memfd of sealed size, so that no process can remove pages from another.
Result<UniqueFd> CreateMemfd(const char* name, size_t bytes, bool huge_pages);

}  // namespace gossamer::shm
