// News that comes late: a sweeper has not heard of a memory server, or a compute server of the end
// of its lease.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/session/registration.h"
#include "compute/store/testing/simulated_clients.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/tree/tree.h"
#include "proto/control.h"

namespace gossamer {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kChunk = uint64_t{32} << 10;
constexpr uint64_t kFirstOfWorker = 100'000;

// Values of that length are in blocks.
std::string Value(char letter) { return std::string(100, letter); }

// A compute server loses its lease with server 0 alone. It has written a block there, and is about
// to link it from a leaf on server 1.
class LateServerTest : public SimulatedClients {
 protected:
  static constexpr uint64_t kKeys = 800;
  static constexpr ServerId kLate{1};

  // Server 1 joins when the worker has opened the store.
  void SetUp() override {
    StartMemory(2, kFewChunks, kChunk);
    const StoreRecord all = record_;
    StoreRecord first = all;
    first.servers.resize(1);
    first.next_server = 1;
    Publish(first);
    StartWorker();
    Publish(all);
    client_ = Open(kStalled);
    others_ = &client_.New();
    stalled_ = &client_.New();
    ASSERT_NO_FATAL_FAILURE(LoadTree());
    ASSERT_NO_FATAL_FAILURE(StartPut());
    ASSERT_NO_FATAL_FAILURE(LoseFirstLease());
  }
  void LoadTree() {
    std::vector<std::string> keys;
    std::vector<KeyValueView> pairs;
    for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(NumberKey(i));
    for (const std::string& key : keys) pairs.push_back({key, "12345678"});
    ASSERT_TRUE(others_->LoadSorted(pairs, 0.6).status);  // no leaf is full
    const auto is_on_late_server = [&](const std::string& key) {
      const auto leaf = others_->RunToEnd(others_->tree().FindNode(Key(key), 0));
      return leaf && leaf.value().node.server() == kLate;
    };
    const auto found = std::ranges::find_if(keys, is_on_late_server);
    ASSERT_NE(found, keys.end());
    key_ = *found;
    // So much of it that the next blocks are on the other server.
    ASSERT_TRUE(others_->Put(key_, std::string(20'000, 'l')));
  }
  bool IsOnFirstServer(const std::string& value) {
    const std::span<const std::byte> memory = network_.Memory(memory_[0]->address());
    return !std::ranges::search(memory, std::as_bytes(std::span(value))).empty();
  }
  // Until its block has been written.
  void StartPut() {
    const auto run = [](LateServerTest& test, std::string value) -> Task<void> {
      test.put_ = co_await test.stalled_->AsyncPut(test.key_, value);
    };
    stalled_->Spawn(run(*this, Value('c')));
    ASSERT_NO_FATAL_FAILURE(RunOn(*stalled_, [this] { return IsOnFirstServer(Value('c')); }));
    ASSERT_FALSE(put_);
  }
  void LoseFirstLease() {
    for (int i = 0; i < 5; ++i) {
      ASSERT_NO_FATAL_FAILURE(Pass(1000ms));
      ASSERT_TRUE(others_->RunToEnd(RegisterOver(others_->scheduler().endpoint(), kLate)));
    }
    ASSERT_FALSE(IsInForce(kStalled));
    ASSERT_TRUE(IsInForce(kStalled, kLate));
  }
  void ExpectPutEnds() {
    FillMemory(kFirstOfWorker, Value('e'));
    ASSERT_NO_FATAL_FAILURE(RunOn(*stalled_, [this] { return put_.has_value(); }));
    ASSERT_TRUE(*put_) << put_->error().ToString();
    const Result<std::string> value = work_->Get(key_);
    ASSERT_TRUE(value) << value.error().ToString();
    EXPECT_EQ(value.value(), Value('c'));
    ExpectCleanCheck();
  }

  SimulatedClient client_;
  OpenSession* others_ = nullptr;
  OpenSession* stalled_ = nullptr;
  std::string key_;
  std::optional<Status> put_;
};

TEST_F(LateServerTest, IsAskedByASweeperThatOpenedTheStoreBefore) {
  ASSERT_NO_FATAL_FAILURE(Sweep());
  ExpectPutEnds();
}

TEST_F(LateServerTest, IsAskedByASweepThatBeganWithoutIt) {
  bootstrap_->ServeStale(record_.store, 1);
  ASSERT_NO_FATAL_FAILURE(Sweep());
  ExpectPutEnds();
}

// A compute server replaces values of one that has died. The return of their blocks waits in it
// until its lease has ended, and a sweep has given them to others.
class LateReturnTest : public SimulatedClients {
 protected:
  static constexpr uint64_t kReplaced = control::ReleaseRequest::kMaxRanges - 1;  // no request yet

  void SetUp() override {
    StartMemory(1, kFewChunks, kChunk);
    StartWorker();
    ASSERT_NO_FATAL_FAILURE(PutAndDie());
    ASSERT_NO_FATAL_FAILURE(ReplaceAndLoseLease());
    ASSERT_EQ(BytesOf(kDying), 0u);
    end_ = FillMemory(kFirstOfWorker, Value('e'));
  }
  void PutAndDie() {
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(work_->Put(NumberKey(i), "12345678"));
    SimulatedClient dying = Open(kDying);
    OpenSession& puts = dying.New();
    for (uint64_t i = 0; i < kReplaced; ++i) ASSERT_TRUE(puts.Put(NumberKey(i), Value('b')));
    network_.KillClient(kDying);
  }
  void ReplaceAndLoseLease() {
    const uint64_t bytes = BytesOf(kDying);
    client_ = Open(kStalled);
    session_ = &client_.New();
    for (uint64_t i = 0; i < kReplaced; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), "inline"));
    ASSERT_EQ(BytesOf(kDying), bytes) << "the return does not wait";
    ASSERT_NO_FATAL_FAILURE(OutliveAndSweep());
  }
  // The worker has time to learn that memory of its own is given back, and fills that again.
  void ExpectValuesUpTo(uint64_t end) {
    ASSERT_NO_FATAL_FAILURE(Pass(5000ms));
    FillMemory(2 * kFirstOfWorker, Value('f'));
    for (uint64_t key = kFirstOfWorker; key < end; ++key) {
      const Result<std::string> value = work_->Get(NumberKey(key));
      ASSERT_TRUE(value) << key << ": " << value.error().ToString();
      ASSERT_EQ(value.value(), Value('e')) << key;
    }
    ExpectCleanCheck();
  }

  uint64_t end_ = 0;  // of the worker's keys
  SimulatedClient client_;
  OpenSession* session_ = nullptr;
};

TEST_F(LateReturnTest, IsRefusedWhenTheStoreIsClosed) {
  client_.Close();
  ExpectValuesUpTo(end_);
}

TEST_F(LateReturnTest, IsForgottenWithANewLease) {
  const uint64_t returned = end_ - control::ReleaseRequest::kMaxRanges;
  for (uint64_t i = returned; i < end_; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), "inline"));
  ASSERT_TRUE(IsInForce(kStalled));
  ExpectValuesUpTo(returned);
}

}  // namespace
}  // namespace gossamer
