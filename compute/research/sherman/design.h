// The designs that Sherman's evaluation compares, one technique after the other: each is a switch.
//
// Thread-safety: constants.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gossamer::sherman {

// All switches off are FG+, the one-sided design of before: spin by CAS on a lock word in the
// memory server's DRAM, READ the node, WRITE the node, unlock. Four round trips a write.
struct Design {
  // The write-back and the release of the lock leave in one batch, and a new sibling on the same
  // server with them: the paper's command combination.
  bool combined_commands = true;
  // The lock table is in the NIC's memory. The memory servers are started so; the client does not
  // ask.
  bool on_chip_locks = true;
  // A compute server's threads queue at a local lock table before one of them contends remotely,
  // and hand the lock over: the paper's HOCL.
  bool hierarchical_locks = true;
  // Without a split, a write sends its entry with the entry's versions, not the leaf.
  bool two_level_versions = true;
  // No technique, and no rung of the ladder: a lock is released by a WRITE, as in the paper. If
  // not, by a CAS, which waits behind the CASes of the clients that spin.
  bool release_by_write = true;

  friend bool operator==(const Design&, const Design&) = default;
};

// All keys and all values have these lengths.
inline constexpr uint32_t kKeyBytes = 8;
inline constexpr uint32_t kValueBytes = 8;
// What a client thread takes of a memory server's memory at a time, for new nodes.
inline constexpr uint64_t kChunkBytes = 256 << 10;

struct NamedDesign {
  std::string_view name;  // of gossamer-bench --design
  std::string_view rung;  // as the evaluation's legend has it
  Design design;
};

// From FG+ on, each with one more technique than the one before; the last is Sherman.
inline constexpr std::array<NamedDesign, 5> kLadder = {{
    {"naive", "naive", {false, false, false, false}},
    {"combined", "+ combined commands", {true, false, false, false}},
    {"on_chip", "+ on-chip locks", {true, true, false, false}},
    {"hierarchical", "+ hierarchical locks", {true, true, true, false}},
    {"sherman", "+ two-level versions", {true, true, true, true}},
}};

constexpr std::optional<Design> FindDesign(std::string_view name) {
  for (const NamedDesign& one : kLadder) {
    if (one.name == name) return one.design;
  }
  return std::nullopt;
}

}  // namespace gossamer::sherman
