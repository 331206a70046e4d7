// A small file that a flag names, such as one with a password.
#pragma once

#include <sys/stat.h>

#include <string>

#include "common/status.h"

namespace gossamer {

struct TextFile {
  std::string text;
  mode_t mode = 0;  // of the file as it was read, so that what is checked is what was read
};

// Errors: InvalidArgument, a sentence: "cannot read /etc/gossamer/users: Permission denied".
Result<TextFile> ReadTextFile(const std::string& path);

// For a file with passwords. Errors: InvalidArgument, a sentence: others than its owner may write
// to it.
Status CheckOnlyOwnerWrites(const TextFile& file, const std::string& path);

// The password in the first line of a file. Errors: InvalidArgument, a sentence: that of
// ReadTextFile or CheckOnlyOwnerWrites, or that the line is empty.
Result<std::string> ReadPassword(const std::string& path);

}  // namespace gossamer
