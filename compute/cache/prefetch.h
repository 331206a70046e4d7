// What a traversal of a SeparatorIndex prefetches when it knows a key's next node (Spiderman's
// options).
#pragma once

#include <cstdint>

namespace gossamer {

enum class Prefetch : uint8_t {
  kHeader,           // the header; lines of digests and payload are waited for
  kHeaderAndMiddle,  // the header; then, in a round of its own, the line of digests
  kWhole,            // the header and all digests of a node of usual size
  kChildren,         // kHeaderAndMiddle; then, in a round of its own, the payload
  kPredicted,        // the header and the line where the key would be if separators were even
  kPayload,          // kHeaderAndMiddle; the payload for nodes of the tree only
};

}  // namespace gossamer
