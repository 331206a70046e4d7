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
namespace {

// Why `bytes` of `what` cannot be mapped, from errno.
Error CannotMap(size_t bytes, const char* what) {
  const bool lacks_memory = errno == ENOMEM;
  std::string text = ErrnoText(fmt::format("mapping {} bytes{}", bytes, what));
  rlimit limit{};
  if (lacks_memory && ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(" (this process may map {} bytes in all: raise `ulimit -v` by {})",
                        limit.rlim_cur, bytes);
  }
  return MakeError(Code::kNoResources, std::move(text));
}

// Address space alone. From 2 MB on it starts at a multiple of that: only there can 2 MB pages be.
Result<std::byte*> Reserve(size_t bytes) {
  const size_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const size_t slack = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* data = ::mmap(nullptr, pages + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return CannotMap(bytes, "");
  auto* start = static_cast<std::byte*>(data);
  if (slack != 0) {
    const size_t head =
        (kHugePageBytes - reinterpret_cast<uintptr_t>(start) % kHugePageBytes) % kHugePageBytes;
    if (head != 0) ::munmap(start, head);
    if (head != slack) ::munmap(start + head + pages, slack - head);
    start += head;
  }
  return start;
}

}  // namespace

std::string ErrnoText(const std::string& what) {
  return what + ": " + std::system_category().message(errno);
}

bool LacksDescriptors() { return errno == EMFILE || errno == ENFILE; }

std::string NoDescriptorText() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("no file descriptor left (ulimit -n is {})", limit.rlim_cur);
}

Result<MemoryMapping> MapFile(const UniqueFd& file) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return MakeError(Code::kUnsupported, ErrnoText("size of shared memory"));
  }
  const auto bytes = static_cast<size_t>(status.st_size);
  BOOST_OUTCOME_TRY(start, Reserve(bytes));
  if (::mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) ==
      MAP_FAILED) {
    // The kernel has taken the reserved range away first. By now it may be another thread's: to
    // unmap it would be wrong.
    return CannotMap(bytes, " of shared memory");
  }
  return MemoryMapping(start, bytes, bytes, {});
}

Result<MemoryMapping> MapAnonymous(size_t bytes) {
  BOOST_OUTCOME_TRY(start, Reserve(bytes));
  MemoryMapping mapping(start, bytes, bytes, {});
  if (::mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return CannotMap(bytes, "");
  return mapping;
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
