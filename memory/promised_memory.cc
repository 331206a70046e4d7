#include "memory/promised_memory.h"

#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "common/fabric/shm/memory.h"

namespace gossamer {
namespace {

using std::filesystem::directory_iterator;

// Orders processes by start.
using Age = std::pair<uint64_t, pid_t>;

// Field 22 of /proc/PID/stat; field 2, the name in parentheses, may contain anything.
Age AgeOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  uint64_t start = 0;
  std::from_chars(field.data(), field.data() + field.size(), start);
  return {start, pid};
}

// Untouched bytes of one open file, if it belongs to a memory server. `counted`: inodes counted so
// far. A process may have the file open twice, or have passed it on.
uint64_t Untouched(const std::string& file, std::set<ino_t>& counted) {
  struct statfs system{};
  struct stat status{};
  if (::statfs(file.c_str(), &system) != 0 || ::stat(file.c_str(), &status) != 0) return 0;
  // The kernel does not count huge pages set aside as available.
  if (system.f_type == HUGETLBFS_MAGIC || !counted.insert(status.st_ino).second) return 0;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t touched = static_cast<uint64_t>(status.st_blocks) * 512;
  return bytes > touched ? bytes - touched : 0;
}

uint64_t PromisedBy(const std::string& process, std::set<ino_t>& counted) {
  const std::string name = std::string("/memfd:") + shm::kRegionFileName;
  uint64_t bytes = 0;
  std::error_code gone;
  for (directory_iterator file(process + "/fd", gone), end; !gone && file != end;
       file.increment(gone)) {
    std::error_code unreadable;
    const std::string target = std::filesystem::read_symlink(file->path(), unreadable).string();
    if (!unreadable && target.starts_with(name)) bytes += Untouched(file->path(), counted);
  }
  return bytes;
}

}  // namespace

uint64_t PromisedBytesOf(pid_t process) {
  std::set<ino_t> counted;
  return PromisedBy(fmt::format("/proc/{}", process), counted);
}

uint64_t PromisedBytes(Promisers whose) {
  uint64_t bytes = 0;
  std::set<ino_t> counted;
  const Age own = AgeOf(::getpid());
  std::error_code unreadable;
  for (directory_iterator process("/proc", unreadable), end; !unreadable && process != end;
       process.increment(unreadable)) {
    const std::string name = process->path().filename();
    pid_t pid = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || rest != name.data() + name.size()) continue;
    if (whose == Promisers::kOlder && !(AgeOf(pid) < own)) continue;
    bytes += PromisedBy(process->path(), counted);
  }
  return bytes;
}

}  // namespace gossamer
