// Lines of a file or a pipe, with line numbers, in bounded memory.
//
// Thread-safety: none.
// Cost: one copy of the input into a buffer. A line is a view of the buffer.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/program/stop.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::cli {

class LineReader {
 public:
  enum class Next : uint8_t {
    kLine,     // see `line` and `number`
    kTooLong,  // line `number` is longer than `max_line_bytes` and was dropped
    kEnd,
    kStopped,  // a stop was requested while waiting for input
    kFailed,   // the read failed: see `error`
  };

  // Reads from `fd` but does not own it. `stop` may be null.
  LineReader(int fd, size_t max_line_bytes, const Stop* stop = nullptr);

  Next Advance();

  // The last line, valid until the next call. `line` excludes the newline.
  std::string_view line() const { return line_; }
  uint64_t number() const { return number_; }
  // Whether the last line ended in a newline. Only the last line of a file may lack it.
  bool terminated() const { return terminated_; }
  // Whether another whole line is buffered, so that `Advance` need not wait for input.
  bool has_line() const;
  uint64_t bytes_read() const { return bytes_read_; }
  const std::string& error() const { return error_; }

 private:
  // Returns nullopt if it has brought data.
  std::optional<Next> FillBuffer();
  // Drops consumed bytes and makes room for a block.
  void MakeRoom();
  Next Finish(size_t end, bool terminated);

  int fd_;
  size_t max_line_bytes_;
  const Stop* stop_;
  std::string buffer_;
  size_t begin_ = 0;  // start of what was not yet returned
  size_t end_ = 0;    // end of what was read
  bool too_long_ = false;
  std::string_view line_;
  uint64_t number_ = 0;
  bool terminated_ = true;
  uint64_t bytes_read_ = 0;
  std::string error_;
};

// Reads at most `bytes` bytes. Waits for input, also on a non-blocking descriptor.
// Returns: 0 at the end; -1 on failure, with errno set, never to EINTR or EAGAIN.
ssize_t ReadSome(int fd, char* buffer, size_t bytes);

// Opens a file, or standard input for "-".
// Errors: NotFound or InvalidArgument, with a sentence.
class InputFile {
 public:
  static Result<InputFile> Open(const std::string& name);
  int fd() const { return owned_ ? owned_.get() : STDIN_FILENO; }
  // For messages: the path, or "standard input".
  const std::string& name() const { return name_; }
  // Size of a regular file; otherwise 0.
  uint64_t size() const { return size_; }

 private:
  InputFile(UniqueFd owned, std::string name, uint64_t size)
      : owned_(std::move(owned)), name_(std::move(name)), size_(size) {}

  UniqueFd owned_;  // none: standard input
  std::string name_;
  uint64_t size_;
};

}  // namespace gossamer::cli
