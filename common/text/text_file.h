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

// Ok, unless others than its owner may write to the file, which has who may do what. Errors: InvalidArgument, a sentence.
Status CheckOnlyOwnerWrites(const TextFile& file, const std::string& path);

// The password in the first line of a file. Errors: InvalidArgument, a sentence: that of ReadTextFile or CheckOnlyOwnerWrites, or that
// the line is empty.
Result<std::string> ReadPassword(const std::string& path);

}  // namespace gossamer
