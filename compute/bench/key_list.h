// The keys of a file: its lines, without the newlines that end them.
//
// A line's bytes are taken as they are: no escapes, no trimming. Lines are numbered by *ids*.
// `Shuffle` gives the ids a random order within the records to load and within those to insert
// later.
//
// Thread-safety: immutable but for `Shuffle`.
// Cost: the bytes of the lines, and 8 bytes for each; while it is read, 16 to 32 bytes for each
// besides.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gossamer::bench {

struct KeyListOptions {
  std::string path;
  uint64_t most_lines = 0;  // reads no more; 0: all
  uint32_t most_bytes = 0;  // of a line
};

class KeyList {
 public:
  // Errors: InvalidArgument, with the path and the number of the line: the file cannot be read or
  // is empty; a line is empty, longer than `most_bytes`, or the same as one before.
  static Result<KeyList> Read(const KeyListOptions& options);

  const std::string& path() const { return path_; }
  uint64_t size() const { return lines_.size(); }
  // The lengths of the longest line, and of all lines together.
  uint32_t longest() const { return longest_; }
  uint64_t bytes() const { return bytes_; }
  // The line of an id. Before `Shuffle`: the id-th of the file. Requires: id < size().
  std::string_view line(uint64_t id) const {
    assert(id < size());
    return {text_.data() + (lines_[id] >> kLengthBits), lines_[id] & kMaxLength};
  }

  // Puts the lines below `records` in a random order, and those above. The order depends on nothing
  // else, so that the load phase and the run phase agree in which ids have which keys. Requires:
  // records <= size().
  void Shuffle(uint64_t records);

 private:
  static constexpr uint32_t kLengthBits = 8;
  static constexpr uint64_t kMaxLength = (1 << kLengthBits) - 1;

  Status ReadLines(int file, const KeyListOptions& options);
  Status AddLine(uint64_t at, uint64_t length, const KeyListOptions& options);
  Status CheckDistinct(const KeyListOptions& options) const;

  std::string path_;
  std::string text_;
  std::vector<uint64_t> lines_;  // of each: its offset in text_ << kLengthBits | its length
  uint32_t longest_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gossamer::bench
