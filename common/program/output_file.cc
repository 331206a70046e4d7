#include "common/program/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/program/standard_streams.h"
#include "common/unique_fd.h"

namespace gossamer {
namespace {

Status CannotWrite(const std::string& path, int error) {
  return MakeError(Code::kInvalidArgument, "cannot write " + path + ": " + std::strerror(error));
}

}  // namespace

Status CheckWritable(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return CannotWrite(path, EISDIR);
    // Do not open it: the reader of a pipe would take the close for the end.
    if (access(path.c_str(), W_OK) != 0) return CannotWrite(path, errno);
    return Ok();
  }
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return CannotWrite(path, errno);
  unlink(path.c_str());
  return Ok();
}

Status WriteFile(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return CannotWrite(path, errno);
  OutputBuffer buffer(file);
  buffer.sputn(text.data(), static_cast<std::streamsize>(text.size()));
  buffer.pubsync();
  const int error = buffer.TakeError();
  // Some file systems detect only on close that they are full.
  if (close(file) != 0 && error == 0) return CannotWrite(path, errno);
  return error == 0 ? Ok() : CannotWrite(path, error);
}

}  // namespace gossamer
