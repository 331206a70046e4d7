#include "compute/verify/sim/sweeper.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "proto/internal_node.h"
#include "proto/leaf.h"
#include "proto/value_block.h"

namespace gossamer::simulator {
namespace {

constexpr uint64_t kGranule = kBlockAlignment;
constexpr uint64_t kStepsBetweenLooks = 512;
constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr int kOfTheNextOwner = 0xa5;

uint64_t WordOf(const Lease& lease) {
  return uint64_t{static_cast<uint16_t>(lease.compute)} << 32 | lease.incarnation;
}

// Walks the tree in memory, from the root word on.
class ReachedMemory {
 public:
  ReachedMemory(std::vector<std::span<std::byte>> regions, const StoreParameters& parameters)
      : regions_(std::move(regions)),
        parameters_(parameters),
        geometry_(parameters),
        granules_(regions_.size()) {
    for (size_t i = 0; i < regions_.size(); ++i) granules_[i].resize(regions_[i].size() / kGranule);
  }

  // Returns false if a node is being written or is damaged.
  bool Walk() {
    uint64_t word = 0;
    std::memcpy(&word, regions_[0].data() + kRootWordOffset, sizeof word);
    const RootWord root = RootWord::FromWord(word);
    Want(root.pointer(), root.level(), Key());
    while (!wanted_.empty()) {
      const auto [node, level, low] = wanted_.back();
      wanted_.pop_back();
      const std::span<const std::byte> bytes =
          regions_[ToInteger(node.server())].subspan(node.offset(), parameters_.node_bytes);
      if (!(level == 0 ? WalkLeaf(node, low, bytes) : WalkInternal(node, level, bytes)))
        return false;
    }
    return is_within_;
  }

  std::vector<std::vector<bool>>& granules() { return granules_; }

 private:
  void Want(RemotePtr node, uint32_t level, const Key& low) {
    if (node.is_null() || !IsWithin(node.server(), node.offset(), parameters_.node_bytes)) return;
    if (granules_[ToInteger(node.server())][node.offset() / kGranule]) return;
    Mark(node.server(), node.offset(), parameters_.node_bytes);
    wanted_.push_back({node, level, low});
  }

  bool IsWithin(ServerId server, uint64_t offset, uint64_t bytes) {
    const bool is_within =
        ToInteger(server) < regions_.size() && offset + bytes <= regions_[ToInteger(server)].size();
    is_within_ = is_within_ && is_within;
    return is_within;
  }

  void Mark(ServerId server, uint64_t offset, uint64_t bytes) {
    for (uint64_t at = offset; at < offset + bytes; at += kGranule) {
      granules_[ToInteger(server)][at / kGranule] = true;
    }
  }

  bool WalkInternal(RemotePtr pointer, uint32_t level, std::span<const std::byte> bytes) {
    const std::optional<InternalNode> node = DecodeInternal(bytes, pointer);
    if (!node) return false;
    Want(node->sibling, level, node->high.key);
    for (const InternalNode::Child& child : node->children) {
      Want(child.pointer, level - 1, child.separator);
    }
    return true;
  }

  bool WalkLeaf(RemotePtr pointer, const Key& low, std::span<const std::byte> bytes) {
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

  const std::vector<std::span<std::byte>> regions_;
  const StoreParameters& parameters_;
  const LeafGeometry geometry_;
  std::vector<std::vector<bool>> granules_;
  struct Wanted {
    RemotePtr node;
    uint32_t level;
    Key low;
  };
  std::vector<Wanted> wanted_;
  KeyArena keys_;
  std::vector<Entry> entries_;
  bool is_within_ = true;  // everything found lies in the servers' memory
};

}  // namespace

void Sweeper::Look() {
  const bool is_due =
      ++steps_ >= kStepsBetweenLooks || network_.Now() - looked_at_ >= kBetweenLooks;
  if (!is_due) return;
  steps_ = 0;
  looked_at_ = network_.Now();
  const bool all_live =
      std::ranges::all_of(memory_, [](const auto& server) { return server != nullptr; });
  if (all_live) LookNow();
}

void Sweeper::LeaveGivenBack() {
  for (size_t server = 0; server < swept_.size(); ++server) {
    if (memory_[server] == nullptr) continue;
    std::vector<bool> still(swept_[server].size());
    for (const GrantedExtent& extent : memory_[server]->Granted().extents) {
      if (!swept_leases_.contains({server, WordOf(extent.lease)})) continue;
      for (uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += kGranule) {
        still[at / kGranule] = swept_[server][at / kGranule];
      }
    }
    swept_[server] = std::move(still);
  }
}

void Sweeper::LookNow() {
  LeaveGivenBack();
  std::vector<GrantedMemory> granted;
  std::set<LeaseKey> in_force;
  for (size_t server = 0; server < memory_.size(); ++server) {
    granted.push_back(memory_[server]->Granted());
    for (const LeaseInForce& each : granted.back().in_force) {
      in_force.insert({server, WordOf(each.lease)});
    }
  }
  std::optional<Granules> reached;
  for (size_t server = 0; server < memory_.size(); ++server) {
    std::set<LeaseKey> swept_now;
    for (const GrantedExtent& extent : granted[server].extents) {
      const LeaseKey key{server, WordOf(extent.lease)};
      if (in_force.contains(key) || swept_leases_.contains(key)) continue;
      const auto [known, is_new] = ended_.try_emplace(key);
      std::set<LeaseKey>& before = known->second;
      for (size_t other = 0; is_new && other < memory_.size(); ++other) {
        for (const LeaseInForce& each : granted[other].in_force) {
          if (each.client_uuid == extent.client_uuid) before.insert({other, WordOf(each.lease)});
        }
      }
      if (std::ranges::any_of(before,
                              [&](const LeaseKey& lease) { return in_force.contains(lease); })) {
        continue;
      }
      if (!reached) reached = FindReached();
      if (!reached) return;
      Sweep(server, extent, *reached);
      swept_now.insert(key);
    }
    swept_leases_.merge(swept_now);
  }
}

std::optional<Sweeper::Granules> Sweeper::FindReached() {
  std::vector<std::span<std::byte>> regions;
  for (const auto& server : memory_) regions.push_back(network_.Memory(server->address()));
  ReachedMemory reached(std::move(regions), parameters_);
  if (!reached.Walk()) return std::nullopt;
  while (swept_.size() < memory_.size()) {
    swept_.emplace_back(reached.granules()[swept_.size()].size());
  }
  return std::move(reached.granules());
}

void Sweeper::Sweep(size_t server, const GrantedExtent& extent, const Granules& reached) {
  const std::span<std::byte> region = network_.Memory(memory_[server]->address());
  for (uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += kGranule) {
    if (reached[server][at / kGranule]) continue;
    swept_[server][at / kGranule] = true;
    std::memset(region.data() + at, kOfTheNextOwner, kGranule);
  }
}

uint64_t Sweeper::Overwrite() {
  LeaveGivenBack();
  uint64_t bytes = 0;
  for (size_t server = 0; server < swept_.size(); ++server) {
    if (memory_[server] == nullptr) continue;
    const std::span<std::byte> region = network_.Memory(memory_[server]->address());
    for (uint64_t granule = 0; granule < swept_[server].size(); ++granule) {
      if (!swept_[server][granule]) continue;
      std::memset(region.data() + granule * kGranule, kOfTheNextOwner, kGranule);
      bytes += kGranule;
    }
  }
  return bytes;
}

}  // namespace gossamer::simulator
