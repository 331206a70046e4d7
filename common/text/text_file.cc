#include "common/text/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/unique_fd.h"

namespace gossamer {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

Error CannotRead(const std::string& path, const std::string& why) {
  return MakeError(Code::kInvalidArgument, "cannot read " + path + ": " + why);
}

}  // namespace

Result<TextFile> ReadTextFile(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found{};
  if (!file || fstat(file.get(), &found) != 0) return CannotRead(path, std::strerror(errno));
  TextFile read_file;
  read_file.mode = found.st_mode;
  // Read to its end: a pipe has no size.
  constexpr size_t kPiece = 64 * 1024;
  for (;;) {
    const size_t before = read_file.text.size();
    if (before > kMostBytes) return CannotRead(path, "it is longer than 16 MiB");
    read_file.text.resize(before + kPiece);
    const ssize_t got = read(file.get(), read_file.text.data() + before, kPiece);
    if (got < 0 && errno != EINTR) return CannotRead(path, std::strerror(errno));
    read_file.text.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got == 0) return read_file;
  }
}

Status CheckOnlyOwnerWrites(const TextFile& file, const std::string& path) {
  // A terminal is a device, to which its group may write.
  if ((file.mode & (S_IWGRP | S_IWOTH)) == 0 || S_ISCHR(file.mode)) return Ok();
  return MakeError(Code::kInvalidArgument,
                   "others may write to " + path + ": take that from them (chmod go-w)");
}

Result<std::string> ReadPassword(const std::string& path) {
  BOOST_OUTCOME_TRY(file, ReadTextFile(path));
  BOOST_OUTCOME_TRYV(CheckOnlyOwnerWrites(file, path));
  std::string password = file.text.substr(0, file.text.find('\n'));
  if (password.ends_with('\r')) password.pop_back();  // written on Windows
  if (!password.empty()) return password;
  return MakeError(Code::kInvalidArgument, path + " has no password in its first line");
}

}  // namespace gossamer
