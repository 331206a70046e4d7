// Files of keys for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "compute/bench/key_list.h"

namespace gossamer::bench {

// A file with this text, until the end of its life.
class KeyFile {
 public:
  explicit KeyFile(std::string_view text) : path_(testing::TempDir() + "gossamer_keys_XXXXXX") {
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0);
    close(file);
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~KeyFile() { unlink(path_.c_str()); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  const std::string& path() const { return path_; }
  // The longest lines that KeyList has room for.
  KeyListOptions options() const { return {.path = path_, .most_lines = 0, .most_bytes = 250}; }

 private:
  std::string path_;
};

}  // namespace gossamer::bench
