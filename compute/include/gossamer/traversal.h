// How batches of lookups go through the cache of internal nodes.
//
// For experiments: the defaults are right for programs. The words are those of
// compute/cache/separator_node.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace gossamer {

// What a traversal prefetches when it knows a key's next node (Spiderman's options).
enum class Prefetch : uint8_t {
  kHeader,           // the header; lines of digests and payload are waited for
  kHeaderAndMiddle,  // the header; then, in a round of its own, the line of digests
  kWhole,            // the header and all digests of a node of usual size
  kChildren,         // kHeaderAndMiddle; then, in a round of its own, the payload
  kPredicted,        // the header and the line where the key would be if separators were even
  kPayload,          // kHeaderAndMiddle; the payload for nodes of the tree only
};
inline constexpr std::string_view kPrefetchNames[] = {"header",   "header_and_middle", "whole",
                                                      "children", "predicted",         "payload"};

struct Traversal {
  static constexpr uint32_t kAuto = 0;
  static constexpr uint32_t kMaxBatch = 64;

  // Keys that are traversed together: 1 to kMaxBatch, or kAuto: each session measures.
  uint32_t batch = kAuto;
  Prefetch prefetch = Prefetch::kPayload;

  bool is_valid() const { return batch <= kMaxBatch && prefetch <= Prefetch::kPayload; }
};

}  // namespace gossamer
