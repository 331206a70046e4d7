// HeapMap, and ChunkAllocator over restarts. This program has its own copies of both, which say
// when they have stored to the map (memory/CMakeLists.txt).
#include "memory/heap_map.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/seed.h"
#include "memory/chunk_allocator.h"
#include "memory/rules.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using control::ExtentKind;
using control::Past;
using ::testing::HasSubstr;

constexpr uint64_t kGrain = HeapMap::kGrain;
constexpr uint64_t kChunk = 4096;
constexpr uint64_t kGrains = 10 * kChunk / kGrain + 12;
constexpr uint64_t kRegion = kHeapOffset + kGrains * kGrain;
// Offsets in the map, as its comment says.
constexpr uint64_t kStartsAt = 524'288;
constexpr uint64_t kUsesAt = kStartsAt + (kGrains + 63) / 64 * 8;
// Holders that tests use.
constexpr uint64_t kHolders = 64;

uint64_t OffsetOf(uint64_t grain) { return kHeapOffset + grain * kGrain; }
uint64_t GrainOf(uint64_t offset) { return (offset - kHeapOffset) / kGrain; }

// A map with zeros behind the first holders.
class MapMemory {
 public:
  // All that is not zeros.
  using Copy = std::vector<std::byte>;

  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }
  template <typename T>
  T& At(uint64_t offset) {
    return *reinterpret_cast<T*>(bytes().data() + offset);
  }
  uint32_t& UseOf(uint64_t grain) { return At<uint32_t>(kUsesAt + 4 * grain); }
  Copy Save() {
    Copy copy(kHead + bytes().size() - kStartsAt);
    std::memcpy(copy.data(), bytes().data(), kHead);
    std::memcpy(copy.data() + kHead, bytes().data() + kStartsAt, copy.size() - kHead);
    return copy;
  }
  void Load(const Copy& copy) {
    std::memcpy(bytes().data(), copy.data(), kHead);
    std::memcpy(bytes().data() + kStartsAt, copy.data() + kHead, copy.size() - kHead);
  }
  HeapMap New() { return HeapMap::New(bytes(), kGrains); }
  HeapMap Left() { return HeapMap::Left(bytes(), kGrains); }
  Result<ChunkAllocator> Open(uint64_t chunk = kChunk) {
    return ChunkAllocator::Open(kHeapOffset, kRegion, chunk, Left());
  }

 private:
  static constexpr uint64_t kHead = kHolders * 16;
  std::vector<uint64_t> words_ = std::vector<uint64_t>(HeapMap::BytesFor(kGrains) / 8);
};
static_assert(HeapMap::BytesFor(kGrains) % 8 == 0);

// Keeps what the map is after each store.
class Watch {
 public:
  explicit Watch(MapMemory& memory) : memory_(memory), outer_(std::exchange(watch, this)) {
    rules::after_map_store = [] { watch->copies.push_back(watch->memory_.Save()); };
  }
  Watch(const Watch&) = delete;
  ~Watch() {
    watch = outer_;
    if (watch == nullptr) rules::after_map_store = nullptr;
  }

  std::vector<MapMemory::Copy> copies;

 private:
  static inline Watch* watch = nullptr;
  MapMemory& memory_;
  Watch* const outer_;
};

// What is known of a grain.
struct Grain {
  ChunkAllocator::Owner owner;  // free: of compute id 0
  bool waits = false;
  ExtentKind kind = ExtentKind::kNodes;
  // The least generations that the next pointers may have.
  uint16_t nodes = 0;
  uint8_t blocks = 0;
  uint32_t worn_in = 0;  // if the generations of nodes are used up
  uint32_t offer = 0;    // the last one that has it

  bool is_free() const { return owner.lease == Lease{}; }
  uint16_t next() const { return kind == ExtentKind::kNodes ? nodes : blocks; }
  void Free() {
    owner = {};
    waits = false;
  }
};
using Heap = std::vector<Grain>;

// Whether a map after a restart shows the grain in `run` as it was.
bool Shows(const HeapMap& map, const HeapMap::Run& run, const Grain& grain) {
  if (run.use.next.of_nodes < grain.nodes || run.use.next.of_blocks < grain.blocks) return false;
  if (run.is_free() || grain.is_free() || grain.waits) {
    return run.is_free() && (grain.is_free() || grain.waits);
  }
  const HeapMap::Owner owner = map.OwnerAt(run.use.owner);
  return owner.lease == grain.owner.lease && owner.client_uuid == grain.owner.client_uuid &&
         run.use.kind == grain.kind;
}

std::string Describe(const Grain& grain) {
  return fmt::format(
      "of {}/{}, {}, {}, next {} and {}", static_cast<int>(grain.owner.lease.compute),
      grain.owner.lease.incarnation, grain.waits ? "waits" : "does not wait",
      grain.kind == ExtentKind::kNodes ? "nodes" : "blocks", grain.nodes, grain.blocks);
}

// What is wrong with the map and counts of an allocator that has just been opened; empty: nothing.
// Each grain is as in `before` or as in `after`. `found` gets which, and no more than is sure.
std::string Compare(const ChunkAllocator& allocator, const HeapMap& map, const Heap& before,
                    const Heap& after, Heap* found = nullptr) {
  uint64_t free = 0;
  uint64_t worn = 0;
  uint64_t runs = 0;
  std::optional<HeapMap::Run> last;
  for (uint64_t at = 0; at < kGrains; at = last->end) {
    const HeapMap::Run run = map.RunAt(at);
    if (run.first != at || run.end > kGrains) return fmt::format("grain {} begins no run", at);
    if (run.use.is_waiting) return fmt::format("grain {} still waits", at);
    if (run.is_free() && at / (kChunk / kGrain) != (run.end - 1) / (kChunk / kGrain)) {
      return fmt::format("grain {}: free, and crosses chunks", at);
    }
    const bool is_apart = run.is_free() && at % (kChunk / kGrain) == 0;
    if (last && !is_apart && run.use.IsLike(last->use)) return fmt::format("{} is not joined", at);
    for (uint64_t i = at; i < run.end; ++i) {
      const bool shows_before = Shows(map, run, before[i]);
      const bool shows_after = Shows(map, run, after[i]);
      if (!shows_before && !shows_after) {
        return fmt::format("grain {} ({}; {}) is shown with holder {}, next {} and {}", i,
                           Describe(before[i]), Describe(after[i]), run.use.owner,
                           run.use.next.of_nodes, run.use.next.of_blocks);
      }
      if (found == nullptr) continue;
      Grain grain = shows_after ? after[i] : before[i];
      if (shows_before && shows_after) {
        grain.nodes = std::min(grain.nodes, before[i].nodes);
        grain.blocks = std::min(grain.blocks, before[i].blocks);
      }
      if (grain.waits) grain.Free();
      grain.worn_in = control::kFirstEpoch;
      grain.offer = 0;
      (*found)[i] = grain;
    }
    if (run.is_free()) free += run.grains();
    if (!run.is_free()) ++runs;
    if (!run.use.next.AllowNodes()) worn += run.grains();
    last = run;
  }
  const control::Usage usage = allocator.usage();
  if (usage.heap_bytes != kGrains * kGrain || usage.free_bytes != free * kGrain ||
      usage.node_bytes + usage.block_bytes + usage.free_bytes != usage.heap_bytes ||
      allocator.orphaned_bytes() != usage.heap_bytes - usage.free_bytes ||
      allocator.waiting_bytes() != 0 || allocator.extents() != runs ||
      allocator.worn_bytes() != worn * kGrain) {
    return "the counts do not add up";
  }
  return {};
}

bool HasEnded(Lease) { return false; }

// What is wrong when all memory is handed out, given back, and handed out again.
std::string WorkOn(ChunkAllocator& allocator) {
  constexpr ChunkAllocator::Owner kLate{{ComputeId{99}, (1 << 24) - 1}, 99};
  uint64_t handed_out = allocator.heap_bytes() - allocator.free_bytes();
  while (const auto extent = allocator.Allocate(kGrain, kLate, ExtentKind::kBlocks)) {
    handed_out += extent.value().bytes;
  }
  if (handed_out != allocator.heap_bytes() || allocator.free_bytes() != 0) {
    return "not all memory can be handed out";
  }
  while (const auto extent = allocator.NextExtent(0)) {
    const control::Range range{extent->offset,
                               extent->bytes,
                               0,
                               Past::kOrphaned,
                               static_cast<uint16_t>(extent->owner.lease.compute),
                               extent->owner.lease.incarnation};
    const Status taken = allocator.Release(range, {}, control::kFirstEpoch, HasEnded);
    if (!taken) return taken.error().message;
  }
  if (allocator.free_bytes() != allocator.heap_bytes() || allocator.orphaned_bytes() != 0) {
    return "not all memory is free";
  }
  const uint64_t grid = allocator.heap_bytes() / allocator.chunk_bytes() * allocator.chunk_bytes();
  return grid == 0 || allocator.Allocate(grid, kLate, ExtentKind::kNodes)
             ? ""
             : "the memory cannot be handed out at once";
}

// Compute servers, and a memory server that may be killed at every store.
class Restarts {
 public:
  explicit Restarts(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < servers_.size(); ++i) Register(i);
  }

  // One operation: what is wrong, or empty.
  std::string Step() {
    const Heap before = heap_;
    std::vector<MapMemory::Copy> copies;
    {
      Watch watch(memory_);
      const std::string wrong = Operate();
      if (!wrong.empty()) return wrong;
      copies = std::move(watch.copies);
    }
    for (const MapMemory::Copy& copy : copies) {
      const std::string wrong = Examine(copy, before);
      if (!wrong.empty()) return wrong;
    }
    stores_ += copies.size();
    if (copies.empty() || random_() % 30 != 0) return {};
    memory_.Load(copies[random_() % copies.size()]);
    return Restart(before);
  }
  uint64_t stores() const { return stores_; }

 private:
  void Register(size_t server) {
    // Some come back, others are new.
    const uint64_t client_uuid = random_() % 2 == 0 ? 100 + server : random_();
    servers_[server] = {{static_cast<ComputeId>(1 + server), ++incarnation_}, client_uuid};
  }
  bool IsInForce(Lease lease) const {
    return std::ranges::any_of(servers_, [&](const auto& owner) { return owner.lease == lease; });
  }

  // The map was `copy` when the process was killed. What an operation has not answered may have
  // happened or not, each part of it.
  std::string Examine(const MapMemory::Copy& copy, const Heap& before) {
    other_.Load(copy);
    std::vector<MapMemory::Copy> while_opened;
    {
      Watch watch(other_);
      auto opened = other_.Open();
      if (!opened) return opened.error().message;
      std::string wrong = Compare(opened.value(), other_.Left(), before, heap_);
      if (!wrong.empty()) return wrong;
      while_opened = watch.copies;
      if (random_() % 16 != 0) while_opened.clear();
      rules::after_map_store = nullptr;
      if (random_() % 4 == 0) wrong = WorkOn(opened.value());
      if (!wrong.empty()) return wrong;
    }
    for (const MapMemory::Copy& again : while_opened) {  // killed again
      other_.Load(again);
      const auto opened = other_.Open();
      if (!opened) return opened.error().message;
      const std::string wrong = Compare(opened.value(), other_.Left(), before, heap_);
      if (!wrong.empty()) return "opened twice: " + wrong;
    }
    return {};
  }

  std::string Restart(const Heap& before) {
    auto opened = memory_.Open();
    if (!opened) return opened.error().message;
    allocator_.emplace(std::move(opened.value()));
    Heap found(kGrains);
    const std::string wrong = Compare(*allocator_, memory_.Left(), before, heap_, &found);
    heap_ = std::move(found);
    for (size_t i = 0; i < servers_.size(); ++i) Register(i);
    epoch_ = oldest_ = control::kFirstEpoch;
    offers_ = {};
    return wrong;
  }

  std::string Operate() {
    const size_t server = random_() % servers_.size();
    const ChunkAllocator::Owner owner = servers_[server];
    const auto kind = random_() % 2 == 0 ? ExtentKind::kNodes : ExtentKind::kBlocks;
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const bool is_large = random_() % 3 == 0;
        const uint64_t bytes = is_large ? (1 + random_() % 3) * kChunk : kGrain << random_() % 6;
        const auto extent = allocator_->Allocate(bytes, owner, kind);
        return extent ? Grant(extent.value(), owner) : "";
      }
      case 4: {
        for (const auto& extent :
             allocator_->AllocateWaiting(kGrain << random_() % 4, owner.lease, kind, 5)) {
          const std::string wrong = Grant(extent, owner);
          if (!wrong.empty()) return wrong;
        }
        return {};
      }
      case 5: return Offer(server);
      case 6: return GiveUp(server);
      case 7:
        if (random_() % 3 == 0) End(server);
        return {};
      case 8: EndEpochs(); return {};
      case 9:
      case 10:
      case 11: return Sweep();
      default: return Release(owner.lease);
    }
  }

  std::string Grant(const ChunkAllocator::Extent& extent, const ChunkAllocator::Owner& owner) {
    for (uint64_t i = GrainOf(extent.offset); i < GrainOf(extent.offset + extent.bytes); ++i) {
      Grain& grain = heap_[i];
      const bool may_have = grain.is_free() || (grain.waits && grain.owner.lease == owner.lease);
      if (!may_have) return fmt::format("granted: grain {}, {}", i, Describe(grain));
      grain.owner = owner;
      grain.waits = false;
      grain.kind = extent.kind;
      grain.offer = 0;
      if (extent.generation() < grain.next() ||
          (extent.kind == ExtentKind::kNodes && grain.nodes >= HeapMap::Generations::kOfNodes)) {
        return fmt::format("granted with {}: grain {}, {}", extent.generation(), i,
                           Describe(grain));
      }
      if (extent.kind == ExtentKind::kNodes) {
        grain.nodes = extent.generation();
      } else {
        grain.blocks = extent.generation();
      }
    }
    return {};
  }

  std::string Offer(size_t server) {
    const auto offer = allocator_->MakeOffer(servers_[server].lease, 1 + random_() % 9);
    offers_[server] = offer.number;
    for (const auto& [offset, bytes] : offer.ranges) {
      for (uint64_t i = GrainOf(offset); i < GrainOf(offset + bytes); ++i) {
        heap_[i].offer = offer.number;
      }
    }
    return {};
  }

  std::string GiveUp(size_t server) {
    uint64_t expected = 0;
    for (Grain& grain : heap_) {
      const bool is_offered = offers_[server] != 0 && grain.offer == offers_[server];
      if (!is_offered || !grain.waits || grain.owner.lease != servers_[server].lease) continue;
      expected += kGrain;
      grain.Free();
    }
    return allocator_->GiveUp(servers_[server].lease, offers_[server]) == expected
               ? ""
               : "something else was given up";
  }

  void End(size_t server) {
    const Lease ended = servers_[server].lease;
    allocator_->Ended(ended);
    for (Grain& grain : heap_) {
      if (grain.waits && grain.owner.lease == ended) grain.Free();
    }
    offers_[server] = 0;
    Register(server);
  }

  void EndEpochs() {
    if (random_() % 2 == 0) ++epoch_;
    oldest_ += static_cast<uint32_t>(random_() % (epoch_ - oldest_ + 1));
    allocator_->EndEpochsBefore(oldest_);
    for (Grain& grain : heap_) {
      if (grain.nodes >= HeapMap::Generations::kOfNodes && grain.worn_in < oldest_) grain.nodes = 0;
    }
  }

  std::string Sweep() {
    const uint64_t first = random_() % kGrains;
    const Grain& one = heap_[first];
    if (one.is_free() || IsInForce(one.owner.lease)) return {};
    uint64_t end = first;
    while (end < kGrains && heap_[end].owner.lease == one.owner.lease && random_() % 64 != 0) ++end;
    const control::Range range{OffsetOf(first),
                               (end - first) * kGrain,
                               0,
                               Past::kOrphaned,
                               static_cast<uint16_t>(one.owner.lease.compute),
                               one.owner.lease.incarnation};
    if (end == first) return {};
    return Take(range, {}, [](Grain& grain, bool) {
      grain.Free();
      grain.nodes = 0;
      grain.blocks = 0;
    });
  }

  std::string Release(Lease by) {
    const uint64_t first = random_() % kGrains;
    const Grain one = heap_[first];
    const bool is_used = random_() % 4 != 0;
    uint64_t end = first;
    uint16_t generation = 0;
    for (const uint64_t most = 1 + random_() % 150; end < std::min(kGrains, first + most); ++end) {
      const Grain& grain = heap_[end];
      if (grain.is_free() || grain.waits || grain.kind != one.kind) break;
      if (!is_used && grain.owner.lease != by) break;
      generation = std::max(generation, grain.next());
    }
    if (end == first) return {};
    const uint16_t last = one.kind == ExtentKind::kNodes ? 255 : 63;
    if (is_used) {
      generation = random_() % 4 == 0
                       ? last
                       : std::min(last, static_cast<uint16_t>(generation + random_() % 3));
    }
    const control::Range range{OffsetOf(first), (end - first) * kGrain,
                               static_cast<uint8_t>(generation),
                               is_used ? Past::kUsed : Past::kUnused};
    const auto next = static_cast<uint16_t>(generation + (is_used ? 1 : 0));
    return Take(range, by, [&](Grain& grain, bool waits) {
      if (grain.kind == ExtentKind::kNodes) {
        grain.nodes = next;
        grain.worn_in = epoch_;
      } else {
        grain.blocks = static_cast<uint8_t>(next % HeapMap::Generations::kOfBlocks);
      }
      grain.waits = waits;
      if (!waits) grain.Free();
    });
  }

  template <typename Change>
  std::string Take(const control::Range& range, Lease by, const Change& change) {
    const Status taken =
        allocator_->Release(range, by, epoch_, [this](Lease lease) { return IsInForce(lease); });
    if (!taken) return taken.error().message;
    for (uint64_t i = GrainOf(range.offset); i < GrainOf(range.offset + range.bytes); ++i) {
      const Lease owner = heap_[i].owner.lease;
      change(heap_[i], owner != by && IsInForce(owner));
    }
    return {};
  }

  std::mt19937_64 random_;
  MapMemory memory_;
  MapMemory other_;  // of copies
  std::optional<ChunkAllocator> allocator_ =
      std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory_.New()).value());
  Heap heap_ = Heap(kGrains);
  std::array<ChunkAllocator::Owner, 4> servers_;
  std::array<uint32_t, 4> offers_{};
  uint32_t incarnation_ = 0;
  uint32_t epoch_ = control::kFirstEpoch;
  uint32_t oldest_ = control::kFirstEpoch;
  uint64_t stores_ = 0;
};

TEST(HeapMap, IsTrueWheneverTheProcessIsKilled) {
  std::mt19937_64 random(TestSeed());
  uint64_t stores = 0;
  for (int round = 0; round < 40; ++round) {
    const uint64_t seed = random();
    SCOPED_TRACE(fmt::format("round {}", round));
    Restarts restarts(seed);
    for (int step = 0; step < 500; ++step) {
      const std::string wrong = restarts.Step();
      ASSERT_EQ(wrong, "") << "step " << step;
    }
    stores += restarts.stores();
  }
  EXPECT_GT(stores, 10'000u);
}

constexpr ChunkAllocator::Owner kAnt{{ComputeId{1}, 7}, 11};
constexpr ChunkAllocator::Owner kBee{{ComputeId{0x102}, 0x30405}, 0x1122334455667788};
bool IsInForce(Lease) { return true; }

// A change of this is a change of the format.
TEST(HeapMap, HasItsLayout) {
  EXPECT_EQ(HeapMap::BytesFor(64), 524'288u + 8 + 256);
  EXPECT_EQ(HeapMap::BytesFor(65), 524'288u + 16 + 260);
  MapMemory memory;
  auto allocator =
      std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory.New()).value());
  EXPECT_EQ(memory.At<uint64_t>(kStartsAt), 1u);
  EXPECT_EQ(memory.At<uint64_t>(kStartsAt + 8), 1u) << "free memory does not cross chunks";
  ASSERT_TRUE(allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes));
  ASSERT_TRUE(allocator.Allocate(kChunk, kBee, ExtentKind::kBlocks));
  ASSERT_TRUE(
      allocator.Release({OffsetOf(3), 2 * kGrain, 9, Past::kUsed}, kBee.lease, 1, IsInForce));
  ASSERT_TRUE(allocator.Release({OffsetOf(70), kGrain, 5, Past::kUsed}, kBee.lease, 1, IsInForce));
  ASSERT_TRUE(allocator.Release({OffsetOf(8), kGrain, 255, Past::kUsed}, kAnt.lease, 1, IsInForce));
  EXPECT_EQ(memory.At<uint64_t>(0), 0u);
  EXPECT_EQ(memory.At<uint64_t>(8), 0u);
  EXPECT_EQ(memory.At<uint64_t>(16), kAnt.client_uuid);
  EXPECT_EQ(memory.At<uint32_t>(24), 7u);
  EXPECT_EQ(memory.At<uint16_t>(28), 1u);
  EXPECT_EQ(memory.At<uint64_t>(32), kBee.client_uuid);
  EXPECT_EQ(memory.At<uint32_t>(40), 0x30405u);
  EXPECT_EQ(memory.At<uint32_t>(44), 0x102u);
  EXPECT_EQ(memory.At<uint64_t>(kStartsAt), 0b11'0010'1001u);
  EXPECT_EQ(memory.At<uint64_t>(kStartsAt + 8), 0b1100'0001u);
  EXPECT_EQ(memory.UseOf(0), 1u);
  EXPECT_EQ(memory.UseOf(3), 1u | 1u << 16 | 10u << 23);
  EXPECT_EQ(memory.UseOf(8), 257u << 23);
  EXPECT_EQ(memory.UseOf(64), 2u | 1u << 15);
  EXPECT_EQ(memory.UseOf(70), 6u << 17);
}

TEST(HeapMap, AfterARestartMemoryIsOrphanedOrFree) {
  MapMemory memory;
  auto first = std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory.New()).value());
  ASSERT_TRUE(first.Allocate(2 * kChunk, kAnt, ExtentKind::kNodes));
  ASSERT_TRUE(first.Allocate(kChunk, kBee, ExtentKind::kBlocks));
  const uint64_t bee_at = kHeapOffset + 2 * kChunk;
  ASSERT_TRUE(first.Release({bee_at, 256, 3, Past::kUsed}, kAnt.lease, 1, IsInForce));
  ASSERT_TRUE(first.Release({kHeapOffset, 512, 255, Past::kUsed}, kAnt.lease, 1, IsInForce));

  auto second = std::move(memory.Open().value());
  EXPECT_EQ(second.waiting_bytes(), 0u);
  EXPECT_EQ(second.free_bytes(), kGrains * kGrain - 3 * kChunk + 256 + 512);
  EXPECT_EQ(second.orphaned_bytes(), 3 * kChunk - 256 - 512);
  EXPECT_EQ(second.BytesOf(kAnt.lease), 2 * kChunk - 512);
  const auto listed = second.NextExtent(0).value();
  EXPECT_EQ(listed.offset, kHeapOffset + 512);
  EXPECT_EQ(listed.owner.lease, kAnt.lease);
  EXPECT_EQ(listed.owner.client_uuid, kAnt.client_uuid);
  EXPECT_EQ(listed.kind, ExtentKind::kNodes);
  // What waited goes to others, under its next generation.
  const ChunkAllocator::Owner cow{{ComputeId{3}, 1}, 33};
  const auto again = second.Allocate(256, cow, ExtentKind::kBlocks).value();
  EXPECT_NE(again.offset, kHeapOffset + 512);
  ASSERT_TRUE(second.Release({listed.offset, listed.bytes, 0, Past::kOrphaned, 1, 7}, cow.lease, 1,
                             HasEnded));
  EXPECT_EQ(second.BytesOf(kAnt.lease), 0u);
  EXPECT_EQ(second.orphaned_bytes(), kChunk - 256);
  // Worn memory waits for an epoch of the new process.
  EXPECT_EQ(second.worn_bytes(), 512u);
  second.EndEpochsBefore(control::kFirstEpoch);
  EXPECT_EQ(second.worn_bytes(), 512u);
  second.EndEpochsBefore(control::kFirstEpoch + 1);
  EXPECT_EQ(second.worn_bytes(), 0u);
}

TEST(HeapMap, MayBeOpenedWithChunksOfAnotherSize) {
  MapMemory memory;
  auto first = std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory.New()).value());
  ASSERT_TRUE(first.Allocate(kChunk, kAnt, ExtentKind::kNodes));
  MapMemory other;
  for (const uint64_t chunk : {2 * kChunk, kChunk / 4, uint64_t{1} << 20, kChunk}) {
    ASSERT_TRUE(memory.Open(chunk));
    auto again = std::move(memory.Open(chunk).value());
    EXPECT_EQ(again.free_bytes(), kGrains * kGrain - kChunk);
    EXPECT_EQ(again.extents(), 1u);
    other.Load(memory.Save());
    auto copy = std::move(other.Open(chunk).value());
    EXPECT_EQ(WorkOn(copy), "");
  }
}

TEST(HeapMap, DamagedMapsAreRefusedWithTheOffset) {
  const auto refusal = [](const auto& damage) {
    MapMemory memory;
    auto allocator =
        std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory.New()).value());
    EXPECT_TRUE(allocator.Allocate(kChunk, kAnt, ExtentKind::kNodes));
    EXPECT_TRUE(allocator.Allocate(kChunk, kBee, ExtentKind::kBlocks));
    damage(memory);
    const auto opened = memory.Open();
    EXPECT_TRUE(!opened && opened.error().code == Code::kCorruption);
    return opened ? "" : opened.error().message;
  };
  const std::string at_start = fmt::format("at offset {}: ", kHeapOffset);
  const std::string at_bee = fmt::format("at offset {}: ", kHeapOffset + kChunk);
  const auto set = [](uint64_t grain, uint32_t use) {
    return [=](MapMemory& memory) { memory.UseOf(grain) = use; };
  };
  EXPECT_THAT(refusal([](MapMemory& memory) { memory.At<uint64_t>(kStartsAt) = 0; }),
              HasSubstr(at_start + "no run begins there"));
  EXPECT_THAT(refusal([](MapMemory& memory) {
                memory.At<uint64_t>(kStartsAt + kGrains / 64 * 8) |= uint64_t{1} << kGrains % 64;
              }),
              HasSubstr(fmt::format("at offset {}: a run begins behind the end", kRegion)));
  EXPECT_THAT(refusal(set(64, 3)), HasSubstr(at_bee + "its owner, holder 3, has no lease"));
  EXPECT_THAT(refusal(set(64, 32'767)), HasSubstr(at_bee));
  EXPECT_THAT(refusal(set(64, 1u << 15)), HasSubstr(at_bee + "the run is free, and yet used"));
  EXPECT_THAT(refusal(set(64, 1u << 16)), HasSubstr(at_bee + "the run is free, and yet used"));
  EXPECT_THAT(refusal(set(64, 258u << 23)), HasSubstr(at_bee + "nodes have no such generation"));
  EXPECT_THAT(refusal(set(0, 1 | 256u << 23)), HasSubstr(at_start + "it holds nodes"));
  const auto set_lease = [](uint64_t lease) {
    return [=](MapMemory& memory) { memory.At<uint64_t>(2 * 16 + 8) = lease; };
  };
  EXPECT_THAT(refusal(set_lease(0)), HasSubstr("holder 2, has no lease"));
  EXPECT_THAT(refusal(set_lease(uint64_t{1} << 32)), HasSubstr("holder 2, has no lease"));
  EXPECT_THAT(refusal(set_lease(1)), HasSubstr("holder 2, has no lease"));
  EXPECT_THAT(refusal(set_lease(uint64_t{1} << 32 | 1 << 24)), HasSubstr("has no lease"));
  EXPECT_THAT(refusal(set_lease(uint64_t{1} << 48 | 1)), HasSubstr("has no lease"));
  EXPECT_THAT(refusal(set_lease(uint64_t{1} << 32 | 7)),
              HasSubstr(at_bee + "its owner, holder 2, has the lease of another"));
  MapMemory memory;
  EXPECT_THAT(
      ChunkAllocator::Open(kHeapOffset, kRegion + kChunk, kChunk, memory.New()).error().message,
      HasSubstr(fmt::format("is of {} bytes", kGrains * kGrain)));
  EXPECT_FALSE(MapMemory().Open()) << "zeros are no map";
}

TEST(HeapMap, MapsWithFlippedBitsAreRefusedOrConsistent) {
  std::mt19937_64 random(TestSeed());
  MapMemory memory;
  auto allocator =
      std::move(ChunkAllocator::Open(kHeapOffset, kRegion, kChunk, memory.New()).value());
  for (int i = 0; i < 300; ++i) {
    const auto& owner = i % 2 == 0 ? kAnt : kBee;
    (void)allocator.Allocate(kGrain << random() % 7, owner,
                             i % 3 == 0 ? ExtentKind::kNodes : ExtentKind::kBlocks);
    const control::Range range{OffsetOf(random() % kGrains), kGrain * (1 + random() % 8),
                               static_cast<uint8_t>(random() % 64), Past::kUsed};
    (void)allocator.Release(range, owner.lease, 1, IsInForce);
  }
  const MapMemory::Copy good = memory.Save();
  MapMemory damaged;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    MapMemory::Copy copy = good;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      copy[random() % copy.size()] ^= std::byte{1} << random() % 8;
    }
    damaged.Load(copy);
    auto opened = damaged.Open();
    if (!opened) {
      ASSERT_EQ(opened.error().code, Code::kCorruption);
      ASSERT_THAT(opened.error().message, HasSubstr("offset"));
      ++refused;
      continue;
    }
    ASSERT_EQ(WorkOn(opened.value()), "");
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 2900);
}

}  // namespace
}  // namespace gossamer
