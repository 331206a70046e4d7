// Tearing: READs and WRITEs of one memory server that take effect at the same time, byte by byte.
//
// A verb with a duration is active from its start to its end. When two of them touch a byte and one
// is a WRITE, the later to start picks moments before its end at which random parts of both take
// effect; what is left of a verb does at its end. A part is any set of bytes: one byte, all but
// one, an interval, whole cache lines or words, or every byte by the toss of a coin. A verb that
// meets no other is not split: nobody could tell.
//
// Every other WRITE is clean instead: a READ that meets it sees all of its own bytes as they were before, or, with the
// WRITE taking effect in exactly those, as they are afterwards. What was torn at random fails its checksum; the parts of
// a node that were read whole, some old and some new, are what readers may take for good. One interval of such a WRITE,
// and what is read along with it, is late: it stays old to the end, mostly, and that comes later than of others, so that
// there is time to act upon what was seen of the rest. Where `SimOptions::reads_per_seam` says so, a few of these READs
// have a seam: their first words are new, and the rest is old. What was read whole beside it may be taken for good then,
// with what only a checksum tells to be no piece of the same. Thread-safety: none. Cost: a verb that starts
// looks at all active ones of its memory server.
#pragma once

#include <cstdint>
#include <vector>

#include "common/fabric/sim/operation.h"
#include "common/random.h"

namespace gossamer::sim {

class ActiveVerbs {
 public:
  // `remote`: what its offset is an address of. Sets how many moments it is split at.
  void Start(Operation& operation, std::byte* remote, Random& random);
  // Such a moment. One in `reads_per_seam` of the READs that meet a clean WRITE has a seam; 0: none.
  void Mix(Operation& operation, uint32_t reads_per_seam, Random& random);
  // An atomic is about to change 8 bytes: READs that are active may have their old value, or some
  // of its bytes.
  void MixReads(Space space, uint64_t offset, Random& random);
  // What is left takes effect.
  void Finish(Operation& operation);
  // It never does.
  void Drop(Operation& operation);

 private:
  std::vector<Operation*> active_;
};

// Lets a random part of a verb take effect, of what has not.
void Advance(Operation& operation, Random& random);

}  // namespace gossamer::sim
