#include "common/fabric/buffer_pool.h"

#include <fmt/core.h>

#include <bit>
#include <cstdlib>
#include <string>

namespace gossamer {

BufferPool::~BufferPool() {
  for (const Slab& slab : slabs_) {
    registrar_.UnregisterSlab(slab.key);
    std::free(slab.data);
  }
}

Result<BufferLease> BufferPool::Allocate(size_t bytes) {
  if (bytes > kMaxBytes) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("a buffer of {} bytes: at most {}", bytes, kMaxBytes));
  }
  const auto size_class =
      static_cast<uint8_t>(bytes <= kMinBytes ? kMinClass : std::bit_width(bytes - 1));
  std::vector<LocalAddress>& free = free_[size_class];
  if (!free.empty()) {
    const LocalAddress address = free.back();
    free.pop_back();
    return BufferLease(this, address, size_class);
  }
  const size_t size = size_t{1} << size_class;
  if (unused_bytes_ < size) {
    BOOST_OUTCOME_TRYV(AddSlab());
  }
  const LocalAddress address = unused_;
  unused_ = unused_ + size;
  unused_bytes_ -= size;
  // Reserve now, so that Free does not allocate.
  free.reserve(free.capacity() == 0 ? kSlabBytes / size : free.capacity());
  return BufferLease(this, address, size_class);
}

Status BufferPool::AddSlab() {
  // Hand the rest of the old slab to the smaller sizes; alignment makes it a sum of powers of two.
  while (unused_bytes_ >= kMinBytes) {
    const auto size_class = static_cast<uint8_t>(std::bit_width(unused_bytes_) - 1);
    const size_t size = size_t{1} << size_class;
    unused_bytes_ -= size;
    Free(unused_ + unused_bytes_, size_class);
  }
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kSlabBytes, kSlabBytes));
  if (data == nullptr)
    return MakeError(Code::kNoResources, "no local memory for another buffer slab");
  Result<uint32_t> key = registrar_.RegisterSlab(data, kSlabBytes);
  if (!key) {
    std::free(data);
    return key.error();
  }
  slabs_.push_back({data, key.value()});
  unused_ = {data, key.value()};
  unused_bytes_ = kSlabBytes;
  return Ok();
}

}  // namespace gossamer
