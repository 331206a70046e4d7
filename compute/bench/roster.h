// Roster: the text by which the processes of one benchmark find each other (barrier.h).
//
// It is a note of the bootstrap, in JSON:
//
//   {"format": "gossamer-bench 1", "id": 1234, "processes": 3, "settings": {"records": "1000000"},
//    "members": [{"incarnation": 5678, "host": "ant", "process": "0b5a…/4026531836/812/99120",
//                 "round": 2, "beat": 17, "left": false}]}
//
// Other programs may have written it: a text that is none of these is refused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gossamer::bench {

// One process. Only its own writes the entry, but for removing it.
struct RosterMember {
  uint64_t incarnation = 0;  // of the process
  std::string host;          // for messages
  std::string process;       // common/process.h: tells on its own machine whether it still runs
  uint32_t round = 0;        // the last at which it has arrived; 0: it gathers
  uint64_t beat = 0;         // changes as long as it lives
  bool left = false;         // it has ended before the benchmark has

  friend bool operator==(const RosterMember&, const RosterMember&) = default;
};

struct Roster {
  uint64_t id = 0;  // of this benchmark among those of its name
  uint32_t processes = 1;
  std::map<std::string, std::string> settings;  // the flags that all have alike, by name
  std::vector<RosterMember> members;            // once sealed: by rank

  // All processes are here and know it. From now on none joins, and none may be missing.
  bool IsSealed() const;
  RosterMember* Find(uint64_t incarnation);
};

std::string EncodeRoster(const Roster& roster);
// nullopt unless `text` is a roster.
std::optional<Roster> ParseRoster(const std::string& text);

}  // namespace gossamer::bench
