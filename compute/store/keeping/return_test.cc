// A memory server that comes back with its memory: open stores go on with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "compute/store/testing/bootstrapped_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

using ::testing::IsEmpty;

constexpr uint64_t kReturnKeys = 2000;

class ReturnTest : public BootstrappedStore {
 protected:
  ReturnTest() {
    for (size_t i = 0; i < 2; ++i) Start(i);
  }

  std::string RegionOf(size_t server) const {
    return directory_.path() + "/region-" + std::to_string(server);
  }
  void Start(size_t server) { memory_[server] = StartMemory({}, RegionOf(server)); }
  void Return(size_t server) {
    memory_[server].reset();
    Start(server);
  }
  // Of every size: in nodes, in blocks, in large blocks.
  static std::string ValueOf(uint64_t i, uint64_t version) {
    return std::string(i % 3 == 0 ? 8 : i % 3 * 150, static_cast<char>('a' + version % 26));
  }
  static std::string KeyOf(uint64_t i) {
    return i % 4 == 0 ? NumberKey(i) : "a long key of the return test, number " + std::to_string(i);
  }
  static void Fill(Session& session, uint64_t version) {
    for (uint64_t i = 0; i < kReturnKeys; ++i) {
      const Status put = session.Put(KeyOf(i), ValueOf(i, version));
      ASSERT_TRUE(put) << put.error().ToString();
    }
  }
  static void ExpectAll(Session& session, uint64_t version) {
    for (uint64_t i = 0; i < kReturnKeys; ++i) {
      const Result<std::string> value = session.Get(KeyOf(i));
      ASSERT_TRUE(value) << value.error().ToString();
      ASSERT_EQ(value.value(), ValueOf(i, version)) << i;
    }
  }
  static void ExpectSound(Store& store, uint64_t keys) {
    const CheckReport report = store.Check({}).value();
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_EQ(report.keys, keys);
    const Result<SweepReport> swept = store.Sweep({});
    ASSERT_TRUE(swept) << swept.error().ToString();
    const StoreUse memory = store.MeasureMemory({}).value();
    for (const auto& [server, use] : memory.servers) {
      EXPECT_EQ(use.lost_bytes, 0u) << "on server " << server;
    }
  }

  std::array<std::unique_ptr<EmbeddedMemory>, 2> memory_;
};

TEST_F(ReturnTest, AnOpenStoreGoesOn) {
  const std::unique_ptr<Store> store = Open();
  const auto session = store->NewSession().value();
  const auto other = store->NewSession().value();
  for (uint64_t round = 0; round < 6; ++round) {
    ASSERT_NO_FATAL_FAILURE(Fill(*session, round));
    Return(round % 2);
    if (round == 3) Return(1);
    ASSERT_NO_FATAL_FAILURE(ExpectAll(*(round % 3 == 0 ? session : other), round));
  }
  const RangeDeletion deleted = session->DeleteRange({KeyOf(1), {}}, {});
  ASSERT_TRUE(deleted.status) << deleted.status.error().ToString();
  Return(0);
  Return(1);
  ASSERT_NO_FATAL_FAILURE(Fill(*other, 7));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(*session, 7));
  ExpectSound(*store, kReturnKeys);
}

TEST_F(ReturnTest, AStoreIsThereAfterAllOfItsProcessesHaveEnded) {
  {
    const std::unique_ptr<Store> store = Open();
    ASSERT_NO_FATAL_FAILURE(Fill(*store->NewSession().value(), 1));
  }
  for (auto& server : memory_) server.reset();
  for (size_t i = 2; i-- > 0;) Start(i);  // in any order
  const std::unique_ptr<Store> store = Open();
  ASSERT_NO_FATAL_FAILURE(ExpectAll(*store->NewSession().value(), 1));
  ExpectSound(*store, kReturnKeys);
}

TEST_F(ReturnTest, OperationsWaitUntilTheServerIsBack) {
  const std::unique_ptr<Store> store = Open();
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> writes = 0;
  std::vector<std::thread> clients;
  for (uint64_t client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      const auto session = store->NewSession().value();
      Random random(client, 1);
      std::map<std::string, std::string> model;
      for (uint64_t i = 0; !is_over || i < kReturnKeys; ++i) {
        const std::string key = std::to_string(client) + KeyOf(random.Below(300));
        const std::string value = ValueOf(i, i);
        if (random.Below(2) == 0) {
          const Status put = session->Put(key, value);
          ASSERT_TRUE(put) << put.error().ToString();
          model[key] = value;
          ++writes;
        } else {
          const Result<std::string> got = session->Get(key);
          const auto known = model.find(key);
          if (known == model.end()) {
            ASSERT_FALSE(got);
            ASSERT_EQ(got.error().code, Code::kNotFound) << got.error().ToString();
          } else {
            ASSERT_TRUE(got) << got.error().ToString();
            ASSERT_EQ(got.value(), known->second);
          }
        }
      }
    });
  }
  for (size_t i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    memory_[i % 2].reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * (i % 3)));
    Start(i % 2);
  }
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(writes, 100u);
  EXPECT_THAT(store->Check({}).value().problems, IsEmpty());
}

// Regression: where server 0 ended after it had been asked whether it lives, the opening failed.
TEST_F(ReturnTest, AStoreIsOpenedWhateverServerHasJustEnded) {
  ASSERT_NO_FATAL_FAILURE(Fill(*Open()->NewSession().value(), 1));
  std::atomic<bool> is_over = false;
  std::thread client([&] {
    OpenOptions options;
    options.bootstrap = bootstrap_->url();
    while (!is_over) {
      const auto store = Store::Open(options);
      ASSERT_TRUE(store) << store.error().ToString();
      EXPECT_EQ(store.value()->NewSession().value()->Get(KeyOf(1)).value(), ValueOf(1, 1));
    }
  });
  for (size_t i = 0; i < 60; ++i) Return(i % 4 == 3 ? 1 : 0);
  is_over = true;
  client.join();
}

TEST_F(ReturnTest, OneThatJoinedLaterIsWaitedForAsWell) {
  const std::unique_ptr<Store> store = Open();
  std::unique_ptr<EmbeddedMemory> third = StartMemory({}, RegionOf(2));
  {
    const std::unique_ptr<Store> late = Open();
    ASSERT_NO_FATAL_FAILURE(Fill(*late->NewSession().value(), 1));
    const StoreStat stat = late->Stat().value();
    ASSERT_EQ(stat.servers.size(), 3u);
    ASSERT_GT(stat.servers[2].node_extent_bytes, 0u);
  }
  third.reset();
  std::thread returns([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    third = StartMemory({}, RegionOf(2));
  });
  ExpectAll(*store->NewSession().value(), 1);
  returns.join();
}

// Sweeps leave alone what a process had that is registered with other servers, but not there again.
TEST_F(ReturnTest, AStoreThatDoesNothingHasALeaseAgain) {
  const std::unique_ptr<Store> idle = Open();
  ASSERT_NO_FATAL_FAILURE(Fill(*idle->NewSession().value(), 1));
  Return(1);
  const std::unique_ptr<Store> other = Open();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  uint64_t left_bytes = 1;
  while (left_bytes != 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Result<SweepReport> swept = other->Sweep({});
    ASSERT_TRUE(swept) << swept.error().ToString();
    left_bytes = swept.value().servers.at(1).left_bytes;
  }
  EXPECT_EQ(left_bytes, 0u);
  ExpectSound(*other, kReturnKeys);
}

// ---- What a server checks that has come back

RegionCheck AwaitRegionCheck(const EmbeddedMemory& memory) {
  while (!memory.region_check()->is_over) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return *memory.region_check();
}

TEST_F(ReturnTest, WhatIsWrittenMeanwhileIsNoDamage) {
  const std::unique_ptr<Store> store = Open();
  std::atomic<bool> is_over = false;
  std::vector<std::thread> clients;
  for (uint64_t client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      const auto session = store->NewSession().value();
      Random random(client, 2);
      // Splits, merges, and blocks of several sizes, the memory of which is used again.
      for (uint64_t i = 0; !is_over; ++i) {
        const std::string key = KeyOf(random.Below(3000));
        const Status done = random.Below(300) == 0
                                ? session->DeleteRange({key, KeyOf(random.Below(3000))}, {}).status
                            : random.Below(3) == 0 ? session->Delete(key)
                                                   : session->Put(key, ValueOf(random.Below(9), i));
        const bool is_sound = done || done.error().code == Code::kNotFound ||
                              done.error().code == Code::kInvalidArgument;
        ASSERT_TRUE(is_sound) << done.error().ToString();
      }
    });
  }
  uint64_t bytes = 0;
  for (size_t round = 0; round < 20; ++round) {
    Return(round % 2);
    const RegionCheck check = AwaitRegionCheck(*memory_[round % 2]);
    EXPECT_EQ(check.damaged, 0u);
    EXPECT_EQ(check.bytes, check.total_bytes);
    bytes += check.bytes;
  }
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(bytes, uint64_t{1} << 20);
  EXPECT_THAT(store->Check({}).value().problems, IsEmpty());
}

class DamageTest : public BootstrappedStore {
 protected:
  std::string region() const { return directory_.path() + "/region"; }
  // Changes a byte of the one place that has `text`.
  void Flip(const std::string& text) const {
    std::fstream file(region(), std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at = bytes.find(text);
    ASSERT_NE(at, std::string::npos) << text;
    ASSERT_EQ(bytes.find(text, at + 1), std::string::npos) << text;
    file.clear();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(text[0] ^ 1));
  }
};

TEST_F(DamageTest, IsFoundWhereItIs) {
  auto memory = StartMemory({}, region());
  const std::string large = "large" + std::string(3000, '-');
  {
    const std::unique_ptr<Store> store = Open();
    const auto session = store->NewSession().value();
    for (uint64_t i = 0; i < 5000; ++i) {
      ASSERT_TRUE(session->Put(NumberKey(i), i % 5 == 0 ? std::string(200, 'x') : "value"));
    }
    ASSERT_TRUE(session->Put(NumberKey(1000), "leaf value"));
    ASSERT_TRUE(session->Put(NumberKey(4000), large));
    EXPECT_EQ(memory->region_check(), std::nullopt);
  }
  memory.reset();
  memory = StartMemory({}, region());
  RegionCheck check = AwaitRegionCheck(*memory);
  EXPECT_EQ(check.damaged, 0u);
  EXPECT_GT(check.bytes, 40u << 10);  // 1,000 keys in 10 KiB at most
  memory.reset();

  ASSERT_NO_FATAL_FAILURE(Flip("leaf value"));
  ASSERT_NO_FATAL_FAILURE(Flip("large"));
  memory = StartMemory({}, region());
  const std::unique_ptr<Store> store = Open();
  const auto session = store->NewSession().value();
  EXPECT_EQ(session->Get(NumberKey(3000)).value(), std::string(200, 'x')) << "it is served";
  EXPECT_EQ(session->Get(NumberKey(1000)).error().code, Code::kCorruption);
  check = AwaitRegionCheck(*memory);
  EXPECT_EQ(check.damaged, 2u);
  // It is still there the next time; what is written anew is sound.
  ASSERT_TRUE(session->Put(NumberKey(4000), large));
  memory.reset();
  memory = StartMemory({}, region());
  EXPECT_EQ(AwaitRegionCheck(*memory).damaged, 1u);
}

// ---- One that does not come back

TEST_F(ReturnTest, OneThatDoesNotComeBackIsWaitedForAsLongAsIsAsked) {
  const std::unique_ptr<Store> store = Open(300);
  const auto session = store->NewSession().value();
  ASSERT_TRUE(session->Put("key", "value"));
  memory_[0].reset();
  const auto began = std::chrono::steady_clock::now();
  const Result<std::string> value = session->Get("key");
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(300));
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kNodeUnreachable);
  Start(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));  // longer than a server is let alone
  EXPECT_EQ(session->Get("key").value(), "value");
}

}  // namespace
}  // namespace gossamer
