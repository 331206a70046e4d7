// Bookmarks of scans: a position as a number below 2^63 that every compute server understands.
//
//   62            51 50        43 42                                  8 7            0
//   +--------------+------------+--------------------------------------+--------------+
//   | check 12     | server 8   | offset / 256                      35 | generation 8 |
//   +--------------+------------+--------------------------------------+--------------+
//
// It names a node, and stands for its low fence, which never changes (PROTOCOL.md, "Bookmarks").
// The node's own bytes tell that: an internal node, or a leaf with a short one. `check` is of the
// low fence.
#pragma once

#include <cstdint>

#include "proto/key.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"
#include "proto/store_record.h"

namespace gossamer::bookmark {

inline constexpr int kServerShift = 43;
inline constexpr int kCheckShift = 51;
inline constexpr int kBits = 63;
static_assert(kMaxOffset >> kServerShift == 0);
static_assert((kMaxMemoryServers - 1) >> (kCheckShift - kServerShift) == 0);

inline uint64_t Of(RemotePtr node, KeyView low) {
  const uint64_t check = KeyHash(low) >> (64 - (kBits - kCheckShift));
  return check << kCheckShift | uint64_t{ToInteger(node.server())} << kServerShift | node.offset() |
         node.generation();
}

// The node that the number names, if `Of` can have made it.
inline RemotePtr NodeOf(uint64_t number) {
  const uint64_t within = number & kMaxOffset;
  const auto server = static_cast<ServerId>((number >> kServerShift) % kMaxMemoryServers);
  constexpr uint64_t kGenerations = RemotePtr::kGenerations;
  return RemotePtr(server, within & ~(kGenerations - 1),
                   static_cast<uint8_t>(within & (kGenerations - 1)));
}

// Whether `Of` can have made it.
inline bool IsPossible(uint64_t number) {
  return number >> kBits == 0 && NodeOf(number).offset() >= kFirstLeafOffset;
}

}  // namespace gossamer::bookmark
