// Where and when figures were measured, and by which code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gossamer::bench {

struct Provenance {
  std::string commit;            // of the source; see BuildCommit
  std::string host;              // its name
  std::string processor;         // the model; empty where the system does not say
  uint32_t processors = 0;       // that this process may run on
  std::string operating_system;  // "Linux 6.1.0-18-amd64 x86_64"
  std::string date;              // of the start: "2026-11-21T00:48:22Z"
};

// Of this machine and this moment.
Provenance ThisProvenance(std::string_view commit);

// The commit that the program was built from, in full, with "-dirty" behind it where files differed
// from it; "unknown" without git. Defined in a file that each build brings up to date.
std::string_view BuildCommit();

}  // namespace gossamer::bench
