// The lock word: the holder of a slot in a memory server's lock table.
//
//   63                48 47                  24 23                   0
//   +-------------------+----------------------+---------------------+
//   | compute server 16 | lease incarnation 24 | node (offset) 24    |
//   +-------------------+----------------------+---------------------+
//
// 0 is free. A CAS from 0 takes the lock; a CAS from exactly the taken word releases it (rule L1).
// The incarnation is that of the compute server's lease with this memory server (rule L2). The node
// field, the low 24 bits of offset / kNodeAlignment, is for diagnostics only.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>

#include "proto/remote_ptr.h"

namespace gossamer {

// Identifies a compute server to one memory server; 0: none.
enum class ComputeId : uint16_t {};

// A compute server's lease with one memory server, new at every registration.
struct Lease {
  ComputeId compute{0};
  uint32_t incarnation = 0;  // 24 bits

  friend bool operator==(const Lease&, const Lease&) = default;
};

// Whether `lease` was granted before `other`, of the same compute server. Incarnations are 24-bit
// counters that wrap around.
constexpr bool IsOlder(Lease lease, Lease other) {
  return (lease.incarnation - other.incarnation) % (1u << 24) >= 1u << 23;
}

class LockWord {
 public:
  constexpr LockWord() = default;
  constexpr LockWord(Lease lease, RemotePtr node)
      : word_(uint64_t{static_cast<uint16_t>(lease.compute)} << 48 |
              uint64_t{lease.incarnation & kField} << 24 |
              ((node.offset() / kNodeAlignment) & kNodeField)) {}
  static constexpr LockWord FromWord(uint64_t word) {
    LockWord lock;
    lock.word_ = word;
    return lock;
  }

  constexpr bool is_free() const { return word_ == 0; }
  constexpr uint64_t word() const { return word_; }
  constexpr Lease lease() const {
    return {static_cast<ComputeId>(word_ >> 48), static_cast<uint32_t>(word_ >> 24) & kField};
  }
  constexpr uint32_t node() const { return static_cast<uint32_t>(word_) & kNodeField; }
  // Of a client that merges the node away (rule W4), or undoes that (rule W12).
  constexpr LockWord ForMerge() const { return FromWord(word_ | kMerges); }
  constexpr bool merges() const { return (word_ & kMerges) != 0; }

  friend constexpr bool operator==(LockWord, LockWord) = default;

 private:
  static constexpr uint32_t kField = (1u << 24) - 1;
  static constexpr uint32_t kNodeField = kField >> 1;
  static constexpr uint64_t kMerges = kNodeField + 1;
  uint64_t word_ = 0;
};

// The byte offset of the slot that guards `node` in the lock table. Requires: `lock_table_bytes` is
// a power of two, from 8 B to 32 GiB. Part of the format: clients that disagree would not exclude
// each other. Nodes lie at regular distances, so the hash multiplies twice: one multiplication put
// a chunk's nodes into a tenth of a large table. The highest, best mixed bits of the product choose
// the slot.
constexpr uint64_t LockSlotOffset(RemotePtr node, uint64_t lock_table_bytes) {
  assert(std::has_single_bit(lock_table_bytes) && lock_table_bytes >= 8 &&
         lock_table_bytes <= uint64_t{32} << 30);
  uint64_t hash = (node.offset() / kNodeAlignment) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
  return ((hash >> 32) * (lock_table_bytes / 8) >> 32) * 8;
}

}  // namespace gossamer
