#include "memory/touch_memory.h"

#include <glog/logging.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "common/huge_pages.h"
#include "common/text/human.h"

namespace gossamer {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr unsigned kMostThreads = 8;  // zeroing is limited by memory bandwidth, not by processors

// For kernels before 5.14. Adding 0 is a write.
void WriteEachPage(std::span<std::byte> slice) {
  for (size_t at = 0; at < slice.size(); at += kPageBytes) {
    std::atomic_ref(*reinterpret_cast<unsigned char*>(&slice[at])).fetch_add(0);
  }
}

// Returns 0 or an errno.
int Populate(std::span<std::byte> slice) {
  while (::madvise(slice.data(), slice.size(), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR) continue;
    if (errno != EINVAL) return errno;
    WriteEachPage(slice);
    return 0;
  }
  return 0;
}

// Best effort. A 2 MB page is made where there is a small one. One call for all of them, because
// each call makes the kernel empty lists of pages that all processors have.
void MergePages(std::span<std::byte> slice) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name
  void* first = slice.data();
  size_t bytes = slice.size();
  if (std::align(kHugePageBytes, kHugePageBytes, first, bytes) == nullptr) return;
  bytes = bytes / kHugePageBytes * kHugePageBytes;
  auto* const start = static_cast<std::byte*>(first);
  for (size_t at = 0; at < bytes; at += kHugePageBytes) {
    if (::madvise(start + at, kPageBytes, MADV_POPULATE_WRITE) != 0) return;
  }
  ::madvise(start, bytes, kCollapse);
}

class Toucher {
 public:
  Toucher(std::span<std::byte> memory, const TouchOptions& options)
      : memory_(memory), options_(options) {}

  Status Run() {
    std::vector<std::jthread> helpers;
    try {
      for (unsigned i = 1; i < Threads(); ++i) helpers.emplace_back([this] { TouchSlices(); });
    } catch (const std::system_error& error) {
      LOG(WARNING) << "touching memory by " << helpers.size() + 1 << " threads: " << error.what();
    }
    while (TouchOne()) {
      if (options_.progress) options_.progress(done_);
    }
    helpers.clear();
    if (error_) return *error_;
    return Ok();
  }

 private:
  unsigned Threads() const {
    const size_t slices = (memory_.size() + options_.slice_bytes - 1) / options_.slice_bytes;
    const unsigned most = options_.threads != 0
                              ? options_.threads
                              : std::min(std::thread::hardware_concurrency(), kMostThreads);
    return static_cast<unsigned>(std::min<size_t>(slices, most));
  }

  void TouchSlices() {
    while (TouchOne()) continue;
  }

  // Returns false if nothing is left or an error occurred.
  bool TouchOne() {
    const std::span<std::byte> slice = Take();
    if (slice.empty()) return false;
    if (options_.huge_pages) MergePages(slice);
    if (const int error = Populate(slice); error != 0) {
      Fail(Refused(error));
      return false;
    }
    done_ += slice.size();
    return true;
  }

  std::span<std::byte> Take() {
    const std::lock_guard guard(mutex_);
    const size_t left = memory_.size() - taken_;
    if (left == 0 || error_) return {};
    if (options_.may_go_on) {
      if (const Status status = options_.may_go_on(left); !status) {
        error_ = status.error();
        return {};
      }
    }
    const std::span<std::byte> slice =
        memory_.subspan(taken_, std::min(left, options_.slice_bytes));
    taken_ += slice.size();
    return slice;
  }

  // EFAULT: the access would have been a bus error.
  Error Refused(int error) const {
    const std::string why = error == EFAULT
                                ? "this machine or a control group has no page left of the kind"
                                : std::generic_category().message(error);
    return MakeError(Code::kNoResources, "after " + HumanBytes(done_) + " of " +
                                             HumanBytes(memory_.size()) +
                                             " of memory the kernel gives no more: " + why +
                                             "; give less, or free some");
  }

  void Fail(const Error& error) {
    const std::lock_guard guard(mutex_);
    if (!error_) error_ = error;
  }

  const std::span<std::byte> memory_;
  const TouchOptions& options_;
  std::atomic<uint64_t> done_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_ while helper threads run.
  size_t taken_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Status TouchMemory(std::span<std::byte> memory, const TouchOptions& options) {
  return Toucher(memory, options).Run();
}

}  // namespace gossamer
