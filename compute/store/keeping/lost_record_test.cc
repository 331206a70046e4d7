// The record of a store is lost while the store is open. Operations go on. An operation that needs
// the record reports that the record is missing, never a key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/bootstrap/membership.h"
#include "compute/store/testing/bootstrapped_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kStored = 5000;

class LostRecordTest : public BootstrappedStore {
 protected:
  LostRecordTest() { AddServer(); }

  void AddServer() { memory_.push_back(StartMemory()); }
  // The servers put the record back: one what it knows, then each adds itself.
  void AwaitRecordOf(size_t servers) {
    Result<StoreRecord> found = FindStore(*bootstrap_, {});
    while (!found || found.value().servers.size() < servers) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      found = FindStore(*bootstrap_, {});
    }
  }
  void Overwrite(const std::optional<std::string>& text) {
    std::optional<std::string> now;
    do {
      now = bootstrap_->Get("default").value();
    } while (!bootstrap_->CompareAndSwap("default", now, text).value());
  }

  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
};

TEST_F(LostRecordTest, OpenStoresGoOn) {
  const auto store = Open();
  const auto session = store->NewSession().value();
  for (int i = 0; i < 3; ++i) {
    Overwrite(std::nullopt);
    ASSERT_TRUE(session->Put("key", std::to_string(i)));
    EXPECT_EQ(session->Get("key").value(), std::to_string(i));
  }
  AwaitRecordOf(1);
  EXPECT_EQ(Open()->NewSession().value()->Get("key").value(), "2");
}

// The store was opened before server 1 joined. A text that is no record stays until it is removed,
// so that nothing races here.
TEST_F(LostRecordTest, AServerThatCannotBeLearntIsUnreachable) {
  const auto early = Open();
  const auto session = early->NewSession().value();
  AddServer();
  const auto late = Open();
  const auto writer = late->NewSession().value();
  for (uint64_t i = 0; i < kStored; ++i) ASSERT_TRUE(writer->Put(NumberKey(i), "value"));

  Overwrite("no record");
  std::optional<std::string> unreachable;
  for (uint64_t i = 0; i < kStored; i += 10) {
    const auto got = session->Get(NumberKey(i));
    if (got) continue;
    ASSERT_EQ(got.error().code, Code::kNodeUnreachable) << got.error().ToString();
    ASSERT_THAT(got.error().message, HasSubstr("the record of store 'default'"));
    unreachable = NumberKey(i);
  }
  ASSERT_TRUE(unreachable);
  Overwrite(std::nullopt);
  AwaitRecordOf(2);
  // The store repeats the last refusal for a while, which is longer if the machine is busy
  // (RestAfterTry).
  for (auto got = session->Get(*unreachable); !got; got = session->Get(*unreachable)) {
    ASSERT_EQ(got.error().code, Code::kNodeUnreachable) << got.error().ToString();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (uint64_t i = 0; i < kStored; ++i) {
    const auto got = session->Get(NumberKey(i));
    ASSERT_TRUE(got) << got.error().ToString();
  }
}

// Its server puts itself back soon, which races with the gets here.
TEST_F(LostRecordTest, AServerThatARestoredRecordLacksIsNotSaidToHaveLeft) {
  const auto early = Open();
  const auto session = early->NewSession().value();
  AddServer();
  const auto late = Open();
  const auto writer = late->NewSession().value();
  for (uint64_t i = 0; i < kStored; ++i) ASSERT_TRUE(writer->Put(NumberKey(i), "value"));

  StoreRecord record = FindStore(*bootstrap_, {}).value();
  record.servers.pop_back();
  record.restored = 1;
  Overwrite(EncodeStoreRecord(record));
  for (uint64_t i = 0; i < kStored; ++i) {
    const auto got = session->Get(NumberKey(i));
    if (got) continue;
    ASSERT_EQ(got.error().code, Code::kNodeUnreachable) << got.error().ToString();
    ASSERT_THAT(got.error().message, HasSubstr("lost and put back"));
  }
}

// The owner of what a sweep gives back must not be at work on a server that the record lacks for a
// while.
TEST_F(LostRecordTest, ASweepKnowsServersThatARestoredRecordLacks) {
  AddServer();
  StoreRecord record = FindStore(*bootstrap_, {}).value();
  record.servers.pop_back();
  record.restored = 1;
  Overwrite(EncodeStoreRecord(record));
  const auto store = Open();
  const Result<SweepReport> report = store->Sweep({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().servers.size(), 2u);
}

}  // namespace
}  // namespace gossamer
