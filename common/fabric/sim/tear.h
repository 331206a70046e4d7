// Tearing: concurrent READs and WRITEs of one memory server take effect byte by byte.
//
// A verb with a duration is active from its start to its end. When two active verbs overlap and one
// is a WRITE, the later to start picks moments before its end at which random parts of both take
// effect; the rest takes effect at each verb's end. A part is any set of bytes: one byte, all but
// one, an interval, whole cache lines or words, or each byte at random. A verb that overlaps no
// other is not split: no reader could tell.
//
// Half of the WRITEs, at random, are clean instead. A READ that meets a clean WRITE sees all of its
// own bytes as before, or all as after; in the latter case the WRITE takes effect in exactly those
// bytes. A randomly torn unit fails its checksum; units of a node that were read whole, some old
// and some new, are what a reader may accept. One interval of a clean WRITE is late: a READ that
// touches it mostly sees all of its own bytes old, to the end of the WRITE. A clean WRITE may last
// longer than others, so that readers have time to act on what they saw of the rest. With
// `SimOptions::reads_per_seam`, a few of the READs that meet a clean WRITE have a seam: their first
// words are new, the rest is old. Units read whole beside such a READ may then be accepted, and
// only a checksum tells that its bytes do not belong together.
//
// Thread-safety: none. Cost: a verb that starts scans all active verbs of its memory server.
#pragma once

#include <cstdint>
#include <vector>

#include "common/fabric/sim/in_flight.h"
#include "common/random.h"

namespace gossamer::sim {

class ActiveVerbs {
 public:
  // `remote`: the address of its offset. Decides at how many moments `operation` is split.
  void Start(VerbInFlight& operation, std::byte* remote, Random& random);
  // Performs one such moment. One in `reads_per_seam` of the READs that meet a clean WRITE has a
  // seam; 0: none.
  void Mix(VerbInFlight& operation, uint32_t reads_per_seam, Random& random);
  // An atomic is about to change 8 bytes: active READs may get their old value, or some of its
  // bytes.
  void MixReads(Space space, uint64_t offset, Random& random);
  // The rest takes effect.
  void Finish(VerbInFlight& operation);
  // The rest never takes effect.
  void Drop(VerbInFlight& operation);

 private:
  std::vector<VerbInFlight*> active_;
};

// Lets a random part of the rest of a verb take effect.
void Advance(VerbInFlight& operation, Random& random);

}  // namespace gossamer::sim
