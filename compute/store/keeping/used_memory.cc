#include "compute/store/keeping/used_memory.h"

#include <iterator>

namespace gossamer {

bool UsedMemory::Add(ServerId server, uint64_t offset, uint64_t bytes, control::ExtentKind kind) {
  Pieces& pieces = pieces_[server];
  const auto behind = pieces.lower_bound(offset);
  bool is_alone = behind == pieces.end() || behind->first >= offset + bytes;
  if (behind != pieces.begin()) {
    const auto before = std::prev(behind);
    is_alone = is_alone && before->first + before->second.bytes <= offset;
  }
  pieces[offset] = {bytes, kind};
  return is_alone;
}

const UsedMemory::Pieces& UsedMemory::of(ServerId server) const {
  static const Pieces nothing;
  const auto found = pieces_.find(server);
  return found == pieces_.end() ? nothing : found->second;
}

MemoryRanges UsedMemory::RangesOf(ServerId server) const {
  MemoryRanges ranges;
  for (const auto& [offset, piece] : of(server)) {
    ranges.add(ranges.end(), MemoryRange(offset, offset + piece.bytes));
  }
  return ranges;
}

void UsedMemory::Count(ServerId server, std::span<const control::Extent> extents,
                       MemoryUse& use) const {
  const MemoryRanges ranges = RangesOf(server);
  for (const control::Extent& extent : extents) {
    const MemoryRange whole(extent.offset, extent.offset + extent.bytes);
    uint64_t live = 0;
    for (auto [range, end] = ranges.equal_range(whole); range != end; ++range) {
      live += boost::icl::length(*range & whole);
    }
    use.live_bytes += live;
    uint64_t& unused = extent.is_waiting != 0    ? use.waiting_bytes
                       : extent.is_orphaned != 0 ? use.lost_bytes
                                                 : use.kept_bytes;
    unused += extent.bytes - live;
  }
}

}  // namespace gossamer
