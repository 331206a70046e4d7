// Mutants: rules of the protocol that a test can break, one at a time, to prove that the simulator
// notices.
//
//   if (IsBroken(Mutant::kR4) || holder == 0) …
//
// In everything that ships, `IsBroken` is a constant and leaves no code behind. With
// GOSSAMER_MUTANTS it reads a variable that `--mutant=` sets; only build/test/gossamer-sim-mutants
// and what is compiled for it defines GOSSAMER_MUTANTS. All linked code must agree on the
// definition: the only headers that use `IsBroken` are compute/rules/rules.h and memory/rules.h,
// and the sources that include them are compiled a second time for that program
// (compute/verify/sim/CMakeLists.txt).
//
// docs/testing.md uses these names, which are those of the broken rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gossamer {

enum class Mutant : uint8_t {
  kNone,
  // Reading
  kR1,            // a unit is accepted without its checksum
  kR1Prefix,      // a unit is accepted with another prefix
  kR1Long,        // the hash of a long key is taken for the key
  kR1Reuse,       // the memory of a node is used again under the same generation
  kR1Generation,  // a value block is accepted whole, of any generation
  kR1Trailer,     // a trailer is accepted without its checksum
  kR1Grant,       // a memory server hands memory out again under the generation of its last use
  kR2,            // units of different node versions are used together
  kR3Trailer,     // a hop for a key takes the trailer alone
  kR4,            // a READ posted with a CAS that failed is used
  kR4Batch,       // a plain write, alone or in a batch, goes on although its lock was refused
  kR5,            // a leaf that fails its checks under its lock once is taken for damaged
  kR6,            // a scan returns a key that it saw twice
  kR7,            // the root word is changed by a WRITE
  kR8,            // a frozen node is read by an operation that did not come over its left neighbour
  kR9,       // an operation goes on with pointers that it looked up under an earlier lease, or none
  kR9Cache,  // what was cached under an earlier lease is still used
  // Writing
  kW1Overflow,  // the overflow group is written before the home group's flag
  kW1Sibling,   // the leaf is written before its sibling, on one server
  kW1Remote,    // the leaf is posted before a remote sibling is acknowledged
  kW1Chain,     // a leaf is linked before the leaves that it is split into are written
  kW2,          // structure becomes visible by two WRITEs
  kW2Mtu,       // a memory server is used though a node exceeds one packet there
  kW3,          // a combined operation moves a key to another unit
  kW4,          // a downlink to a frozen node is made
  kW4Child,     // a downlink is made to a child that is not there
  kW4Root,      // a root is raised over a child that is not there
  kW5,          // the turn at a leaf that was split is kept while the parent's is waited for
  kW8,          // a group's new keys are merged behind those of the leaf
  kW8Long,      // a leaf's long keys are put in order by their first bytes alone
  kW9,          // a node takes over its neighbour's entries though that is not frozen
  kW10,         // a root that gives way to its child is not frozen
  kW11,         // a modify writes although the leaf stores something else than it noted
  kW12,         // a leaf takes over another one which a client makes live again
  // Locks
  kL1,       // a lock is released by a WRITE
  kL2,       // the lock word's incarnation is no lease's
  kL3,       // a lock is handed over before the holder's WRITE has completed
  kL4,       // a batch under a lock of an old epoch is posted
  kL4Early,  // the epoch is checked some time before the post
  kL5,       // a result that wrote nothing counts at once
  kL6,       // a lock is taken from an owner that is not fenced
  // Unknown status
  kU1,       // decided before the queue pair is known to be destroyed
  kU1Block,  // a value block is used again although its WRITE may still land
  kU2,       // a put of unknown status is repeated blindly
  kU4,       // memory granted under an ended lease is still used
  kU4Grant,  // memory is used that the reply granted to another lease than the present one
  kU4Link,   // memory is linked although the lease has ended since under which it was allocated
  kU5,       // an orphan is settled though the queue pair that carried it may not be destroyed
  kU5Turn,   // the turn at a lock is not kept while its state is unknown
  kU6,       // a connection to a restarted memory server is taken for one to the old server
  // Memory
  kM1,       // an extent is granted to two compute servers
  kM1Live,   // memory of an owner whose lease is in force is taken for orphaned
  kM1Twice,  // a group of writes that is done anew frees what it replaced once more
  kM2,       // memory whose generations are used up is used for nodes again without an epoch
  kM3,       // an epoch is acknowledged while earlier operations go on
  kG1,       // memory is given up that its owner has been granted again since it was offered
  kG2,       // an epoch is acknowledged while memory is still to be given back
  kG3,       // a farewell is said by a client that has left memory behind
  kS1,       // a sweep reads the tree without an epoch before
  kS2,       // a sweep gives memory back without an epoch behind its walk of the tree
  kP1,       // what replaces a lost node ends where its parent does
  kP2,       // a repair leaves the siblings of nodes that lead to lost ones
  kP3,       // a repair replaces what it found lost before it locked the node that leads there
  kP4,       // a repair begins before an epoch has passed
};

struct MutantName {
  Mutant mutant;
  std::string_view name;
};
inline constexpr std::array kMutantNames = {
    MutantName{Mutant::kNone, "none"},
    MutantName{Mutant::kR1, "R1"},
    MutantName{Mutant::kR1Prefix, "R1-prefix"},
    MutantName{Mutant::kR1Long, "R1-long"},
    MutantName{Mutant::kR1Reuse, "R1-reuse"},
    MutantName{Mutant::kR1Generation, "R1-generation"},
    MutantName{Mutant::kR1Trailer, "R1-trailer"},
    MutantName{Mutant::kR1Grant, "R1-grant"},
    MutantName{Mutant::kR2, "R2"},
    MutantName{Mutant::kR3Trailer, "R3-trailer"},
    MutantName{Mutant::kR4, "R4"},
    MutantName{Mutant::kR4Batch, "R4-batch"},
    MutantName{Mutant::kR5, "R5"},
    MutantName{Mutant::kR6, "R6"},
    MutantName{Mutant::kR7, "R7"},
    MutantName{Mutant::kR8, "R8"},
    MutantName{Mutant::kR9, "R9"},
    MutantName{Mutant::kR9Cache, "R9-cache"},
    MutantName{Mutant::kW1Overflow, "W1-overflow"},
    MutantName{Mutant::kW1Sibling, "W1-sibling"},
    MutantName{Mutant::kW1Remote, "W1-remote"},
    MutantName{Mutant::kW1Chain, "W1-chain"},
    MutantName{Mutant::kW2, "W2"},
    MutantName{Mutant::kW2Mtu, "W2-mtu"},
    MutantName{Mutant::kW3, "W3"},
    MutantName{Mutant::kW4, "W4"},
    MutantName{Mutant::kW4Child, "W4-child"},
    MutantName{Mutant::kW4Root, "W4-root"},
    MutantName{Mutant::kW5, "W5"},
    MutantName{Mutant::kW8, "W8"},
    MutantName{Mutant::kW8Long, "W8-long"},
    MutantName{Mutant::kW9, "W9"},
    MutantName{Mutant::kW10, "W10"},
    MutantName{Mutant::kW11, "W11"},
    MutantName{Mutant::kW12, "W12"},
    MutantName{Mutant::kL1, "L1"},
    MutantName{Mutant::kL2, "L2"},
    MutantName{Mutant::kL3, "L3"},
    MutantName{Mutant::kL4, "L4"},
    MutantName{Mutant::kL4Early, "L4-early"},
    MutantName{Mutant::kL5, "L5"},
    MutantName{Mutant::kL6, "L6"},
    MutantName{Mutant::kU1, "U1"},
    MutantName{Mutant::kU1Block, "U1-block"},
    MutantName{Mutant::kU2, "U2"},
    MutantName{Mutant::kU4, "U4"},
    MutantName{Mutant::kU4Grant, "U4-grant"},
    MutantName{Mutant::kU4Link, "U4-link"},
    MutantName{Mutant::kU5, "U5"},
    MutantName{Mutant::kU5Turn, "U5-turn"},
    MutantName{Mutant::kU6, "U6"},
    MutantName{Mutant::kM1, "M1"},
    MutantName{Mutant::kM1Live, "M1-live"},
    MutantName{Mutant::kM1Twice, "M1-twice"},
    MutantName{Mutant::kM2, "M2"},
    MutantName{Mutant::kM3, "M3"},
    MutantName{Mutant::kG1, "G1"},
    MutantName{Mutant::kG2, "G2"},
    MutantName{Mutant::kG3, "G3"},
    MutantName{Mutant::kS1, "S1"},
    MutantName{Mutant::kS2, "S2"},
    MutantName{Mutant::kP1, "P1"},
    MutantName{Mutant::kP2, "P2"},
    MutantName{Mutant::kP3, "P3"},
    MutantName{Mutant::kP4, "P4"},
};

#ifdef GOSSAMER_MUTANTS

namespace mutants {
// The broken rule in this process. Set before any store is opened.
inline Mutant broken_rule = Mutant::kNone;
}  // namespace mutants

inline bool IsBroken(Mutant mutant) { return mutants::broken_rule == mutant; }

#else

constexpr bool IsBroken(Mutant /*mutant*/) { return false; }

#endif

}  // namespace gossamer
