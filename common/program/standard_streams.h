// The standard streams of a program: open before any other file, and an output that keeps the
// reason of a failed write.
//
// A program may be started with standard input, output or error closed. The next file that it opens
// would then get that descriptor: a read of "standard input" would wait on a pipe of the program's
// own, and a result would be written into a socket.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"

namespace gossamer {

// Opens /dev/null in place of each closed descriptor from 0 to 2: for writing in place of standard
// input, for reading in place of the others, so that using it fails with EBADF. Errors:
// InvalidArgument if /dev/null cannot be opened. Requires (unchecked): called before anything opens
// a file.
Status OpenStandardDescriptors();

// The reason why a read or write of a standard stream failed: "it is closed" for EBADF.
std::string WhyFailed(int error);

// Writes to a descriptor in blocks, and keeps the errno of the first failed write; writes nothing
// more until that error is taken. Waits if the descriptor is non-blocking.
// Thread-safety: none.
class OutputBuffer : public std::streambuf {
 public:
  explicit OutputBuffer(int fd);

  // Returns the errno of the first failed write, or 0. Later writes are tried again.
  int TakeError() { return std::exchange(error_, 0); }

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  // Returns whether all bytes were written.
  bool Write(const char* bytes, size_t count);
  bool Flush();

  const int fd_;
  int error_ = 0;
  std::vector<char> buffer_;
};

// Flushes `out`. Errors: InvalidArgument, "cannot write to standard output: why", if `out` did not
// take all that was written to it since the last call. The reason is known if `out` writes to an
// OutputBuffer.
Status FlushOutput(std::ostream& out);

}  // namespace gossamer
