// A port of the simulated network whose endpoints break a rule that decides about verbs: which are
// posted, and in which order. The other rules are broken in compute/rules/rules.h.
//
//   L1           the CAS that releases a lock becomes a WRITE
//   L3           units that are written while the lock is kept count as written before they are
//   L4-early     a batch that ends under a lock is posted some time after its epoch was checked
//   R7           the CAS that changes the root word becomes a WRITE
//   W1-overflow  the units of a leaf are written in reverse order
//   W1-remote    a node that is written alone, on another server, counts as written before it is
//   W1-chain     the several leaves of a split count as written before they are
//   W1-sibling   a split writes the old node before its sibling
//   W2           a split writes half of the old node first
#pragma once

#include <cstdint>
#include <memory>

#include "common/fabric/compute_port.h"

namespace gossamer::sim {

// Returns `port`, in gossamer-sim-mutants with such a rule broken if --mutant names one.
std::unique_ptr<ComputePort> WithBrokenRule(std::unique_ptr<ComputePort> port, uint32_t node_bytes);

}  // namespace gossamer::sim
