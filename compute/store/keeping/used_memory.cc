#include "compute/store/keeping/used_memory.h"

#include <algorithm>
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

UsedMemory::Ranges UsedMemory::RangesOf(ServerId server) const {
  Ranges ranges;
  for (const auto& [offset, piece] : of(server)) {
    const uint64_t end = offset + piece.bytes;
    if (!ranges.empty() && offset <= ranges.back().second) {
      ranges.back().second = std::max(ranges.back().second, end);
    } else {
      ranges.emplace_back(offset, end);
    }
  }
  return ranges;
}

void UsedMemory::Count(ServerId server, std::span<const control::Extent> extents,
                       MemoryUse& use) const {
  const Ranges ranges = RangesOf(server);
  for (const control::Extent& extent : extents) {
    const uint64_t end = extent.offset + extent.bytes;
    uint64_t live = 0;
    auto range = std::ranges::upper_bound(ranges, extent.offset, {}, &Ranges::value_type::second);
    for (; range != ranges.end() && range->first < end; ++range) {
      live += std::min(range->second, end) - std::max(range->first, extent.offset);
    }
    use.live_bytes += live;
    uint64_t& unused = extent.is_waiting != 0    ? use.waiting_bytes
                       : extent.is_orphaned != 0 ? use.lost_bytes
                                                 : use.kept_bytes;
    unused += extent.bytes - live;
  }
}

}  // namespace gossamer
