#include "common/fabric/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace gossamer {
namespace {

// Counts registrations; refuses after `limit` slabs.
class CountingRegistrar final : public SlabRegistrar {
 public:
  explicit CountingRegistrar(size_t limit = 1000) : limit_(limit) {}

  Result<uint32_t> RegisterSlab(std::byte* data, size_t bytes) override {
    if (slabs.size() == limit_) return MakeError(Code::kNoResources, "limit");
    const auto key = static_cast<uint32_t>(++registrations);
    slabs[key] = {data, bytes};
    return key;
  }
  void UnregisterSlab(uint32_t key) override { EXPECT_EQ(slabs.erase(key), 1U); }

  bool Covers(LocalAddress address, size_t bytes) const {
    const auto found = slabs.find(address.key);
    return found != slabs.end() && address.data >= found->second.first &&
           address.data + bytes <= found->second.first + found->second.second;
  }

  std::map<uint32_t, std::pair<std::byte*, size_t>> slabs;
  size_t registrations = 0;

 private:
  size_t limit_;
};

TEST(BufferPool, LeasesAreAlignedBigEnoughAndRegistered) {
  CountingRegistrar registrar;
  {
    BufferPool pool(registrar);
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{65}, size_t{1000},
                               size_t{4096}, size_t{1} << 20, BufferPool::kMaxBytes}) {
      const BufferLease lease = pool.Allocate(bytes).value();
      EXPECT_TRUE(lease);
      EXPECT_GE(lease.capacity(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.data()) % BufferPool::kMinBytes, 0U);
      EXPECT_TRUE(registrar.Covers(lease.address(), lease.capacity())) << bytes;
      std::memset(lease.data(), 1, lease.capacity());
    }
  }
  EXPECT_TRUE(registrar.slabs.empty()) << "slabs stay registered after the pool";
}

TEST(BufferPool, LeasesNeverOverlap) {
  CountingRegistrar registrar;
  BufferPool pool(registrar);
  std::vector<BufferLease> leases;
  std::map<std::byte*, size_t> taken;
  for (size_t i = 0; i < 5000; ++i) {
    leases.push_back(pool.Allocate(1 + i * 37 % 9000).value());
    taken[leases.back().data()] = leases.back().capacity();
  }
  ASSERT_EQ(taken.size(), leases.size());
  const std::byte* end = nullptr;
  for (const auto& [data, bytes] : taken) {
    EXPECT_GE(data, end);
    end = data + bytes;
  }
}

TEST(BufferPool, FreedLeasesAreUsedAgainWithoutRegistering) {
  CountingRegistrar registrar;
  BufferPool pool(registrar);
  std::set<std::byte*> first;
  {
    std::vector<BufferLease> leases;
    for (int i = 0; i < 100; ++i) {
      leases.push_back(pool.Allocate(4096).value());
      first.insert(leases.back().data());
    }
  }
  const size_t registrations = registrar.registrations;
  for (int round = 0; round < 1000; ++round) {
    const BufferLease lease = pool.Allocate(4096).value();
    EXPECT_TRUE(first.contains(lease.data()));
  }
  EXPECT_EQ(registrar.registrations, registrations);
}

TEST(BufferPool, TheRestOfASlabIsNotLost) {
  CountingRegistrar registrar(2);
  BufferPool pool(registrar);
  // Leaves half of the first slab unused when the large lease takes the second.
  std::vector<BufferLease> leases;
  leases.push_back(pool.Allocate(size_t{1} << 20).value());
  leases.push_back(pool.Allocate(BufferPool::kSlabBytes).value());
  leases.push_back(pool.Allocate(size_t{1} << 20).value());
  EXPECT_EQ(registrar.registrations, 2U);
  const Result<BufferLease> none = pool.Allocate(64);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNoResources);
}

TEST(BufferPool, TooLargeIsInvalid) {
  CountingRegistrar registrar;
  BufferPool pool(registrar);
  const Result<BufferLease> lease = pool.Allocate(BufferPool::kMaxBytes + 1);
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().code, Code::kInvalidArgument);
  EXPECT_EQ(registrar.registrations, 0U);
}

TEST(BufferPool, MovingALeaseMovesItsOwnership) {
  CountingRegistrar registrar;
  BufferPool pool(registrar);
  BufferLease first = pool.Allocate(64).value();
  std::byte* const data = first.data();
  BufferLease second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): under test
  EXPECT_EQ(second.data(), data);
  second = BufferLease();
  EXPECT_EQ(pool.Allocate(64).value().data(), data) << "the buffer was not given back";
}

}  // namespace
}  // namespace gossamer
