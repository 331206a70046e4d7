// BufferPool: registered local memory that verbs read from and write into.
//
// A NIC reaches only registered memory, and registration costs microseconds to milliseconds. So the
// pool registers whole slabs and hands out move-only leases of power-of-two sizes. A freed lease
// goes to the free list of its size: the steady state neither allocates nor registers. Contents are
// undefined.
//
// Thread-safety: none; a pool belongs to one endpoint and outlives its leases.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/status.h"

namespace gossamer {

// A place in registered memory: its address and the key of its registration.
struct LocalAddress {
  std::byte* data = nullptr;
  uint32_t key = 0;

  LocalAddress operator+(size_t bytes) const { return {data + bytes, key}; }
};

// Registers slabs with a fabric. The pool unregisters them when it is destroyed. This one is for
// fabrics whose local memory needs no registration.
class SlabRegistrar {
 public:
  virtual ~SlabRegistrar() = default;
  // Returns: the local key of the slab. Errors: NoResources when the device or the memlock limit
  // refuses.
  virtual Result<uint32_t> RegisterSlab(std::byte* /*data*/, size_t /*bytes*/) { return 0; }
  virtual void UnregisterSlab(uint32_t /*key*/) {}
};

class BufferPool;

// Owns a piece of registered memory until destroyed.
class BufferLease {
 public:
  BufferLease() = default;
  BufferLease(BufferLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        address_(other.address_),
        size_class_(other.size_class_) {}
  BufferLease& operator=(BufferLease&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(address_, other.address_);
    std::swap(size_class_, other.size_class_);
    return *this;
  }
  ~BufferLease();

  std::byte* data() const { return address_.data; }
  LocalAddress address(size_t offset = 0) const { return address_ + offset; }
  size_t capacity() const { return size_t{1} << size_class_; }
  explicit operator bool() const { return pool_ != nullptr; }

 private:
  friend class BufferPool;
  BufferLease(BufferPool* pool, LocalAddress address, uint8_t size_class)
      : pool_(pool), address_(address), size_class_(size_class) {}

  BufferPool* pool_ = nullptr;
  LocalAddress address_;
  uint8_t size_class_ = 0;
};

class BufferPool {
 public:
  static constexpr size_t kMinBytes = 64;               // also the alignment
  static constexpr size_t kMaxBytes = size_t{2} << 20;  // a value block of 1 MiB with its header
  static constexpr size_t kSlabBytes = size_t{2} << 20;

  explicit BufferPool(SlabRegistrar& registrar) : registrar_(registrar) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // A lease of at least `bytes` (at most kMaxBytes). Errors: NoResources when no more memory can be
  // registered.
  Result<BufferLease> Allocate(size_t bytes);

 private:
  friend class BufferLease;
  static constexpr uint8_t kMinClass = 6;
  static constexpr uint8_t kMaxClass = 21;

  struct Slab {
    std::byte* data;
    uint32_t key;
  };

  Status AddSlab();
  void Free(LocalAddress address, uint8_t size_class) { free_[size_class].push_back(address); }

  SlabRegistrar& registrar_;
  std::vector<Slab> slabs_;
  LocalAddress unused_;  // the rest of the newest slab
  size_t unused_bytes_ = 0;
  std::array<std::vector<LocalAddress>, kMaxClass + 1> free_;
};

inline BufferLease::~BufferLease() {
  if (pool_ != nullptr) pool_->Free(address_, size_class_);
}

}  // namespace gossamer
