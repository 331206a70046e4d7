#include "common/fabric/shm/handles.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace gossamer::shm {

std::string ErrnoText(const std::string& what) {
  return what + ": " + std::system_category().message(errno);
}

bool LacksDescriptors() { return errno == EMFILE || errno == ENFILE; }

std::string NoDescriptorText() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("no file descriptor left (ulimit -n is {})", limit.rlim_cur);
}

Result<uint64_t> BytesOf(const UniqueFd& file) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return MakeError(Code::kUnsupported, ErrnoText("size of shared memory"));
  }
  return static_cast<uint64_t>(status.st_size);
}

Result<MemoryMapping> MapFile(const UniqueFd& file) {
  BOOST_OUTCOME_TRY(bytes, BytesOf(file));
  return MapShared(file.get(), 0, bytes);
}

Result<UniqueFd> CreateMemfd(const char* name, size_t bytes, bool huge_pages) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING |
                         (huge_pages ? unsigned{MFD_HUGETLB} | unsigned{MFD_HUGE_2MB} : 0U);
  UniqueFd file(::memfd_create(name, flags));
  if (!file && LacksDescriptors()) return MakeError(Code::kNoResources, NoDescriptorText());
  if (!file) return MakeError(Code::kUnsupported, ErrnoText("memfd_create"));
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return MakeError(Code::kNoResources,
                     ErrnoText(fmt::format("shared memory of {} bytes", bytes)));
  }
  return file;
}

}  // namespace gossamer::shm
