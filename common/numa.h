// Where memory lies, and where threads run, on a machine with several NUMA nodes. A NIC is faster
// with memory and processors of the node that it is attached to.
//
// On a machine with one node, all of this does nothing.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gossamer {

// A wish, not a bound: where a node has no page left, another one gives it.
struct NumaWish {
  enum class Kind : uint8_t { kOfDevice, kAnywhere, kNode, kInterleaved };
  Kind kind = Kind::kOfDevice;
  int node = 0;  // with kNode
};

inline constexpr int kUnknownNode = -1;

// "auto", "no", "interleave", or the number of a node. Errors: InvalidArgument for another text, or
// if this process may not use the node.
Result<NumaWish> ParseNuma(std::string_view text);

// Asks the kernel to take the pages of `memory` from the nodes of `wish`. `memory`: a mapping of
// whole pages, none of them touched yet. `device_node`: that of the NIC, or kUnknownNode.
// Errors: Unsupported with the kernel's reason, such as that of a container; nothing has changed.
Status PlaceMemory(std::span<std::byte> memory, const NumaWish& wish, int device_node);

// Where memory lies that was touched, by a sample of its pages: "NUMA node 1", or "NUMA nodes 0
// (25 %), 1 (75 %)". Empty on a machine with one node, and for memory that nobody has touched.
std::string DescribeNodes(std::span<const std::byte> memory);

// The processors in `allowed`, those of `node` (or kUnknownNode) first.
std::vector<int> ProcessorsFrom(int node, const cpu_set_t& allowed);

}  // namespace gossamer
