// SharedMemory: the region and lock table of one memory server, as seen by its process or a
// client's.
//
// The server creates it, or has the region kept in a file (KeptMemory). A client in another process
// maps the same files. A client in the server's own process shares the server's object, so that
// sanitizers see one address per word, and nameless memory can be used.
// Thread-safety: immutable after construction; access the bytes as shared_copy.h says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/fabric/memory_port.h"
#include "common/fabric/shm/handles.h"

namespace gossamer::shm {

// The name of the region's memfd, shown as "memfd:NAME" in /proc/PID/fd.
inline constexpr char kRegionFileName[] = "gossamer-region";

// The memory that the offsets of one space reach.
struct SpaceView {
  std::byte* data = nullptr;
  uint64_t bytes = 0;

  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= bytes && length <= bytes - offset;
  }
};

class SharedMemory {
 public:
  // Errors: NoResources when the machine lacks that much memory.
  static Result<std::shared_ptr<SharedMemory>> Create(const MemoryPortOptions& options);
  // Maps the memory that a server in another process sent.
  static Result<std::shared_ptr<SharedMemory>> Open(uint64_t token, const UniqueFd& region,
                                                    uint64_t region_bytes,
                                                    const UniqueFd& lock_table,
                                                    uint64_t lock_table_bytes);
  // Returns live memory that `Create` made in this process; null if there is none.
  static std::shared_ptr<SharedMemory> FindInProcess(uint64_t token);

  // Unique among all memory that ever was: a restarted server has another token.
  uint64_t token() const { return token_; }
  const SpaceView& view(Space space) const { return views_[static_cast<size_t>(space)]; }
  // True for memory without a name and file descriptors.
  bool in_process_only() const { return !is_kept_ && !region_file_; }
  // Whether it outlives its server's process.
  bool is_kept() const { return is_kept_; }
  int region_fd() const { return is_kept_ ? kept_fd_ : region_file_.get(); }
  int lock_table_fd() const { return lock_table_file_.get(); }
  const std::string& description() const { return description_; }

 private:
  SharedMemory() = default;

  uint64_t token_ = 0;
  MemoryMapping region_;
  MemoryMapping lock_table_;
  UniqueFd region_file_;
  bool is_kept_ = false;
  int kept_fd_ = -1;  // of the server, which owns the memory and the file
  UniqueFd lock_table_file_;
  std::array<SpaceView, 2> views_;
  std::string description_;
};

}  // namespace gossamer::shm
