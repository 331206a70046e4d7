#include "common/fabric/shm/memory.h"

#include <fmt/core.h>
#include <glog/logging.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>

#include "common/random_id.h"
#include "common/transparent_pages.h"

namespace gossamer::shm {
namespace {

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The memory servers of this process. The fabric's only state outside its objects: a client in the
// server's own process has no other way to the server's object.
class InProcessTable {
 public:
  static InProcessTable& Instance() {
    static InProcessTable table;
    return table;
  }

  void Add(const std::shared_ptr<SharedMemory>& memory) {
    const std::lock_guard guard(mutex_);
    std::erase_if(memories_, [](const auto& entry) { return entry.second.expired(); });
    memories_[memory->token()] = memory;
  }

  std::shared_ptr<SharedMemory> Find(uint64_t token) {
    const std::lock_guard guard(mutex_);
    const auto found = memories_.find(token);
    return found == memories_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<SharedMemory>> memories_;
};

struct Pages {
  MemoryMapping mapping;
  UniqueFd file;
  bool is_reserved = false;  // its 2 MB pages are of those that vm.nr_hugepages sets aside
  std::string description;
};

Result<Pages> AnonymousPages(uint64_t bytes, bool huge) {
  Pages pages;
  BOOST_OUTCOME_TRY(mapping, MapPrivate(RoundUp(bytes, kPageBytes)));
  pages.mapping = std::move(mapping);
  pages.description = "4 KB pages";
  if (!huge) return pages;
  if (!MayBeTransparent(PageKind::kPrivate)) {
    pages.description += " (no huge pages: transparent_hugepage/enabled is never)";
  } else if (bytes < kHugePageBytes) {
    pages.description += " (less than one huge page)";
  } else {
    ::madvise(pages.mapping.data(), pages.mapping.bytes(), MADV_HUGEPAGE);
    pages.description = "2 MB pages (transparent)";
  }
  return pages;
}

Result<Pages> NamedPages(const char* name, uint64_t bytes, bool huge) {
  Pages pages;
  if (huge && bytes >= kHugePageBytes) {
    // Mapping reserves the pages, so that they cannot run out later.
    Result<UniqueFd> file = CreateMemfd(name, RoundUp(bytes, kHugePageBytes), true);
    if (file) {
      Result<MemoryMapping> mapping = MapFile(file.value());
      if (mapping) {
        pages.mapping = std::move(mapping).value();
        pages.file = std::move(file).value();
        pages.is_reserved = true;
        pages.description = "2 MB pages";
        return pages;
      }
    }
  }
  BOOST_OUTCOME_TRY(file, CreateMemfd(name, RoundUp(bytes, kPageBytes), false));
  BOOST_OUTCOME_TRY(mapping, MapFile(file));
  pages.file = std::move(file);
  pages.mapping = std::move(mapping);
  pages.description = "4 KB pages";
  if (!huge) return pages;
  if (bytes < kHugePageBytes) {
    pages.description += " (less than one huge page)";
  } else if (MayBeTransparent(PageKind::kShared)) {
    ::madvise(pages.mapping.data(), pages.mapping.bytes(), MADV_HUGEPAGE);
    pages.description = "2 MB pages (transparent)";
  } else {
    pages.description +=
        " (no huge pages: vm.nr_hugepages has too few, transparent_hugepage/shmem_enabled is "
        "never)";
  }
  return pages;
}

// Decides where the pages lie, and has them. Returns the description of what they are then.
Result<std::string> Touch(std::span<std::byte> memory, std::string description,
                          bool may_be_transparent, const MemoryPortOptions& options) {
  const Status placed = PlaceMemory(memory, options.numa, kUnknownNode);
  if (!placed) LOG(WARNING) << placed.error().message;
  if (!options.touch) return description;
  BOOST_OUTCOME_TRYV(options.touch(memory));
  if (may_be_transparent) {
    const bool expected_some = description.starts_with("2 MB");
    description = DescribeTouched(
        memory,
        expected_some ? "4 KB pages (no huge pages: the kernel had no free ones)" : description);
  }
  const std::string nodes = DescribeNodes(memory);
  if (!nodes.empty()) description += ", " + nodes;
  return description;
}

Result<Pages> NewPages(const char* name, uint64_t bytes, const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRY(pages, options.in_process_only ? AnonymousPages(bytes, options.huge_pages)
                                                   : NamedPages(name, bytes, options.huge_pages));
  BOOST_OUTCOME_TRY(description, Touch(pages.mapping.span().first(bytes), pages.description,
                                       options.huge_pages && !pages.is_reserved, options));
  pages.description = std::move(description);
  return std::move(pages);
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::Create(const MemoryPortOptions& options) {
  if (options.region_bytes == 0 || options.region_bytes % kPageBytes != 0) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("a region of {} bytes: give a multiple of 4096", options.region_bytes));
  }
  if (!std::has_single_bit(options.lock_table_bytes) || options.lock_table_bytes < 8) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a lock table of {} bytes: give a power of two, at least 8",
                                 options.lock_table_bytes));
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->token_ = RandomId();
  SpaceView region_view;
  if (options.kept != nullptr) {
    BOOST_OUTCOME_TRY(description,
                      Touch(options.kept->region, options.kept->description, false, options));
    region_view = {options.kept->region.data(), options.region_bytes};
    memory->description_ = std::move(description);
    memory->is_kept_ = true;
    memory->kept_fd_ = options.kept->file;
  } else {
    BOOST_OUTCOME_TRY(region, NewPages(kRegionFileName, options.region_bytes, options));
    region_view = {region.mapping.data(), options.region_bytes};
    memory->region_ = std::move(region.mapping);
    memory->region_file_ = std::move(region.file);
    memory->description_ = std::move(region.description);
  }
  // The lock table is always new: no lock outlives the leases of its server.
  BOOST_OUTCOME_TRY(lock_table, NewPages("gossamer-lock-table", options.lock_table_bytes, options));
  memory->views_ = {region_view, SpaceView{lock_table.mapping.data(), options.lock_table_bytes}};
  memory->lock_table_ = std::move(lock_table.mapping);
  memory->lock_table_file_ = std::move(lock_table.file);
  InProcessTable::Instance().Add(memory);
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::Open(uint64_t token, const UniqueFd& region,
                                                         uint64_t region_bytes,
                                                         const UniqueFd& lock_table,
                                                         uint64_t lock_table_bytes) {
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->token_ = token;
  BOOST_OUTCOME_TRY(file_bytes, BytesOf(region));
  // A region may begin a file that goes on behind it. (Pages of 2 MB are mapped whole.)
  BOOST_OUTCOME_TRY(
      region_mapping,
      MapShared(region.get(), 0, std::min(file_bytes, RoundUp(region_bytes, kHugePageBytes))));
  BOOST_OUTCOME_TRY(lock_table_mapping, MapFile(lock_table));
  memory->region_ = std::move(region_mapping);
  memory->lock_table_ = std::move(lock_table_mapping);
  if (memory->region_.bytes() < region_bytes || memory->lock_table_.bytes() < lock_table_bytes) {
    return MakeError(Code::kNodeUnreachable, "shared memory is smaller than its server says");
  }
  if (MayBeTransparent(PageKind::kShared)) {
    ::madvise(memory->region_.data(), memory->region_.bytes(), MADV_HUGEPAGE);
  }
  memory->views_ = {SpaceView{memory->region_.data(), region_bytes},
                    SpaceView{memory->lock_table_.data(), lock_table_bytes}};
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::FindInProcess(uint64_t token) {
  return InProcessTable::Instance().Find(token);
}

}  // namespace gossamer::shm
