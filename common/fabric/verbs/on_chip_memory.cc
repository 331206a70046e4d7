#include "common/fabric/verbs/on_chip_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <string_view>
#include <utility>
#include <vector>

namespace gossamer::verbs {
namespace {

Result<OnChipMemory> TryBytes(const Device& device, uint64_t bytes) {
  const auto refused = [&](std::string_view why) {
    return MakeError(
        Code::kUnsupported,
        fmt::format("{} bytes do not fit into the memory of {}: {}", bytes, device.name(), why));
  };
  if (device.device_memory_bytes() < bytes) {
    return refused(fmt::format("it has {} bytes", device.device_memory_bytes()));
  }
  OnChipMemory made{.memory = nullptr, .region = nullptr, .bytes = bytes, .why = {}};
  ibv_alloc_dm_attr wanted{};
  wanted.length = bytes;
  wanted.log_align_req = 3;
  made.memory.reset(ibv_alloc_dm(device.verbs(), &wanted));
  if (made.memory == nullptr) return refused(ErrnoText(errno));
  const std::vector<std::byte> zeros(std::min<uint64_t>(bytes, 4096));
  for (uint64_t offset = 0; offset < bytes; offset += zeros.size()) {
    const int error = ibv_memcpy_to_dm(made.memory.get(), offset, zeros.data(), zeros.size());
    if (error != 0) return refused(ErrnoText(error));
  }
  made.region.reset(ibv_reg_dm_mr(device.protection_domain(), made.memory.get(), 0, bytes,
                                  kRemoteRights | IBV_ACCESS_ZERO_BASED));
  if (made.region == nullptr) return refused(ErrnoText(errno));
  return made;
}

}  // namespace

Result<OnChipMemory> AllocateOnChip(const Device& device, uint64_t wanted) {
  assert(std::has_single_bit(wanted));
  if (device.device_memory_bytes() == 0) {
    return MakeError(Code::kUnsupported, device.name() + " has no memory for locks");
  }
  std::string why;
  for (uint64_t bytes = wanted; bytes >= std::min(wanted, kLeastOnChipBytes); bytes /= 2) {
    Result<OnChipMemory> made = TryBytes(device, bytes);
    if (!made) {
      if (why.empty()) why = made.error().message;
      continue;
    }
    if (bytes != wanted) {
      made.value().why =
          fmt::format("{}; two nodes share a lock in 1 of {} cases", why, bytes / sizeof(uint64_t));
    }
    return made;
  }
  return MakeError(Code::kUnsupported, why);
}

}  // namespace gossamer::verbs
