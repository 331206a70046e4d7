// The start-up litmus test: does this device order what the protocol relies on?
//
// Two pairs of CONTRACT.md are worth distrusting on real hardware, because their two halves go to
// different memories by different paths:
//   - atomic before READ: what is read behind the CAS that took a lock is not older than the lock;
//   - WRITE before atomic: who sees a lock released sees what was written under it, also when the
//     lock lies in device memory and the data in host DRAM.
// Each round lets two queue pairs race: one side keeps its two verbs in one batch, the other waits
// between its own, so that a failure is that of one pair. A device that passes is not proven right;
// one that fails is proven wrong, and the store falls back.
//
// Cost: about four round trips for each of `LitmusOptions::rounds`, and no more time than the limit.
// Thread-safety: both endpoints belong to the calling thread and have nothing else in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/fabric/fabric.h"

namespace gossamer {

// Memory that nobody else uses meanwhile. The bytes are left undefined, the word as it was.
struct LitmusScratch {
  uint64_t data_offset = 0;  // in the region: kLitmusBytes bytes
  uint64_t word_offset = 0;  // in `word_space`: 8 aligned bytes
  Space word_space = Space::kLockTable;
};
inline constexpr uint32_t kLitmusBytes = 1024;  // at most a path MTU, many cache lines

struct LitmusOptions {
  uint32_t rounds = 1000;  // of each pair, at most
  std::chrono::milliseconds time_limit{60'000};
};

struct LitmusReport {
  struct Pair {
    uint64_t rounds = 0;    // run
    uint64_t decisive = 0;  // in which the reader saw the atomic, so that it must see the data
    uint64_t failures = 0;  // in which it did not
  };
  Pair atomic_before_read;
  Pair write_before_atomic;

  bool passed() const {
    return atomic_before_read.failures == 0 && write_before_atomic.failures == 0;
  }
  // "atomic before READ: 0 of 1000 failed (987 decisive); WRITE before atomic: ..."
  std::string ToString() const;
};

// `writer` and `reader` are different endpoints of this thread, both attached to `server`.
// NodeUnreachable when a verb fails; InvalidArgument when the path MTU is below kLitmusBytes.
Result<LitmusReport> RunLitmus(Endpoint& writer, Endpoint& reader, ServerId server,
                               const LitmusScratch& scratch, const LitmusOptions& options = {});

}  // namespace gossamer
