// Files that a program writes when its work is done, and an early check that it may.
//
// Thread-safety: no shared state. Cost: a few system calls.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer {

// Checks that a file can be opened at `path` for writing. Leaves an existing file unchanged and
// creates none. Errors: InvalidArgument, "cannot write PATH: why".
Status CheckWritable(const std::string& path);

// Replaces the file at `path` by `text`. Errors: InvalidArgument, "cannot write PATH: why".
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace gossamer
