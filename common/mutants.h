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
  kR10,      // a block that was READ along with a group is taken though the group refers to another
  // Writing
  kW1Overflow,  // the overflow group is written before the home group's flag
  kW1Sibling,   // the leaf is written before its sibling, on one server
  kW1Remote,    // the leaf is posted before a remote sibling is acknowledged
  kW1Chain,     // a leaf is linked before the leaves that it is split into are written
  kW1Block,     // an entry is written although its block is not
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
  // Expiry
  kX1,      // what has expired is read as alive
  kX1Gone,  // who reads it, without the leaf's lock, says that it is gone
  kX3,      // an overwrite that keeps the time loses it
  kX4,      // a sweep removes a key that was put again since it had expired
  // Returns
  kB1,         // a memory server serves again while verbs of before still land
  kB2,         // a memory server comes back with the incarnation that it had
  kB3,         // memory is granted before the map shows it
  kB4,         // leases of before count as in force
  kB4Numbers,  // leases and epochs get numbers that were given before
};

// By enumerator: its letters, a part of a rule behind a hyphen.
inline constexpr std::array<std::string_view, static_cast<size_t>(Mutant::kB4Numbers) + 1>
    kMutantNames = {
        "none",       "R1",          "R1-prefix",  "R1-long",    "R1-reuse", "R1-generation",
        "R1-trailer", "R1-grant",    "R2",         "R3-trailer", "R4",       "R4-batch",
        "R5",         "R6",          "R7",         "R8",         "R9",       "R9-cache",
        "R10",        "W1-overflow", "W1-sibling", "W1-remote",  "W1-chain", "W1-block",
        "W2",         "W2-mtu",      "W3",         "W4",         "W4-child", "W4-root",
        "W5",         "W8",          "W8-long",    "W9",         "W10",      "W11",
        "W12",        "L1",          "L2",         "L3",         "L4",       "L4-early",
        "L5",         "L6",          "U1",         "U1-block",   "U2",       "U4",
        "U4-grant",   "U4-link",     "U5",         "U5-turn",    "U6",       "M1",
        "M1-live",    "M1-twice",    "M2",         "M3",         "G1",       "G2",
        "G3",         "S1",          "S2",         "P1",         "P2",       "P3",
        "P4",         "X1",          "X1-gone",    "X3",         "X4",       "B1",
        "B2",         "B3",          "B4",         "B4-numbers"};
static_assert(!kMutantNames.back().empty());

#ifdef GOSSAMER_MUTANTS

namespace mutants {
// The broken rule in this process. Set before any store is opened.
inline Mutant broken_rule = Mutant::kNone;
}  // namespace mutants

inline constexpr bool kHasMutants = true;
inline bool IsBroken(Mutant mutant) { return mutants::broken_rule == mutant; }

#else

inline constexpr bool kHasMutants = false;
constexpr bool IsBroken(Mutant /*mutant*/) { return false; }

#endif

}  // namespace gossamer
