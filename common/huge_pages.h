// Private, zeroed memory in 2 MB pages if the machine has any, else in 4 KB pages that the kernel
// is asked to merge (transparent 2 MB pages). Mapping reserves 2 MB pages and touches none.
//
// Thread-safety: a mapping is a plain owner. Cost: a few system calls.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "common/status.h"

namespace gossamer {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Owns mapped memory until destroyed.
class MemoryMapping {
 public:
  MemoryMapping() = default;
  MemoryMapping(std::byte* data, size_t bytes, size_t mapped_bytes, std::string description)
      : data_(data),
        bytes_(bytes),
        mapped_bytes_(mapped_bytes),
        description_(std::move(description)) {}
  MemoryMapping(MemoryMapping&& other) noexcept { *this = std::move(other); }
  MemoryMapping& operator=(MemoryMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(description_, other.description_);
    return *this;
  }
  ~MemoryMapping();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  // "2 MB pages", or "4 KB pages (no huge pages: WHY)".
  const std::string& description() const { return description_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_bytes_ = 0;
  std::string description_;
};

// Errors: NoResources when the machine lacks `bytes` of memory.
Result<MemoryMapping> MapMemory(size_t bytes, bool huge_pages);
// The same in transparent pages: takes none of those that vm.nr_hugepages reserves.
Result<MemoryMapping> MapTransparentPages(size_t bytes);

}  // namespace gossamer
