// A compute server stands still until its lease has ended. What it had, a sweep gives to others.
// Then it goes on.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "compute/store/testing/simulated_clients.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

class PastLeaseTest : public SimulatedClients {
 protected:
  void Start(uint64_t memory_bytes, uint64_t chunk_bytes) {
    StartMemory(1, memory_bytes, chunk_bytes);
    StartWorker();
  }
};

TEST_F(PastLeaseTest, NoBlockIsWrittenToMemoryOfIt) {
  ASSERT_NO_FATAL_FAILURE(Start(kAmple, uint64_t{64} << 10));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(work_->Put(NumberKey(i), "12345678"));
  SimulatedClient client = Open(kStalled);
  ASSERT_TRUE(client.New().Get(NumberKey(3)));  // knows the root
  OpenSession& stalled = client.New();
  std::optional<Status> put;
  const std::string of_stalled(100, 'c');
  const auto run = [&]() -> Task<void> {
    put = co_await stalled.AsyncPut(NumberKey(19), of_stalled);
  };
  stalled.Spawn(run());
  // Until its request for memory was answered.
  for (int i = 0; i < 10'000 && BytesOf(kStalled) == 0; ++i) stalled.Poll();
  ASSERT_NE(BytesOf(kStalled), 0u);
  ASSERT_NO_FATAL_FAILURE(OutliveAndSweep());
  ASSERT_EQ(BytesOf(kStalled), 0u);
  const std::string of_worker(100, 'e');
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(work_->Put(NumberKey(i), of_worker));
  ASSERT_NO_FATAL_FAILURE(RunOn(stalled, [&] { return put.has_value(); }));
  EXPECT_TRUE(*put) << put->error().ToString();
  for (uint64_t i = 0; i < 10; ++i) {
    const Result<std::string> value = work_->Get(NumberKey(i));
    ASSERT_TRUE(value) << value.error().ToString();
    EXPECT_EQ(value.value(), of_worker);
  }
  EXPECT_EQ(work_->Get(NumberKey(19)).value(), of_stalled);
  ExpectCleanCheck();
}

TEST_F(PastLeaseTest, NoNodeIsWrittenToMemoryOfIt) {
  ASSERT_NO_FATAL_FAILURE(Start(kAmple, uint64_t{64} << 10));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(work_->Put(NumberKey(i), "12345678"));
  SimulatedClient client = Open(kStalled);
  ASSERT_TRUE(client.New().Get(NumberKey(3)));
  OpenSession& stalled = client.New();
  std::vector<std::string> keys;
  std::vector<KeyValueView> pairs;
  for (uint64_t i = 0; i < 400; ++i) keys.push_back(NumberKey(10'000 + i));
  for (const std::string& key : keys) pairs.push_back({key, "CCCCCCCC"});
  std::vector<Status> results(pairs.size(), Ok());
  bool is_done = false;
  const auto run = [&]() -> Task<void> {
    co_await stalled.AsyncMultiPut(pairs, results);
    is_done = true;
  };
  stalled.Spawn(run());
  for (int i = 0; i < 10'000 && BytesOf(kStalled) == 0; ++i) stalled.Poll();
  ASSERT_NE(BytesOf(kStalled), 0u);
  ASSERT_NO_FATAL_FAILURE(OutliveAndSweep());
  for (uint64_t i = 100; i < 1000; ++i) ASSERT_TRUE(work_->Put(NumberKey(i), "EEEEEEEE"));
  ASSERT_NO_FATAL_FAILURE(RunOn(stalled, [&] { return is_done; }));
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i]) << results[i].error().ToString();
    ASSERT_EQ(work_->Get(keys[i]).value(), "CCCCCCCC");
  }
  for (uint64_t i = 100; i < 1000; ++i) ASSERT_EQ(work_->Get(NumberKey(i)).value(), "EEEEEEEE");
  ExpectCleanCheck();
}

// Another compute server merges leaves away, and dies before it gives them back.
class PastPointerTest : public PastLeaseTest {
 protected:
  static constexpr uint64_t kKeys = 4000;
  static constexpr uint64_t kFrom = 1000;
  static constexpr uint64_t kTo = 1200;
  static bool IsKept(uint64_t key) { return key % 10 == 0; }

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Start(kFewChunks, uint64_t{32} << 10));
    client_ = Open(kStalled);
    OpenSession& load = client_.New();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(load.Put(NumberKey(i), "12345678"));
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(load.Get(NumberKey(i)));
    client_.sessions.clear();
  }
  enum class Keeps : uint8_t { kSome, kNone };
  void MergeAndDie(Keeps keeps) {
    SimulatedClient dying = Open(kDying);
    OpenSession& deletes = dying.New();
    OpenSession& merges = dying.New();
    dying.store->MergeOver(merges);
    for (uint64_t i = kFrom; i < kTo; ++i) {
      if (keeps == Keeps::kNone || !IsKept(i)) {
        ASSERT_TRUE(deletes.Delete(NumberKey(i)));
      }
    }
    merges.WaitAll();
    ASSERT_NE(merges.counters().of(OperationClass::kMerge).operations, 0u);
    network_.KillClient(kDying);
  }

  SimulatedClient client_;
};

TEST_F(PastPointerTest, NoWriteGoesOnWithIt) {
  constexpr uint64_t kKey = 1130;
  OpenSession& stalled = client_.New();
  std::optional<Status> put;
  const auto run = [&]() -> Task<void> {
    put = co_await stalled.AsyncPut(NumberKey(kKey), "ofClient");
  };
  stalled.Spawn(run());
  ASSERT_NO_FATAL_FAILURE(MergeAndDie(Keeps::kNone));
  ASSERT_NO_FATAL_FAILURE(OutliveAndSweep());
  FillMemory(100'000);
  ASSERT_NO_FATAL_FAILURE(RunOn(stalled, [&] { return put.has_value(); }));
  if (*put) {
    const Result<std::string> value = work_->Get(NumberKey(kKey));
    ASSERT_TRUE(value) << value.error().ToString();
    EXPECT_EQ(value.value(), "ofClient");
  } else {
    EXPECT_EQ(put->error().code, Code::kExhausted) << put->error().ToString();
  }
  ExpectCleanCheck();
}

TEST_F(PastPointerTest, NoNewSessionReadsByIt) {
  ASSERT_NO_FATAL_FAILURE(MergeAndDie(Keeps::kSome));
  ASSERT_NO_FATAL_FAILURE(OutliveAndSweep());
  FillMemory(100'000);
  OpenSession& fresh = client_.New();
  for (uint64_t i = kFrom; i < kTo; ++i) {
    if (!IsKept(i)) continue;
    const Result<std::string> value = fresh.Get(NumberKey(i));
    EXPECT_TRUE(value) << i << ": " << value.error().ToString();
  }
  EXPECT_TRUE(IsInForce(kStalled));
  ExpectCleanCheck();
}

}  // namespace
}  // namespace gossamer
