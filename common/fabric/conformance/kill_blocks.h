// The blocks that a client killed in mid-WRITE must leave whole: their places and lengths.
#pragma once

#include <array>
#include <cstdint>

namespace gossamer::test {

inline constexpr uint32_t kKillBlocks = 16;
inline constexpr uint64_t kKillBlockStride = 8192;
inline constexpr uint64_t kKillBlockBase = uint64_t{4} << 20;

// At most one path MTU each (1024 for RoCE over Ethernet frames), mostly long, so that most kills
// strike inside a block.
constexpr uint32_t KillBlockBytes(uint32_t block, uint32_t path_mtu = 4096) {
  constexpr std::array<uint32_t, kKillBlocks> kBytes = {
      4096, 4096, 4095, 1, 4096, 4093, 2048, 4096, 17, 4096, 3001, 164, 4096, 1024, 4096, 8};
  return kBytes[block] < path_mtu ? kBytes[block] : path_mtu;
}

// Odd blocks start at odd offsets.
constexpr uint64_t KillBlockOffset(uint32_t block) {
  return kKillBlockBase + block * kKillBlockStride + block % 2 * 13;
}

}  // namespace gossamer::test
