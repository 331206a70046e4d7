// What the last system call of this thread failed of, in words.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace gossamer {

inline std::string ErrnoReason() { return std::generic_category().message(errno); }

}  // namespace gossamer
