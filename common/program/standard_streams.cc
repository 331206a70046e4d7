#include "common/program/standard_streams.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gossamer {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

std::string WhyFailed(int error) { return error == EBADF ? "it is closed" : std::strerror(error); }

Status OpenStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() takes the lowest free descriptor: this one.
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened < 0) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("descriptor {} is closed, and /dev/null cannot be opened: {}",
                                   fd, std::strerror(errno)));
    }
  }
  return Ok();
}

OutputBuffer::OutputBuffer(int fd) : fd_(fd), buffer_(kBufferBytes) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

OutputBuffer::int_type OutputBuffer::overflow(int_type byte) {
  if (!Flush()) return traits_type::eof();
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  return sputc(traits_type::to_char_type(byte));
}

std::streamsize OutputBuffer::xsputn(const char* bytes, std::streamsize count) {
  if (count > epptr() - pptr() && !Flush()) return 0;
  if (count > epptr() - pptr()) return Write(bytes, static_cast<size_t>(count)) ? count : 0;
  std::copy_n(bytes, count, pptr());
  pbump(static_cast<int>(count));
  return count;
}

int OutputBuffer::sync() { return Flush() ? 0 : -1; }

bool OutputBuffer::Flush() {
  const bool written = Write(pbase(), static_cast<size_t>(pptr() - pbase()));
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return written;
}

bool OutputBuffer::Write(const char* bytes, size_t count) {
  while (error_ == 0 && count > 0) {
    const ssize_t written = write(fd_, bytes, count);
    if (written >= 0) {
      bytes += written;
      count -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd wait{fd_, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  return error_ == 0;
}

Status FlushOutput(std::ostream& out) {
  if (out.flush().good()) return Ok();
  out.clear();
  std::string sentence = "cannot write to standard output";
  auto* const buffer = dynamic_cast<OutputBuffer*>(out.rdbuf());
  const int error = buffer == nullptr ? 0 : buffer->TakeError();
  if (error != 0) sentence += ": " + WhyFailed(error);
  return MakeError(Code::kInvalidArgument, sentence);
}

}  // namespace gossamer
