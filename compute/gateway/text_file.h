// A small file that a flag names, such as one with a password.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/status.h"

namespace gossamer::gateway {

struct TextFile {
  std::string text;
  mode_t mode = 0;  // of the file as it was read, so that what is checked is what was read
};

// Errors: InvalidArgument, a sentence: "cannot read /etc/gossamer/users: Permission denied".
Result<TextFile> ReadTextFile(const std::string& path);

}  // namespace gossamer::gateway
