// Sizes as users write them: "64MiB", "1GiB", "4096". Powers of 1024 with the suffixes B, KiB, MiB,
// GiB, TiB (or K, M, G, T, in any case); a fraction is allowed if it gives whole bytes ("1.5GiB").
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace gossamer {

// Errors: InvalidArgument: "'12XB' is not a size: write 4096, 64MiB or 1.5GiB".
Result<uint64_t> ParseSize(std::string_view text);

// The size that is the value of --NAME. Errors: InvalidArgument: as above behind "--NAME: ", or
// "--memory: 0 is too little".
Result<uint64_t> ParseSizeFlag(std::string_view name, std::string_view text, uint64_t least = 0);

}  // namespace gossamer
