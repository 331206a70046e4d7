// Eviction: a store used as a cache drops keys in order to make room for others.
//
// The store draws leaves of the tree by chance, and deletes those of their keys that an
// EvictionChoice picks: it knows nothing of how keys are used. `gossamer-compute --evict` has such
// a choice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "gossamer/expiry.h"

namespace gossamer {

// A key that was drawn.
struct EvictionCandidate {
  uint64_t key_hash = 0;     // KeyHash of the key (proto/key.h)
  Expiry expiry;             // of At, or never
  uint64_t bytes = 0;        // about the memory that its end gives back
  uint64_t block_bytes = 0;  // of that, in a block, for the next value of about this size
  // Whether this compute server gets its memory at once. Otherwise its value was put by another
  // one, to which the memory goes.
  bool is_own = true;
  bool goes = false;  // the choice
};

class EvictionChoice {
 public:
  virtual ~EvictionChoice() = default;

  // Whether a key may be a candidate. Of a long key, the first bytes decide.
  virtual bool MayGo(std::string_view key) const = 0;
  // Sets `goes` of the candidates that are to be deleted.
  virtual void Choose(std::span<EvictionCandidate> candidates) = 0;
  // Whether a key that was chosen still goes, which now expires as `expiry`. Called under the key's
  // lock, maybe by another thread that uses the store, but never by two at a time.
  virtual bool StillGoes(uint64_t key_hash, Expiry expiry) = 0;
};

// What one call of Session::AsyncEvict has done.
struct EvictedKeys {
  uint64_t candidates = 0;
  uint64_t deleted = 0;
  uint64_t bytes = 0;        // about the memory of those
  double keys_in_store = 0;  // an estimate, right on average; 0: the tree changed on the way
};

// The memory of all memory servers, as one compute server sees it.
struct MemoryLevel {
  uint64_t heap_bytes = 0;
  uint64_t free_bytes = 0;  // not handed out, or given back by others than its owners
  uint64_t kept_bytes = 0;  // handed out to this compute server, which has it for its next writes
  uint32_t compute_servers = 0;  // that are registered

  // What is in use: by the tree, or kept by other compute servers.
  uint64_t used_bytes() const {
    const uint64_t unused = free_bytes + kept_bytes;
    return heap_bytes < unused ? 0 : heap_bytes - unused;
  }
};

}  // namespace gossamer
