// The slabs of an endpoint's buffers, registered with its device until destroyed.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/fabric/buffer_pool.h"
#include "common/fabric/verbs/device.h"

namespace gossamer::verbs {

class Slabs final : public SlabRegistrar {
 public:
  explicit Slabs(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Result<uint32_t> RegisterSlab(std::byte* data, size_t bytes) override {
    BOOST_OUTCOME_TRY(region, device_->Register(data, bytes, IBV_ACCESS_LOCAL_WRITE));
    const uint32_t key = region->lkey;
    slabs_.push_back(std::move(region));
    return key;
  }
  void UnregisterSlab(uint32_t key) override {
    std::erase_if(slabs_, [key](const MemoryRegion& slab) { return slab->lkey == key; });
  }

 private:
  const std::shared_ptr<Device> device_;
  std::vector<MemoryRegion> slabs_;
};

}  // namespace gossamer::verbs
