// BlockGuesses: one session's use of the cached references of values in blocks.
//
// A get of one round trip READs the block along with the key's group, where it was the last time,
// and takes it if the group refers to it (rule R10).
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/fabric/endpoint.h"
#include "common/fabric/verb.h"
#include "compute/cache/along_tuner.h"
#include "compute/cache/reference_cache.h"
#include "compute/counters/session_counts.h"
#include "compute/node/block_reader.h"
#include "proto/value_block.h"

namespace gossamer {

// A block that is READ along with a key's group.
struct GuessedBlock {
  BlockRef at{};               // without the checksum; null: there is none
  const Verb* read = nullptr;  // null: it is not read

  bool is_there() const { return at.pointer != 0; }
};

class BlockGuesses {
 public:
  BlockGuesses(ReferenceCache& references, const BlockReader& blocks, const Limits& limits,
               LiveCacheCounts& counts)
      : references_(references),
        blocks_(blocks),
        counts_(counts),
        serve_many_(!limits.has_free_round_trips) {}

  // Whether they pay for many gets together, which share the round trip that a guess saves. Over
  // shared memory that costs less than to look for the guesses: 12 % less, of a get of 100 bytes.
  bool serve_many() const { return serve_many_; }
  // Whether there may be any guess.
  bool are_there() const { return references_.is_used(); }
  // Of KeyHash(key), as in all that follows.
  void Prefetch(uint64_t hash) const { references_.Prefetch(hash); }
  // The block to READ along with the key's group, which is on `server`. Then Judge follows, once
  // both were read and the group has told.
  GuessedBlock For(uint64_t hash, ServerId server);
  // Returns the block's content if the group refers to it. It refers to `block`; null: to none.
  std::optional<std::string_view> Judge(uint64_t hash, const GuessedBlock& guess,
                                        const BlockRef* block);

  // The key's value is in `block`.
  void Learn(uint64_t hash, const BlockRef& block) { references_.Set(hash, block); }
  // Likewise: this session has put it there. Keys that are only written take no room.
  void Update(uint64_t hash, const BlockRef& block) { references_.Update(hash, block); }

 private:
  ReferenceCache& references_;
  const BlockReader& blocks_;
  LiveCacheCounts& counts_;
  AlongTuner tuner_;
  const bool serve_many_;
};

}  // namespace gossamer
