// Evictions of a store: of a fake one, which is exact, and of a real one in this process.
#include "compute/gateway/eviction/evicting_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/testing/fake_store.h"

namespace gossamer::gateway {
namespace {

std::string KeyOf(uint64_t number) { return "key:" + std::to_string(number); }

class FakeEvictionTest : public testing::Test {
 protected:
  static constexpr uint64_t kRoom = 1000;  // keys

  void Open(EvictionPolicy policy) {
    store_.state().key_memory = kRoom * FakeStore::kKeyBytes;
    figures_ = std::make_unique<EvictionFigures>(EvictionOptions{policy});
    evicting_ = std::move(EvictingStore::Open(store_, *figures_).value());
    session_ = std::move(evicting_->NewSession().value());
  }

  FakeStore store_;
  std::unique_ptr<EvictionFigures> figures_;
  std::unique_ptr<EvictingStore> evicting_;
  std::unique_ptr<Session> session_;
};

TEST_F(FakeEvictionTest, NoWriteIsRefusedAndHotKeysStay) {
  Open(EvictionPolicy::kLru);
  constexpr uint64_t kHot = 100;
  uint64_t misses = 0;
  std::vector<std::string> hot;
  for (uint64_t key = 0; key < kHot; ++key) hot.push_back("hot:" + std::to_string(key));
  for (const std::string& key : hot) ASSERT_TRUE(session_->Put(key, "v"));
  for (uint64_t round = 0; round < 100; ++round) {
    std::vector<KeyValue> pairs;
    for (uint64_t i = 0; i < 100; ++i) pairs.push_back({KeyOf(100 * round + i), "v"});
    for (const Status& put : session_->MultiPut(pairs)) ASSERT_TRUE(put);
    ASSERT_TRUE(session_->Put(KeyOf(1'000'000 + round), "v"));
    const std::vector<std::string_view> views(hot.begin(), hot.end());
    for (size_t i = 0; const Result<std::string>& found : session_->MultiGet(views)) {
      // As a client of a cache does.
      if (!found) {
        ASSERT_TRUE(session_->Put(hot[i], "v"));
      }
      misses += found ? 0 : 1;
      ++i;
    }
  }
  EXPECT_LT(misses, 100u) << "of 10,000";
  EXPECT_GE(figures_->evicted_keys.load(), 100 * 100 - kRoom);
  EXPECT_EQ(figures_->failed_writes.load(), 0u);
}

TEST_F(FakeEvictionTest, KeysWithoutATimeStay) {
  Open(EvictionPolicy::kTtl);
  for (uint64_t key = 0; key < kRoom / 2; ++key) ASSERT_TRUE(session_->Put(KeyOf(key), "v"));
  const Expiry hour = Expiry::After(std::chrono::hours(1));
  for (uint64_t key = 0; key < 3 * kRoom; ++key) {
    ASSERT_TRUE(session_->Put("session:" + std::to_string(key), "v", hour)) << key;
  }
  for (uint64_t key = 0; key < kRoom / 2; ++key) EXPECT_TRUE(session_->Get(KeyOf(key))) << key;
}

TEST_F(FakeEvictionTest, WithoutATimeAnywhereAFullStoreRefusesAsBefore) {
  Open(EvictionPolicy::kTtl);
  for (uint64_t key = 0; key < kRoom; ++key) ASSERT_TRUE(session_->Put(KeyOf(key), "v")) << key;
  const Status refused = session_->Put("one more", "v");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(figures_->failed_writes.load(), 1u);
  for (uint64_t key = 0; key < kRoom; ++key) EXPECT_TRUE(session_->Get(KeyOf(key))) << key;
}

TEST_F(FakeEvictionTest, StopsWhileTheStoreFails) {
  Open(EvictionPolicy::kLru);
  store_.state().fail_with = MakeError(Code::kNodeUnreachable, "as the test asked");
  EXPECT_EQ(session_->Put("k", "v").error().code, Code::kNodeUnreachable);
}

// A real store, whose memory is filled several times over.
class RealEvictionTest : public testing::Test {
 protected:
  void Open(EvictionPolicy policy) {
    LocalOptions local;
    local.memory_bytes = uint64_t{16} << 20;
    store_ = std::move(Store::OpenLocal(local).value());
    figures_ = std::make_unique<EvictionFigures>(EvictionOptions{policy});
    evicting_ = std::move(EvictingStore::Open(*store_, *figures_).value());
    session_ = std::move(evicting_->NewSession().value());
  }
  // Closes what evicts, and has the tree checked.
  void CloseAndCheck() {
    session_.reset();
    evicting_.reset();
    const Result<CheckReport> report = store_->Check({});
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_TRUE(report.value().problems.empty()) << report.value().problems.front();
  }

  std::unique_ptr<Store> store_;
  std::unique_ptr<EvictionFigures> figures_;
  std::unique_ptr<EvictingStore> evicting_;
  std::unique_ptr<Session> session_;
};

TEST_F(RealEvictionTest, ManyTimesItsMemoryIsPutWithoutARefusal) {
  Open(EvictionPolicy::kLru);
  const std::string bytes(10'000, 'v');
  for (uint64_t batch = 0; batch < 150; ++batch) {
    std::vector<KeyValueView> pairs;
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < 64; ++i) keys.push_back(KeyOf(7919 * (64 * batch + i) % 1'000'003));
    for (uint64_t i = 0; i < 64; ++i) {
      // Long keys are in blocks.
      if (i % 16 == 0) keys[i] += std::string(150, 'k');
      pairs.push_back(
          {keys[i], std::string_view(bytes).substr(0, 100 + (batch * 64 + i) * 37 % 5000), {}});
    }
    std::vector<Status> results(pairs.size(), Ok());
    session_->MultiPut(pairs, results);
    for (const Status& put : results) ASSERT_TRUE(put) << put.error().ToString();
  }
  EXPECT_GT(figures_->evicted_keys.load(), 3'000u);
  EXPECT_LE(figures_->limit_bytes.load(), uint64_t{16} << 20);
  ASSERT_NO_FATAL_FAILURE(CloseAndCheck());
}

TEST_F(RealEvictionTest, ValuesInLeavesGoToo) {
  Open(EvictionPolicy::kLru);
  for (uint64_t batch = 0; batch < 6000; ++batch) {
    std::vector<KeyValue> pairs;
    for (uint64_t i = 0; i < 256; ++i) pairs.push_back({KeyOf((256 * batch + i) * 7919), "short"});
    for (const Status& put : session_->MultiPut(pairs)) {
      ASSERT_TRUE(put) << batch << ": " << put.error().ToString();
    }
  }
  EXPECT_GT(figures_->evicted_keys.load(), 10'000u);
  ASSERT_NO_FATAL_FAILURE(CloseAndCheck());
}

}  // namespace
}  // namespace gossamer::gateway
