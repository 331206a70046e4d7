#include "common/fabric/shm/socket_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "common/file_lock.h"
#include "common/random_id.h"

namespace gossamer::shm {
namespace {

constexpr std::string_view kPrefix = "gossamer-";
constexpr std::string_view kLockSuffix = ".sock.lock";

// The lock file of a fresh path: gossamer-ID.sock.lock, or with PID-NUMBER for ID, as earlier
// versions had it. Other paths were chosen by users, who remove them.
bool IsFreshLockName(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kLockSuffix) ||
      name.size() <= kPrefix.size() + kLockSuffix.size()) {
    return false;
  }
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kLockSuffix.size());
  const auto is_id_character = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  };
  return std::ranges::all_of(name, is_id_character);
}

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

// Returns the lock of a regular file of this user that no process has locked and that still has its
// name; else empty.
UniqueFd LockOfDeadServer(int directory, const char* name) {
  UniqueFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat opened{};
  struct stat named{};
  if (!file || ::fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode) ||
      opened.st_uid != ::geteuid() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0 || !IsSameFile(opened, named)) {
    return {};
  }
  return file;
}

bool RemoveSocket(int directory, const std::string& name) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  return S_ISSOCK(info.st_mode) && ::unlinkat(directory, name.c_str(), 0) == 0;
}

}  // namespace

std::string RuntimeDirectory() {
  const char* directory = std::getenv("XDG_RUNTIME_DIR");
  return directory != nullptr && directory[0] == '/' ? directory : "/tmp";
}

std::string FreshSocketPath() {
  return fmt::format("{}/{}{:016x}.sock", RuntimeDirectory(), kPrefix, RandomId());
}

UniqueFd TakeLockFile(const std::string& path) {
  for (;;) {
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || !LockFile(file.get())) return {};
    // The last owner may have removed the opened file; the lock would then protect nothing.
    struct stat opened{};
    struct stat named{};
    if (::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
        IsSameFile(opened, named)) {
      return file;
    }
  }
}

size_t ClearDeadSockets(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  if (stream == nullptr) return 0;
  std::vector<std::string> lock_names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (IsFreshLockName(entry->d_name)) lock_names.emplace_back(entry->d_name);
  }
  const int at = ::dirfd(stream.get());
  size_t cleared = 0;
  for (const std::string& lock_name : lock_names) {
    const UniqueFd lock = LockOfDeadServer(at, lock_name.c_str());
    if (!lock) continue;
    const std::string socket_name = lock_name.substr(0, lock_name.size() - strlen(".lock"));
    // The lock file last: without it, the socket's owner would be unknown.
    if (RemoveSocket(at, socket_name) && ::unlinkat(at, lock_name.c_str(), 0) == 0) ++cleared;
  }
  return cleared;
}

}  // namespace gossamer::shm
