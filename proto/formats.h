// The formats of this build, for people and for programs of another build.
#pragma once

#include <fmt/core.h>

#include <string>

#include "proto/region.h"
#include "proto/region_file.h"
#include "proto/saved_file.h"

namespace gossamer {

// "store-6,region-1,saved-2": what a memory server keeps and reads. It reads no others, but for
// stores from kFirstFormatVersion on in files, and saved files from kFirstSavedFileVersion on.
inline std::string FormatsText() {
  return fmt::format("store-{},region-{},saved-{}", kFormatVersion, kRegionFileVersion,
                     kSavedFileVersion);
}

}  // namespace gossamer
