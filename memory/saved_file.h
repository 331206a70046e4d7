// SavedFile: what a memory server holds, written to a file, and read from one into new memory.
//
// proto/saved_file.h has the layout. The memory must be at rest: its server has stopped.
// Cost: both use all processors of the machine, up to kSavedFileThreads.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"
#include "memory/kept_region.h"
#include "proto/saved_file.h"

namespace gossamer {

inline constexpr unsigned kSavedFileThreads = 8;

// Called now and then with the bytes of memory that are done, of all.
using SavedFileProgress = std::function<void(uint64_t done, uint64_t total)>;

// Writes what the last life on `region` has left to a new file, and the file to its disk. `header`
// says what is saved; its sizes, magic, version and checksum are filled in, and its sequence is that
// of the life, unless it has a higher one.
// Returns: its bytes.
// Errors: InvalidArgument if the file cannot be made; NoResources if there is no room. The file is
// removed then. Each names the file.
Result<uint64_t> WriteSavedFile(const std::string& path, SavedFileHeader header,
                                const KeptRegion& region, const SavedFileProgress& progress = {});

class SavedFile {
 public:
  struct Loaded {
    uint64_t blocks = 0;            // that were read
    uint64_t damaged = 0;           // that were left out
    bool is_cut = false;            // the end was missing
    uint64_t first_damaged_at = 0;  // in the file
  };

  // Reads and checks the header.
  // Errors: NotFound if there is no such file; InvalidArgument if it is none that was saved, or
  // cannot be read; Corruption; Unsupported for another version. Each names the file.
  static Result<SavedFile> Open(const std::string& path);

  const SavedFileHeader& header() const { return header_; }
  std::string store() const;
  const std::string& path() const { return path_; }

  // Reads all of it into `region`, which is new and of the same sizes. With `salvage`, damaged
  // blocks are left out, so that what they held reads as zeros.
  // Errors: Corruption with the offset of the first damaged block, and what else could be read.
  Result<Loaded> LoadInto(KeptRegion& region, bool salvage,
                          const SavedFileProgress& progress = {}) const;

 private:
  SavedFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  uint64_t file_bytes_ = 0;
  SavedFileHeader header_{};
};

}  // namespace gossamer
