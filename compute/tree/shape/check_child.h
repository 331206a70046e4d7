// What is read of a child before a parent gets a downlink to it (rule W4).
//
// `level` is the parent's. The child exists if what was read matches, and nobody merges it: its
// lock word says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/fabric/verb.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

// Reads the child's low fence: a leaf's trailer, or the whole of an internal node.
Verb ReadChild(const TreeContext& context, uint32_t level, RemotePtr child, LocalAddress into);
// Whether the bytes that ReadChild brought are the child, not frozen, and with the separator as low
// fence.
bool ChildMatches(const TreeContext& context, const std::byte* image, uint32_t level,
                  const Key& separator, RemotePtr child);
// Reads the word of the child's lock. Requires: the child's server is known.
Verb ReadLockOf(const TreeContext& context, RemotePtr child, LocalAddress into);
// Whether the word that ReadLockOf brought says that its holder merges the child.
bool IsBeingMerged(LocalAddress word);

}  // namespace gossamer
