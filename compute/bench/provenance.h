// Where, when and with which code figures were measured.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gossamer::bench {

struct Provenance {
  std::string commit;            // of the source; see BuildCommit
  std::string host;              // host name
  std::string processor;         // model; empty if unknown
  uint32_t processors = 0;       // usable by this process
  std::string operating_system;  // "Linux 6.1.0-18-amd64 x86_64"
  std::string date;              // start time: "2026-11-21T00:48:22Z"
};

// Of this machine, now.
Provenance ThisProvenance(std::string_view commit);

// The full hash of the commit that the program was built from, with "-dirty" appended if files
// differed; "unknown" without git. Defined in a file that each build updates.
std::string_view BuildCommit();

}  // namespace gossamer::bench
