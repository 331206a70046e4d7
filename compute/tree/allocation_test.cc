// Gets and updates allocate nothing in the steady state. A replaced global operator new counts.
//
// Only the session's thread is counted. (The memory server's thread, in the same process, is not
// part of any operation.) Values are short enough for std::string's inline buffer, because
// returning a longer value allocates in any case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "common/testing/count_allocations.h"
#include "common/testing/seed.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

constexpr size_t kKeys = 20'000;
constexpr size_t kOperations = 10'000;
constexpr size_t kInFlight = 32;
// More than while counting, so that no pool is too small by chance.
constexpr size_t kInWarmUp = 2 * kInFlight;

class AllocationTest : public testing::Test {
 protected:
  void SetUp() override {
    LocalOptions options;
    options.memory_bytes = uint64_t{128} << 20;
    options.parameters = {1024, 8, 8};
    Result<std::unique_ptr<Store>> store = Store::OpenLocal(options);
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = std::move(store.value());
    Result<std::unique_ptr<Session>> session = store_->NewSession();
    ASSERT_TRUE(session) << session.error().ToString();
    session_ = std::move(session.value());
    for (size_t i = 0; i < kKeys; ++i) {
      std::string key(8, '\0');
      for (char& byte : key) byte = static_cast<char>(random_());
      ASSERT_TRUE(session_->Put(key, "12345678"));
      keys_.push_back(std::move(key));
    }
    // The cache learns what has overflowed in each leaf.
    for (const std::string& key : keys_) {
      ASSERT_TRUE(session_->Get(key));
      ASSERT_TRUE(session_->Update(key, "12345678"));
    }
  }

  // Half of the operations go to few keys: they meet at locks, are combined and handed over.
  const std::string& AnyKey() {
    return keys_[random_() % 2 == 0 ? random_() % keys_.size() : random_() % 20];
  }

  Task<void> GetOne(const std::string& key) {
    const Result<std::string> value = co_await session_->AsyncGet(key);
    failures_ += value ? 0 : 1;
  }
  Task<void> PutOne(const std::string& key) {
    const Status status = co_await session_->AsyncPut(key, "abcdefgh");
    failures_ += status ? 0 : 1;
  }
  Task<void> UpdateOne(const std::string& key) {
    const Status status = co_await session_->AsyncUpdate(key, "abcdefgh");
    failures_ += status ? 0 : 1;
  }
  // Keeps `in_flight` operations running all the time.
  template <typename Operate>
  void RunTogether(size_t operations, size_t in_flight, Operate operate) {
    for (size_t started = 0, running = 0; started < operations; running = session_->Poll()) {
      for (; running < in_flight && started < operations; ++running, ++started) {
        session_->Spawn(operate());
      }
    }
    session_->WaitAll();
  }
  template <typename Operate>
  void RunOneByOne(Operate operate) {
    for (size_t i = 0; i < kOperations; ++i) operate();
  }
  // Expects that `work` neither allocates nor releases memory the second time.
  template <typename Work>
  void ExpectNothingAllocated(Work work) {
    failures_ = 0;
    const uint64_t allocated = allocations;
    const uint64_t released = releases;
    work();
    const uint64_t more_allocated = allocations - allocated;
    const uint64_t more_released = releases - released;
    EXPECT_EQ(more_allocated, 0u);
    EXPECT_EQ(more_released, 0u);
    EXPECT_EQ(failures_, 0u);
  }
  template <typename Operate>
  void ExpectNoneTogether(Operate operate) {
    // Brings all operations to the same place at once, so that every pool grows to its largest
    // size.
    RunTogether(kInWarmUp, kInWarmUp, [this] { return UpdateOne(keys_[0]); });
    for (size_t i = 0; i < 10; ++i) {
      RunTogether(kInWarmUp, kInWarmUp, [this] { return UpdateOne(keys_[random_() % kKeys]); });
    }
    // Groups of each size, of puts and of updates, with as many groups in flight as possible.
    for (size_t size = 2; size <= kInFlight; ++size) {
      for (size_t round = 0; round < 10; ++round, session_->Poll()) {
        for (size_t i = 0; i < size; ++i) session_->Spawn(UpdateOne(keys_[random_() % kKeys]));
        for (size_t i = 0; i < size; ++i) session_->Spawn(PutOne(keys_[random_() % kKeys]));
      }
    }
    session_->WaitAll();
    RunTogether(kOperations, kInWarmUp, operate);
    ExpectNothingAllocated([&] { RunTogether(kOperations, kInFlight, operate); });
  }
  template <typename Operate>
  void ExpectNoneOneByOne(Operate operate) {
    RunOneByOne(operate);
    ExpectNothingAllocated([&] { RunOneByOne(operate); });
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<std::string> keys_;
  uint64_t failures_ = 0;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

TEST_F(AllocationTest, BatchesOfPutsAllocateNothing) {
  std::vector<KeyValueView> pairs;
  std::vector<Status> results;
  const auto prepare = [&](size_t count) {
    pairs.resize(count);
    results.resize(count, outcome::success());
  };
  // Some keys five times, so that their leaves are rewritten.
  const auto put = [&](size_t repeated) {
    for (size_t done = 0; done < kOperations; done += pairs.size()) {
      for (size_t i = 0; i < pairs.size(); ++i) {
        pairs[i] = {i % 5 == 0 || i > repeated ? keys_[random_() % kKeys] : pairs[i - 1].key,
                    "abcdefgh"};
      }
      session_->MultiPut(pairs, results);
      for (const Status& result : results) failures_ += result ? 0 : 1;
    }
  };
  // More of each kind than while counting, so that no pool is too small by chance.
  prepare(256);
  put(0);
  put(256);
  prepare(64);
  put(20);
  ExpectNothingAllocated([&] { put(20); });
}

TEST_F(AllocationTest, BatchesForFewLeavesAllocateNothing) {
  std::sort(keys_.begin(), keys_.end());
  std::vector<KeyValueView> pairs(200);
  std::vector<Status> results(pairs.size(), outcome::success());
  const auto put = [&] {
    for (size_t first = 0; first + pairs.size() < keys_.size(); first += 1000) {
      for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {keys_[first + i], "abcdefgh"};
      session_->MultiPut(pairs, results);
      for (const Status& result : results) failures_ += result ? 0 : 1;
    }
  };
  put();
  put();
  ExpectNothingAllocated(put);
}

TEST_F(AllocationTest, TheCounterCounts) {
  const uint64_t before = allocations;
  // Called by name, because compilers may remove a `new` expression.
  void* const memory = operator new(100);
  EXPECT_EQ(allocations, before + 1);
  operator delete(memory);
}

TEST_F(AllocationTest, NoGetAllocates) {
  ExpectNoneOneByOne([this] { failures_ += session_->Get(AnyKey()) ? 0 : 1; });
}

TEST_F(AllocationTest, NoUpdateAllocates) {
  ExpectNoneOneByOne([this] { failures_ += session_->Update(AnyKey(), "abcdefgh") ? 0 : 1; });
}

TEST_F(AllocationTest, NoGetOfManyInFlightAllocates) {
  ExpectNoneTogether([this] { return GetOne(AnyKey()); });
}

TEST_F(AllocationTest, NoGetOfABatchAllocates) {
  std::vector<std::string_view> keys(100);
  Values values;
  const auto get_many = [&] {
    for (std::string_view& key : keys) key = AnyKey();
    session_->MultiGet(keys, values);
    for (size_t i = 0; i < keys.size(); ++i) failures_ += values[i] ? 0 : 1;
  };
  ExpectNoneOneByOne(get_many);
}

TEST_F(AllocationTest, NoEntryOfAScanAllocates) {
  const auto scan = [this](uint64_t limit, bool reverse) {
    ScanOptions options;
    options.limit = limit;
    options.reverse = reverse;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    uint64_t count = 0;
    while (cursor->Next()) count += cursor->value().size() == 8 ? 1 : 0;
    failures_ += count == limit ? 0 : 1;
  };
  const auto allocated_by = [&](uint64_t limit, bool reverse) {
    scan(limit, reverse);
    scan(limit, reverse);
    const uint64_t before = allocations;
    scan(limit, reverse);
    return allocations - before;
  };
  for (const bool reverse : {false, true}) {
    scan(kKeys, reverse);
    // A session allocates with its first buffer of each size. How many leaves a scan reads
    // together, and so its buffer, follows the mean of the leaves seen of late: between two equal
    // scans it may change. So all sizes are used first.
    for (uint64_t limit = 1; limit < kKeys; limit *= 2) scan(limit, reverse);
    // The cursor itself.
    for (const uint64_t limit : {uint64_t{1}, uint64_t{100}, uint64_t{kKeys}}) {
      EXPECT_EQ(allocated_by(limit, reverse), 1u) << "limit " << limit << ", reverse " << reverse;
    }
  }
  EXPECT_EQ(failures_, 0u);
}

TEST_F(AllocationTest, NoUpdateOfManyInFlightAllocates) {
  const LockCounts before = session_->counters().locks;
  ExpectNoneTogether([this] { return UpdateOne(AnyKey()); });
  // Some operations did wait for each other.
  EXPECT_GT(session_->counters().locks.combined, before.combined);
}

TEST_F(AllocationTest, NoPutOfManyInFlightAllocates) {
  ExpectNoneTogether([this] { return PutOne(AnyKey()); });
}

TEST_F(AllocationTest, NoneOfManyGetsAndUpdatesInFlightAllocates) {
  ExpectNoneTogether(
      [this] { return random_() % 2 == 0 ? GetOne(AnyKey()) : UpdateOne(AnyKey()); });
}

}  // namespace
}  // namespace gossamer
