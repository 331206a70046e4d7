// The operating-system resources of the shm fabric: mappings, and what errno says of descriptors.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::shm {

inline constexpr size_t kPageBytes = 4096;

// "WHAT: the text of errno"
std::string ErrnoText(const std::string& what);

// Whether errno says that this process or the machine has no file descriptor left.
bool LacksDescriptors();
// "no file descriptor left (ulimit -n is 1024)"
std::string NoDescriptorText();

// Owns mapped pages until destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  // Maps the whole of a memfd, shared.
  static Result<Mapping> OfFile(const UniqueFd& file);
  // `bytes` of zeroed private memory.
  static Result<Mapping> Anonymous(size_t bytes);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

  // Address space alone. From 2 MB on it starts at a multiple of that: only there can 2 MB pages
  // be.
  static Result<Mapping> Reserve(size_t bytes);

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// A zeroed memfd of sealed size, so that no process can remove pages from another.
Result<UniqueFd> CreateMemfd(const char* name, size_t bytes, bool huge_pages);

}  // namespace gossamer::shm
