#include "memory/repeated_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "proto/group.h"
#include "proto/leaf_geometry.h"
#include "proto/node_recognizer.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

constexpr uint64_t kBitsPerWord = 64;
// What a thread looks at in one go.
constexpr uint64_t kStretch = uint64_t{1} << 20;

// Calls visit(ref, block) for each reference, in a leaf, to a block of this region. `block`: header
// and content, as long as `ref` says.
template <typename Visit>
class Referrers {
 public:
  Referrers(const RestingRegion& region, Visit visit)
      : region_(region),
        server_(static_cast<ServerId>(region.header.server_id)),
        geometry_(region.header.parameters),
        recognizer_(geometry_),
        visit_(std::move(visit)) {}

  void VisitAll(unsigned threads) {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
    Work();
  }

 private:
  void Work() {
    const uint64_t end = kHeapOffset + region_.map.grains() * HeapMap::kGrain;
    for (;;) {
      const uint64_t first = next_.fetch_add(kStretch);
      if (first >= end) return;
      LookAt(first, std::min(first + kStretch, end));
    }
  }

  // At the nodes that begin in [first, end).
  void LookAt(uint64_t first, uint64_t end) {
    const uint64_t node_bytes = geometry_.node_bytes();
    for (uint64_t at = first; at < end;) {
      const HeapMap::Run run = region_.map.RunAt((at - kHeapOffset) / HeapMap::kGrain);
      const uint64_t run_end = kHeapOffset + run.end * HeapMap::kGrain;
      const bool has_nodes =
          !run.is_free() && !run.use.is_waiting && run.use.kind == control::ExtentKind::kNodes;
      if (!has_nodes) {
        at = run_end;
        continue;
      }
      at = (at + node_bytes - 1) / node_bytes * node_bytes;
      for (; at < end && at + node_bytes <= run_end; at += node_bytes) LookAtNode(at);
      if (at < end) at = run_end;
    }
  }

  void LookAtNode(uint64_t offset) const {
    const std::span<const std::byte> node = region_.bytes.subspan(offset, geometry_.node_bytes());
    const std::optional<RemotePtr> leaf = recognizer_.Leaf(server_, offset, node);
    if (!leaf) return;
    const Key low = KnownLow(node.subspan(geometry_.trailer_offset()));
    for (uint32_t number = 0; number < geometry_.units(); ++number) {
      const auto unit = GroupView::Parse(
          node.subspan(geometry_.unit_offset(number), geometry_.unit_bytes()), *leaf, number, low);
      if (!unit) continue;
      unit->ForEach([this](const Entry& entry) {
        if (entry.has_block()) LookAtBlock(entry.block());
      });
    }
  }

  void LookAtBlock(const BlockRef& ref) const {
    const BlockPtr pointer = ref.ptr();
    if (pointer.server() != server_ || ref.length == 0 || ref.length > kMaxContentBytes) return;
    const uint64_t bytes = BlockReadBytes(ref.length);
    if (pointer.offset() < kHeapOffset || pointer.offset() > region_.bytes.size() ||
        bytes > region_.bytes.size() - pointer.offset()) {
      return;
    }
    visit_(ref, region_.bytes.subspan(pointer.offset(), bytes));
  }

  const RestingRegion& region_;
  const ServerId server_;
  const LeafGeometry geometry_;
  const NodeRecognizer recognizer_;
  const Visit visit_;
  std::atomic<uint64_t> next_ = kHeapOffset;
};

// Whether the entry has the checksum of the block's bytes, whatever the block itself says.
bool MatchesBytes(const BlockRef& ref, std::span<const std::byte> block) {
  const std::span<const std::byte> covered = block.subspan(offsetof(BlockHeader, length));
  uint32_t length = 0;
  std::memcpy(&length, covered.data(), sizeof length);
  return length == ref.length && Crc32c(BlockSeed(ref.pointer), covered) == ref.checksum;
}

}  // namespace

RepeatedSums::RepeatedSums(const RestingRegion& region, unsigned threads)
    : found_(region.bytes.size() / kBlockAlignment / kBitsPerWord + 1) {
  // An entry in a leaf that nothing leads to any more may be of an earlier use of the memory, with
  // the same value: then it would match, too, with another checksum.
  std::vector<std::atomic<uint64_t>> unsure(found_.size());
  Referrers(region, [&](const BlockRef& ref, std::span<const std::byte> block) {
    if (!MatchesBytes(ref, block)) return;
    BlockHeader header;
    std::memcpy(&header, block.data(), sizeof header);
    const uint64_t place = ref.ptr().offset() / kBlockAlignment;
    std::vector<std::atomic<uint64_t>>& bits = header.checksum == ref.checksum ? found_ : unsure;
    bits[place / kBitsPerWord].fetch_or(uint64_t{1} << place % kBitsPerWord,
                                        std::memory_order_relaxed);
  }).VisitAll(threads);
  for (size_t i = 0; i < found_.size(); ++i) found_[i] &= ~unsure[i].load();
}

void RepeatedSums::LeaveOut(uint64_t at, std::span<std::byte> copy) const {
  const uint64_t first = at / kBlockAlignment;
  const uint64_t end = (at + copy.size()) / kBlockAlignment;
  for (uint64_t place = first; place < end;) {
    const uint64_t word =
        found_[place / kBitsPerWord].load(std::memory_order_relaxed) >> place % kBitsPerWord;
    if (word == 0) {
      place = (place / kBitsPerWord + 1) * kBitsPerWord;
      continue;
    }
    place += static_cast<uint64_t>(std::countr_zero(word));
    if (place >= end) break;
    std::memset(copy.data() + (place * kBlockAlignment - at) + offsetof(BlockHeader, checksum), 0,
                sizeof BlockHeader::checksum);
    ++place;
  }
}

void RepeatedSums::PutBack(const RestingRegion& region, unsigned threads) {
  Referrers(region, [](const BlockRef& ref, std::span<std::byte> block) {
    // Another entry that refers to the block may have another thread do the same.
    const std::atomic_ref<uint32_t> sum(*reinterpret_cast<uint32_t*>(block.data()));
    if (sum.load(std::memory_order_relaxed) == 0 && MatchesBytes(ref, block)) {
      sum.store(ref.checksum, std::memory_order_relaxed);
    }
  }).VisitAll(threads);
}

}  // namespace gossamer
