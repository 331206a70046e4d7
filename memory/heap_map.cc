#include "memory/heap_map.h"

#include <fmt/core.h>

#include <atomic>
#include <cassert>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory/rules.h"

namespace gossamer {
namespace {

// Bits of Use::Pack.
constexpr uint32_t kKindAt = 15;
constexpr uint32_t kWaitingAt = 16;
constexpr uint32_t kBlocksAt = 17;
constexpr uint32_t kNodesAt = 23;
static_assert(HeapMap::kMostHolders < 1 << kKindAt);
static_assert(HeapMap::Generations::kOfBlocks == 1 << (kNodesAt - kBlocksAt));
static_assert(HeapMap::Generations::kOfNodes + HeapMap::Generations::kCohorts <=
              1 << (32 - kNodesAt));

constexpr uint32_t kComputeAt = 32;  // in Holder::lease
constexpr uint32_t kIncarnationBits = 24;

// The compiler moves it past no other store to the map.
template <typename Word>
void Store(Word& word, Word value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
  rules::MapIsStored();
}

// Why no memory is used like that; empty if some may be.
std::string_view WhyNot(const HeapMap::Use& use) {
  const bool is_of_nodes = use.kind == control::ExtentKind::kNodes;
  if (use.owner == HeapMap::kFree && (!is_of_nodes || use.is_waiting)) {
    return "the run is free, and yet used";
  }
  if (use.next.of_nodes >= HeapMap::Generations::kOfNodes + HeapMap::Generations::kCohorts) {
    return "nodes have no such generation";
  }
  const bool has_nodes = use.owner != HeapMap::kFree && is_of_nodes && !use.is_waiting;
  if (has_nodes && !use.next.AllowNodes())
    return "it holds nodes, but their generations are used up";
  return {};
}

bool IsLease(uint64_t word) {
  const uint64_t incarnation = word & ((uint64_t{1} << kComputeAt) - 1);
  const uint64_t compute = word >> kComputeAt;
  return incarnation != 0 && incarnation >> kIncarnationBits == 0 && compute != 0 &&
         compute >> 16 == 0;
}

}  // namespace

uint32_t HeapMap::Use::Pack() const {
  const uint32_t is_of_blocks = kind == control::ExtentKind::kBlocks ? 1 : 0;
  return owner | is_of_blocks << kKindAt | uint32_t{is_waiting} << kWaitingAt |
         uint32_t{next.of_blocks} << kBlocksAt | uint32_t{next.of_nodes} << kNodesAt;
}

HeapMap::Use HeapMap::Use::Unpack(uint32_t word) {
  Use use;
  use.owner = static_cast<uint16_t>(word & ((1U << kKindAt) - 1));
  const bool is_of_blocks = (word >> kKindAt & 1) != 0;
  use.kind = is_of_blocks ? control::ExtentKind::kBlocks : control::ExtentKind::kNodes;
  use.is_waiting = (word >> kWaitingAt & 1) != 0;
  use.next.of_blocks =
      static_cast<uint8_t>(word >> kBlocksAt & ((1U << (kNodesAt - kBlocksAt)) - 1));
  use.next.of_nodes = static_cast<uint16_t>(word >> kNodesAt);
  return use;
}

// Worn memory stays apart: it would take the others' generations away, or wait for another epoch.
bool HeapMap::Use::IsLike(const Use& other) const {
  const bool are_worn_alike =
      next.AllowNodes() ? other.next.AllowNodes() : next.of_nodes == other.next.of_nodes;
  return owner == other.owner && kind == other.kind && is_waiting == other.is_waiting &&
         are_worn_alike;
}

HeapMap::HeapMap(ZeroedArray<uint64_t> own, std::span<std::byte> memory, uint64_t grains)
    : grains_(grains),
      own_(std::move(own)),
      holders_(reinterpret_cast<Holder*>(memory.data())),
      starts_(std::span(reinterpret_cast<uint64_t*>(memory.data() + kBytesOfHolders),
                        GrainSet::WordsFor(grains))),
      uses_(reinterpret_cast<uint32_t*>(memory.data() + kBytesOfHolders + BytesOfStarts(grains))) {
  assert(memory.size() >= BytesFor(grains) &&
         reinterpret_cast<uintptr_t>(memory.data()) % alignof(Holder) == 0);
}

HeapMap HeapMap::New(uint64_t grains) {
  const uint64_t words = (BytesFor(grains) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  ZeroedArray<uint64_t> own(words);
  const auto memory = std::as_writable_bytes(std::span(&own[0], words));
  HeapMap map(std::move(own), memory, grains);
  map.StartFirstRun();
  return map;
}

HeapMap HeapMap::New(std::span<std::byte> memory, uint64_t grains) {
  assert(memory.size() >= BytesFor(grains));
  HeapMap map(ZeroedArray<uint64_t>(0), memory, grains);
  map.StartFirstRun();
  return map;
}

HeapMap HeapMap::Left(std::span<std::byte> memory, uint64_t grains) {
  assert(memory.size() >= BytesFor(grains));
  rules::ForgetUnstored(memory);
  HeapMap map(ZeroedArray<uint64_t>(0), memory, grains);
  map.starts_.SumUp();
  return map;
}

void HeapMap::StartFirstRun() {
  if (grains_ != 0) starts_.Insert(0);
  rules::MapIsStored();
}

Status HeapMap::Check(uint64_t heap_offset) const {
  const auto refuse = [&](uint64_t grain, std::string_view why) {
    return MakeError(Code::kCorruption,
                     fmt::format("the map of the heap is damaged at offset {}: {}",
                                 heap_offset + grain * kGrain, why));
  };
  const uint64_t first = starts_.Next(0);
  if (grains_ != 0 && first != 0) return refuse(0, "no run begins there");
  std::vector<bool> is_known(kMostHolders + 1);
  is_known[kFree] = true;
  std::unordered_set<uint64_t> leases;
  for (uint64_t at = first; at != GrainSet::kNone; at = starts_.Next(at + 1)) {
    if (at >= grains_) return refuse(at, "a run begins behind the end of the heap");
    const Use use = Use::Unpack(uses_[at]);
    if (const std::string_view why = WhyNot(use); !why.empty()) return refuse(at, why);
    if (is_known[use.owner]) continue;
    is_known[use.owner] = true;
    const uint64_t lease = holders_[use.owner].lease;
    if (!IsLease(lease)) {
      return refuse(at, fmt::format("its owner, holder {}, has no lease", use.owner));
    }
    if (!leases.insert(lease).second) {
      return refuse(at, fmt::format("its owner, holder {}, has the lease of another", use.owner));
    }
  }
  return Ok();
}

HeapMap::Owner HeapMap::OwnerAt(uint16_t index) const {
  const Holder& holder = holders_[index];
  return {{static_cast<ComputeId>(holder.lease >> kComputeAt), static_cast<uint32_t>(holder.lease)},
          holder.client_uuid};
}

void HeapMap::Split(uint64_t first, uint64_t at) {
  Store(uses_[at], uses_[first]);
  starts_.Insert(at);
  rules::MapIsStored();
}

void HeapMap::SetUse(uint64_t first, const Use& use) {
  if (use.owner != kFree && RunAt(first).is_free()) rules::Grants(uses_[first]);
  Store(uses_[first], use.Pack());
}

HeapMap::Use HeapMap::Join(uint64_t left, uint64_t right) {
  Use use = Use::Unpack(uses_[left]);
  use.next = use.next.With(Use::Unpack(uses_[right]).next);
  SetUse(left, use);
  starts_.Erase(right);
  rules::MapIsStored();
  return use;
}

void HeapMap::SetHolder(uint16_t index, const Owner& owner) {
  Store(holders_[index].client_uuid, owner.client_uuid);
  Store(holders_[index].lease, uint64_t{static_cast<uint16_t>(owner.lease.compute)} << kComputeAt |
                                   owner.lease.incarnation);
}

}  // namespace gossamer
