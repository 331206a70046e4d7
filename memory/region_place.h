// RegionPlace: where the file of a memory server's region is while no process has it: at a path, or
// with the service manager.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer {

class RegionPlace {
 public:
  // `region`: a path; or kKeptBySystemd: an unnamed file in memory, which systemd's store of file
  // descriptors keeps, and hands to the next process of the service; or empty: an unnamed file that
  // nobody keeps.
  static std::unique_ptr<RegionPlace> Of(const std::string& region);
  virtual ~RegionPlace() = default;

  // The file that is there; none if there is none.
  virtual Result<UniqueFd> Find() = 0;
  // A new file, of zeros, which is there only once it is published. Otherwise it goes with the
  // place.
  virtual Result<UniqueFd> Create(uint64_t bytes, bool huge_pages) = 0;
  // Requires (unchecked): Create has made `file`. `replaces`: what is there goes.
  virtual Status Publish(int file, bool replaces) = 0;
};

// "--region=REGION: WHY", or "memory: WHY" of one that nobody keeps.
Error CannotUseRegion(const std::string& region, Code code, const std::string& why);

}  // namespace gossamer
