// Private, zeroed memory in pages of 1 GB or 2 MB if the machine has set enough of them aside, else
// in 4 KB pages that the kernel is asked to merge (transparent 2 MB pages). Mapping reserves large
// pages and touches none. Pages of 1 GB serve memory that is a multiple of that.
//
// Thread-safety: a mapping is a plain owner. Cost: a few system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/status.h"

namespace gossamer {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
inline constexpr size_t kGiantPageBytes = size_t{1} << 30;

// Owns mapped memory until destroyed.
class MemoryMapping {
 public:
  MemoryMapping() = default;
  MemoryMapping(std::byte* data, size_t bytes, size_t mapped_bytes, std::string description)
      : data_(data, Unmap{mapped_bytes}), bytes_(bytes), description_(std::move(description)) {}

  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }
  // With the rest of the last page.
  std::span<std::byte> whole_pages() const { return {data(), data_.get_deleter().bytes}; }
  // "1 GB pages", "2 MB pages", or "4 KB pages (no huge pages: WHY)".
  const std::string& description() const { return description_; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* data) const;
  };

  std::unique_ptr<std::byte, Unmap> data_;
  size_t bytes_ = 0;
  std::string description_;
};

// Errors: NoResources when the machine lacks `bytes` of memory.
Result<MemoryMapping> MapMemory(size_t bytes, bool huge_pages);
// Maps [offset, offset + bytes) of a file, shared. From 2 MB on, the address is a multiple of that
// if `offset` is: only there can 2 MB pages be.
// Errors: NoResources.
Result<MemoryMapping> MapShared(int file, uint64_t offset, size_t bytes);
// Zeroed private memory, at such an address. Errors: NoResources.
Result<MemoryMapping> MapPrivate(size_t bytes);
// The same in transparent pages: takes none of those that vm.nr_hugepages reserves.
Result<MemoryMapping> MapTransparentPages(size_t bytes);

}  // namespace gossamer
