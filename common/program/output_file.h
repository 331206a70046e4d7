// Files that a program writes when its work is done: whether it may is worth knowing before.
//
// Thread-safety: none is needed. Cost: a few system calls.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer {

// InvalidArgument, "cannot write PATH: why", if a file cannot be opened there for writing. Leaves what is there as it is,
// and nothing where nothing is.
Status CheckWritable(const std::string& path);

// Replaces what is at `path` by `text`. InvalidArgument, "cannot write PATH: why", if that fails.
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace gossamer
