// RegionFile: the file that a memory server's region lives in, so that it outlives the process.
//
// proto/region_file.h has its layout. A file is at a path or with systemd (region_place.h), where
// it is found once the server is about to serve (Publish): none is found that is half made. What a
// process leaves beside a path that ends before goes when the next one opens the path. One process
// has a file at a time, by a lock on it, which also waits for the end of the process before: until
// then that one's queue pairs may let verbs land.
//
// Thread-safety: one thread opens, begins and closes; any thread may call NoteGiven and
// NoteRecord, each one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/huge_pages.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "memory/kept_region.h"
#include "memory/region_place.h"
#include "proto/region_file.h"

namespace gossamer {

struct RegionFileWish {
  std::string path;           // or kKeptBySystemd; empty: memory that ends with the process
  uint64_t region_bytes = 0;  // and `map_bytes` belong together; 0: as the file has them
  uint64_t map_bytes = 0;
  bool is_new = false;  // what is there is replaced
  bool huge_pages = true;
};

class RegionFile final : public KeptRegion {
 public:
  // Opens the file, or creates one.
  // Errors: InvalidArgument for a file that is no region of these sizes, or that another process
  // has; Corruption for one that is torn or short; Unsupported for another version; NoResources.
  // Each says what to do. Nothing has changed after an error.
  static Result<std::unique_ptr<RegionFile>> Open(const RegionFileWish& wish);
  // The region's header in the last life on the file; nullopt if there is no file.
  // Errors: as Open, but for sizes.
  static Result<std::optional<RegionHeader>> LastHeader(const std::string& path);
  RegionFile(const RegionFile&) = delete;
  RegionFile& operator=(const RegionFile&) = delete;

  const std::string& path() const { return wish_.path; }
  // How many bytes of the region its file system has provided already.
  uint64_t bytes_in_place() const override;

  // Lets a new file be found.
  // Errors: InvalidArgument if another process has created it meanwhile; NodeUnreachable if systemd
  // does not answer.
  Status Publish() override;
  // Ends the life: what was written is in the file, even if the machine stops.
  Status Close() override;

 private:
  explicit RegionFile(RegionFileWish wish);

  // Maps the file that is there, if any, and if it is as wished.
  Status OpenExisting();
  Status Lock();
  Status Create();
  void WriteHeader();
  Status ReadHeader();
  Status CheckSizes() const;
  Status Map();
  Status CheckLastLife();
  // Takes pages for the state and the map, so that a file system that is full is noticed here.
  // Counts those of the region.
  Status TakePages();

  Error CannotUse(Code code, const std::string& why) const {
    return CannotUseRegion(wish_.path, code, why);
  }

  const RegionFileWish wish_;
  const std::unique_ptr<RegionPlace> place_;
  UniqueFd file_;
  UniqueFd lock_;  // the file once more: clients get file_, and would hold its lock
  bool is_published_ = false;
  uint64_t file_bytes_ = 0;
  RegionFileHeader header_{};
  MemoryMapping mapping_;
};

}  // namespace gossamer
