#include "compute/verify/sim/reached_memory.h"

#include <cstring>

namespace gossamer::simulator {

ReachedMemory::ReachedMemory(SimNetwork& network,
                             std::span<const std::unique_ptr<EmbeddedMemory>> memory,
                             const StoreParameters& parameters)
    : parameters_(parameters), geometry_(parameters) {
  for (const auto& server : memory) {
    regions_.push_back(network.Memory(server->address()));
    granules_.emplace_back(regions_.back().size() / kGranule);
  }
}

bool ReachedMemory::Walk() {
  uint64_t word = 0;
  std::memcpy(&word, regions_[0].data() + kRootWordOffset, sizeof word);
  const RootWord root = RootWord::FromWord(word);
  Want(root.pointer(), root.level(), Key());
  while (!wanted_.empty()) {
    const auto [node, level, low] = wanted_.back();
    wanted_.pop_back();
    const std::span<const std::byte> bytes =
        regions_[ToInteger(node.server())].subspan(node.offset(), parameters_.node_bytes);
    if (!(level == 0 ? WalkLeaf(node, low, bytes) : WalkInternal(node, level, bytes))) return false;
  }
  return is_within_;
}

void ReachedMemory::Want(RemotePtr node, uint32_t level, const Key& low) {
  if (node.is_null() || !IsWithin(node.server(), node.offset(), parameters_.node_bytes)) return;
  // A parent leads to it, and a sibling, too.
  if (granules_[ToInteger(node.server())][node.offset() / kGranule]) return;
  Mark(node.server(), node.offset(), parameters_.node_bytes);
  wanted_.push_back({node, level, low});
}

bool ReachedMemory::IsWithin(ServerId server, uint64_t offset, uint64_t bytes) {
  const bool is_within =
      ToInteger(server) < regions_.size() && offset + bytes <= regions_[ToInteger(server)].size();
  is_within_ = is_within_ && is_within;
  return is_within;
}

void ReachedMemory::Mark(ServerId server, uint64_t offset, uint64_t bytes) {
  std::vector<bool>& granules = granules_[ToInteger(server)];
  for (uint64_t at = offset; at < offset + bytes; at += kGranule) {
    if (granules[at / kGranule]) used_twice_ = {ToInteger(server), at};
    granules[at / kGranule] = true;
  }
}

bool ReachedMemory::WalkInternal(RemotePtr pointer, uint32_t level,
                                 std::span<const std::byte> bytes) {
  const std::optional<InternalNode> node = DecodeInternal(bytes, pointer);
  if (!node) return false;
  Want(node->sibling, level, node->high.key);
  for (const InternalNode::Child& child : node->children) {
    Want(child.pointer, level - 1, child.separator);
  }
  return true;
}

bool ReachedMemory::WalkLeaf(RemotePtr pointer, const Key& low, std::span<const std::byte> bytes) {
  const std::optional<LeafView> leaf = LeafView::Parse(bytes, pointer, geometry_, low);
  if (!leaf) return false;
  Want(leaf->trailer().sibling(), 0, leaf->high().key);
  entries_.clear();
  keys_.Clear();
  leaf->AppendTo(entries_, keys_);
  for (const Entry& entry : entries_) {
    if (!entry.has_block()) continue;
    const BlockPtr block = entry.block().ptr();
    const uint64_t block_bytes = BlockBytes(entry.block().length);
    if (IsWithin(block.server(), block.offset(), block_bytes)) {
      Mark(block.server(), block.offset(), block_bytes);
    }
  }
  return true;
}

}  // namespace gossamer::simulator
