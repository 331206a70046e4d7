// LeafRuns: neighbouring leaves that are read together, also ahead of their use.
//
// A run outlives the scan that gave it up while its READs are in flight: its bytes are theirs until
// they complete.
//
// Thread-safety: none; one for each session.
// Cost: no allocation in the steady state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/event.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/session/server_batches.h"
#include "compute/tree/read/scan_page.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

// At most so many leaves are read together.
inline constexpr size_t kMaxRunLeaves = 32;

// Leaves as the parents name them, in the order of a scan, and their bytes, not validated yet.
struct LeafRun {
  std::vector<NodeCache::LeafRef> refs;
  // Where the last leaf ends, and so the scan goes on, according to the parents. nullopt: no cached
  // parent says so.
  std::optional<HighFence> end;
  bool is_last = false;  // the range ends in this run
  BufferLease images;

  // Of READs ahead.
  bool in_flight = false;
  bool is_given_up = false;
  Status status = Ok();
  Event arrived;

  ServerBatches batches;

  std::span<const std::byte> image(size_t i, uint32_t node_bytes) const {
    return {images.data() + i * node_bytes, node_bytes};
  }
};

class LeafRuns {
 public:
  explicit LeafRuns(TreeContext& context) : context_(context) {}

  // An empty run.
  LeafRun& Take();
  // Gives `run` back, unless it is null, and sets it to null.
  void GiveBack(LeafRun*& run);

  // Finds up to `leaves` leaves from the position on, as far as their parents are cached and the
  // range goes. Returns false if there is none.
  bool Collect(LeafRun& run, const ScanRange& range, const ScanPosition& position, size_t leaves);
  // READs all leaves of the run.
  // Errors: those of NodeReader.
  // Cost: 1 RT.
  Task<Status> Read(Op& op, LeafRun& run);
  // Starts to READ them. `run.in_flight` tells when this has ended, and `run.status` how.
  void StartToRead(LeafRun& run, const Op& op);

 private:
  Task<void> ReadAhead(LeafRun& run, Op op);

  TreeContext& context_;
  std::vector<std::unique_ptr<LeafRun>> all_;
  std::vector<LeafRun*> idle_;
};

}  // namespace gossamer
