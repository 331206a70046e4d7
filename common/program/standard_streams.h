// The standard streams of a program: open before anything else is, and an output that keeps why a
// write failed.
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

// Opens /dev/null in the place of each of the descriptors 0 to 2 that is closed: for writing in the
// place of standard input, for reading in the place of the others, so that to use it fails with
// EBADF. Call before anything opens a file. InvalidArgument where /dev/null cannot be opened.
Status OpenStandardDescriptors();

// Why a read or write of a standard stream failed: "it is closed" for EBADF.
std::string WhyFailed(int error);

// Writes to a descriptor, in blocks, and keeps the errno of the first write that failed; from then
// on nothing is written until that error is taken. Waits where the descriptor does not block.
// Thread-safety: none.
class OutputBuffer : public std::streambuf {
 public:
  explicit OutputBuffer(int fd);

  // Of the first write that failed, or 0; what is written later is tried again.
  int TakeError() { return std::exchange(error_, 0); }

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  // Whether all of it was written.
  bool Write(const char* bytes, size_t count);
  bool Flush();

  const int fd_;
  int error_ = 0;
  std::vector<char> buffer_;
};

// Flushes `out`. InvalidArgument, "cannot write to standard output: why", where it did not take all
// that was written to it since the last call; the reason is known where `out` writes to an
// OutputBuffer.
Status FlushOutput(std::ostream& out);

}  // namespace gossamer
