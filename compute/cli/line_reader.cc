#include "compute/cli/line_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/program/standard_streams.h"

namespace gossamer::cli {
namespace {

constexpr size_t kBlockBytes = 256 << 10;

}  // namespace

LineReader::LineReader(int fd, size_t max_line_bytes, const Stop* stop)
    : fd_(fd), max_line_bytes_(max_line_bytes), stop_(stop) {}

LineReader::Next LineReader::Advance() {
  size_t searched = begin_;
  for (;;) {
    const void* newline = std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (newline != nullptr) {
      const auto end = static_cast<size_t>(static_cast<const char*>(newline) - buffer_.data());
      return Finish(end, true);
    }
    if (end_ - begin_ > max_line_bytes_) {  // drop the line, in bounded memory
      too_long_ = true;
      begin_ = end_;
    }
    searched = end_;
    const size_t old_begin = begin_;
    const std::optional<Next> no_data = FillBuffer();
    if (no_data == Next::kEnd && (begin_ != end_ || too_long_)) return Finish(end_, false);
    if (no_data) return *no_data;
    searched -= old_begin - begin_;
  }
}

bool LineReader::has_line() const {
  return std::memchr(buffer_.data() + begin_, '\n', end_ - begin_) != nullptr;
}

LineReader::Next LineReader::Finish(size_t end, bool terminated) {
  line_ = std::string_view(buffer_).substr(begin_, end - begin_);
  begin_ = terminated ? end + 1 : end;
  terminated_ = terminated;
  ++number_;
  const bool too_long = std::exchange(too_long_, false) || line_.size() > max_line_bytes_;
  return too_long ? Next::kTooLong : Next::kLine;
}

void LineReader::MakeRoom() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kBlockBytes) buffer_.resize(end_ + kBlockBytes);
}

std::optional<LineReader::Next> LineReader::FillBuffer() {
  MakeRoom();
  for (;;) {
    pollfd waits[2] = {{fd_, POLLIN, 0}, {stop_ == nullptr ? -1 : stop_->fd(), POLLIN, 0}};
    if (poll(waits, 2, -1) < 0 && errno != EINTR) break;
    if (stop_ != nullptr && stop_->raised()) return Next::kStopped;
    if (waits[0].revents == 0) continue;
    const ssize_t got = read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    if (got > 0) {
      end_ += static_cast<size_t>(got);
      bytes_read_ += static_cast<uint64_t>(got);
      return std::nullopt;
    }
    if (got == 0) return Next::kEnd;
    if (errno != EINTR && errno != EAGAIN) break;
  }
  error_ = WhyFailed(errno);
  return Next::kFailed;
}

ssize_t ReadSome(int fd, char* buffer, size_t bytes) {
  for (;;) {
    const ssize_t got = read(fd, buffer, bytes);
    if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return got;
    pollfd wait{fd, POLLIN, 0};
    if (errno == EAGAIN) poll(&wait, 1, -1);
  }
}

Result<InputFile> InputFile::Open(const std::string& name) {
  if (name == "-") return InputFile({}, "standard input", 0);
  UniqueFd file(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument;
    return MakeError(code, "cannot open " + name + ": " + std::strerror(errno));
  }
  struct stat status = {};
  fstat(file.get(), &status);
  if (S_ISDIR(status.st_mode)) {
    return MakeError(Code::kInvalidArgument, name + " is a directory, not a file");
  }
  const auto size = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
  return InputFile(std::move(file), name, size);
}

}  // namespace gossamer::cli
