// Lines of a file or a pipe, with their numbers, in bounded memory.
//
// Thread-safety: none. Cost: one copy of the input into a buffer; a line is a view of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/program/stop.h"
#include "common/status.h"

namespace gossamer::cli {

class LineReader {
 public:
  enum class Next : uint8_t {
    kLine,     // `line` and `number` tell
    kTooLong,  // line `number` is longer than `max_line_bytes`: passed over, not kept
    kEnd,
    kStopped,  // a stop was requested while waiting for input
    kFailed,   // the read failed: see `error`
  };

  // Reads from `fd`, which stays the caller's. `stop` may be null.
  LineReader(int fd, size_t max_line_bytes, const Stop* stop = nullptr);

  Next Advance();

  // Of the last line: valid until the next call. `line` excludes the newline.
  std::string_view line() const { return line_; }
  uint64_t number() const { return number_; }
  // Whether the last line ended in a newline: only the last one of a file may not.
  bool terminated() const { return terminated_; }
  // Whether another whole line is here already, so that `Advance` need not wait for input.
  bool has_line() const;
  uint64_t bytes_read() const { return bytes_read_; }
  const std::string& error() const { return error_; }

 private:
  enum class Fill : uint8_t { kData, kEnd, kStopped, kFailed };
  Fill FillBuffer();
  // Drops what is consumed and makes room for a block.
  void MakeRoom();
  Next Finish(size_t end, bool terminated);

  int fd_;
  size_t max_line_bytes_;
  const Stop* stop_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not yet returned
  size_t end_ = 0;    // of what was read
  bool too_long_ = false;
  std::string_view line_;
  uint64_t number_ = 0;
  bool terminated_ = true;
  uint64_t bytes_read_ = 0;
  std::string error_;
};

// Reads at most `bytes` bytes, and waits for some where the descriptor does not block. 0 at the end;
// -1 with errno set, which is never EINTR or EAGAIN, where it fails.
ssize_t ReadSome(int fd, char* buffer, size_t bytes);

// Opens FILE, or stdin for "-". NotFound or InvalidArgument with a sentence if that fails.
class InputFile {
 public:
  static Result<InputFile> Open(const std::string& name);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  int fd() const { return fd_; }
  // As a person calls it: the path, or "standard input".
  const std::string& name() const { return name_; }
  // Of a regular file; else 0.
  uint64_t size() const { return size_; }

 private:
  InputFile(int fd, bool owned, std::string name, uint64_t size);

  int fd_;
  bool owned_;
  std::string name_;
  uint64_t size_;
};

}  // namespace gossamer::cli
