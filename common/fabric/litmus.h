// The start-up litmus test: does this device keep the orders that the protocol relies on?
//
// Three ordered pairs of CONTRACT.md may fail on real hardware:
//   - atomic before READ (O3): a READ behind the CAS that took a lock is not older than the lock;
//   - WRITE before atomic (O2): a client that sees a lock released sees what was written under it,
//     also with the lock in device memory and the data in host DRAM, two memories at two ends of
//     the bus;
//   - WRITE before WRITE (O1): a client that sees a link sees what it leads to. A device may be set
//     to let WRITEs overtake each other on the bus (PCIe's relaxed ordering; on ConnectX the
//     firmware setting PCI_WR_ORDERING=force_relax).
// In each round two queue pairs race. The side under test posts its two verbs in one batch, the
// other waits between its verbs, so that a failure is attributed to one pair. If the caller can see
// the memory, its CPU watches the two WRITEs instead: it notices what lasts for nanoseconds, where a
// READ comes a round trip late. Passing proves nothing; failing proves the device wrong, and the
// store falls back.
//
// Cost: about six round trips for each of `LitmusOptions::rounds`, bounded by the time limit.
// Thread-safety: both endpoints belong to the calling thread and have nothing else in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/fabric/endpoint.h"

namespace gossamer {

// Memory for the test alone. The test leaves the bytes undefined and restores the word.
struct LitmusScratch {
  uint64_t data_offset = 0;  // in the region: kLitmusBytes bytes
  uint64_t word_offset = 0;  // in `word_space`: 8 aligned bytes
  Space word_space = Space::kLockTable;
  // The data as this process sees it, kLitmusBytes bytes; null: in another process.
  const std::byte* view = nullptr;
};
inline constexpr uint32_t kLitmusBytes = 1024;  // many cache lines; fewer if the path MTU is less

struct LitmusOptions {
  uint32_t rounds = 1000;  // per pair, at most
  std::chrono::milliseconds time_limit{60'000};
};

struct LitmusReport {
  struct Pair {
    uint64_t rounds = 0;    // completed
    uint64_t decisive = 0;  // the reader saw the later verb, so it must see the data
    uint64_t failures = 0;  // decisive rounds in which it did not
  };
  Pair atomic_before_read;
  Pair write_before_atomic;
  Pair write_before_write;

  bool passed() const {
    return atomic_before_read.failures == 0 && write_before_atomic.failures == 0 &&
           write_before_write.failures == 0;
  }
  // "atomic before READ: 0 of 1000 failed (987 decisive); WRITE before atomic: ...; WRITE ..."
  std::string ToString() const;
};

// Requires: `writer` and `reader` are different endpoints of this thread, both attached to
// `server`.
// Errors: NodeUnreachable when a verb fails.
Result<LitmusReport> RunLitmus(Endpoint& writer, Endpoint& reader, ServerId server,
                               const LitmusScratch& scratch, const LitmusOptions& options = {});

}  // namespace gossamer
