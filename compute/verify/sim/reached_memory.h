// ReachedMemory: what the tree leads to, read from the memory servers' memory at one moment.
//
// Thread-safety: none.
// Cost: decodes each node of the tree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"
#include "proto/region.h"
#include "proto/value_block.h"

namespace gossamer::simulator {

class ReachedMemory {
 public:
  // The alignment of value blocks.
  static constexpr uint64_t kGranule = kBlockAlignment;
  // For each server, by granule: whether the tree leads there.
  using Granules = std::vector<std::vector<bool>>;
  struct Place {
    size_t server;
    uint64_t offset;
  };

  // Requires (unchecked): all memory servers live.
  ReachedMemory(SimNetwork& network, std::span<const std::unique_ptr<EmbeddedMemory>> memory,
                const StoreParameters& parameters);

  // Walks the tree from the root word on. Returns false if a node is being written, or is damaged.
  bool Walk();

  const Granules& granules() const { return granules_; }
  // What two entries refer to, or an entry and a pointer to a node.
  const std::optional<Place>& used_twice() const { return used_twice_; }

 private:
  struct Wanted {
    RemotePtr node;
    uint32_t level;
    Key low;
  };

  void Want(RemotePtr node, uint32_t level, const Key& low);
  bool IsWithin(ServerId server, uint64_t offset, uint64_t bytes);
  void Mark(ServerId server, uint64_t offset, uint64_t bytes);
  bool WalkInternal(RemotePtr pointer, uint32_t level, std::span<const std::byte> bytes);
  bool WalkLeaf(RemotePtr pointer, const Key& low, std::span<const std::byte> bytes);

  std::vector<std::span<std::byte>> regions_;
  const StoreParameters& parameters_;
  const LeafGeometry geometry_;
  Granules granules_;
  std::vector<Wanted> wanted_;
  KeyArena keys_;
  std::vector<Entry> entries_;
  bool is_within_ = true;  // everything found lies in the servers' memory
  std::optional<Place> used_twice_;
};

}  // namespace gossamer::simulator
