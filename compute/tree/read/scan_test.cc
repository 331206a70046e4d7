// Scans that read ahead: how much they read, and what else may happen to cursor, session and store
// meanwhile.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "common/testing/seed.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

constexpr size_t kKeys = 20'000;
constexpr uint64_t kLeafBytes = 1024;

class ScanTest : public testing::Test {
 protected:
  void SetUp() override {
    LocalOptions options;
    options.memory_bytes = uint64_t{256} << 20;
    Result<std::unique_ptr<Store>> store = Store::OpenLocal(options);
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = std::move(store.value());
    session_ = NewSession();
  }
  std::unique_ptr<Session> NewSession() {
    Result<std::unique_ptr<Session>> session = store_->NewSession();
    EXPECT_TRUE(session) << session.error().ToString();
    return std::move(session.value());
  }
  static std::string KeyOf(size_t number) { return fmt::format("{:08}", number); }
  // Puts every second key, in random order.
  void Load(size_t value_bytes) {
    std::vector<KeyValue> pairs;
    for (size_t i = 0; i < kKeys; ++i) {
      std::string value = KeyOf(i);
      value.resize(value_bytes, '.');
      model_[KeyOf(2 * i)] = value;
      pairs.push_back({KeyOf(2 * i), value});
    }
    std::shuffle(pairs.begin(), pairs.end(), random_);
    for (const Status& status : session_->MultiPut(pairs)) ASSERT_TRUE(status);
  }
  void ExpectModel(const ScanOptions& options) {
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    std::vector<std::pair<std::string, std::string>> expected(model_.begin(), model_.end());
    if (options.reverse) std::reverse(expected.begin(), expected.end());
    if (expected.size() > options.limit) expected.resize(options.limit);
    for (const auto& [key, value] : expected) {
      ASSERT_TRUE(cursor->Next()) << cursor->status().error().ToString();
      ASSERT_EQ(cursor->key(), key);
      ASSERT_EQ(cursor->value(), value);
    }
    EXPECT_FALSE(cursor->Next());
    EXPECT_FALSE(cursor->Next());
    EXPECT_TRUE(cursor->status());
  }
  WireCounts Scanned() const { return session_->counters().of(OperationClass::kScan); }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

TEST_F(ScanTest, ReadsAboutAsManyLeavesAsTheLimitAsksFor) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  ASSERT_NO_FATAL_FAILURE(ExpectModel({}));  // learns how full leaves are
  for (const uint64_t limit : {1u, 10u, 100u, 1'000u, 10'000u}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(fmt::format("limit {}, reverse {}", limit, reverse));
      ScanOptions options;
      options.limit = limit;
      options.reverse = reverse;
      const WireCounts before = Scanned();
      ASSERT_NO_FATAL_FAILURE(ExpectModel(options));
      const uint64_t reads = Scanned().reads - before.reads;
      EXPECT_GE(reads * kLeafBytes, limit * 14) << "leaves have keys without their first bytes";
      // Leaves hold 30 keys at least, on average.
      EXPECT_LE(reads, limit / 30 + 4);
      EXPECT_LE(Scanned().round_trips - before.round_trips, reads / 32 + 2);
    }
  }
}

TEST_F(ScanTest, DoesNotReadBeyondItsRange) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  ASSERT_NO_FATAL_FAILURE(ExpectModel({}));
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    options.from = KeyOf(20'000);
    options.to = KeyOf(20'100);
    options.reverse = reverse;
    const WireCounts before = Scanned();
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    size_t count = 0;
    while (cursor->Next()) ++count;
    EXPECT_EQ(count, 50u);
    EXPECT_LE(Scanned().reads - before.reads, 5u);
  }
}

// Many cursors, each dropped at another place: some with READs ahead in flight.
TEST_F(ScanTest, ACursorMayStopAtAnyPlace) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  for (size_t stop = 0; stop < 3'000; stop += 1 + random_() % 40) {
    ScanOptions options;
    options.reverse = random_() % 2 == 0;
    if (random_() % 2 == 0) options.limit = stop + random_() % 3'000;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    for (size_t i = 0; i < stop && i < options.limit; ++i) ASSERT_TRUE(cursor->Next());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectModel({}));
}

TEST_F(ScanTest, ASessionMayEndBeforeItsCursors) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  for (size_t stop = 0; stop < 600; stop += 17) {
    std::unique_ptr<Session> session = NewSession();
    const std::unique_ptr<ScanCursor> unused = session->Scan({});
    const std::unique_ptr<ScanCursor> cursor = session->Scan({});
    for (size_t i = 0; i < stop; ++i) ASSERT_TRUE(cursor->Next());
    session.reset();
    EXPECT_FALSE(cursor->Next());
    EXPECT_FALSE(unused->Next());
    ASSERT_FALSE(cursor->status());
    EXPECT_EQ(cursor->status().error().code, Code::kInvalidArgument);
  }
}

// The session's end waits for its coroutines, and their scans go on until then.
TEST_F(ScanTest, ASessionEndsBehindTheScansOfItsCoroutines) {
  for (const size_t value_bytes : {8, 100}) {  // inline, and in blocks
    SCOPED_TRACE(value_bytes);
    ASSERT_NO_FATAL_FAILURE(Load(value_bytes));
    for (int polls = 0; polls < 40; ++polls) {
      SCOPED_TRACE(polls);
      std::unique_ptr<Session> session = NewSession();
      size_t found = 0;
      Status status = Ok();
      session->Spawn([](Session& of, size_t& count, Status& end) -> Task<void> {
        ScanOptions options;
        options.limit = 3000;
        const std::unique_ptr<ScanCursor> cursor = of.Scan(options);
        while (co_await cursor->AsyncNext()) {
          count += cursor->value().size();
          if (count % 97 == 0) static_cast<void>(co_await of.AsyncGet(cursor->key()));
        }
        end = cursor->status();
      }(*session, found, status));
      for (int i = 0; i < polls; ++i) session->Poll();
      session.reset();
      EXPECT_EQ(found, 3000 * value_bytes);
      EXPECT_TRUE(status) << status.error().ToString();
    }
  }
}

TEST_F(ScanTest, AnEndedScanKeepsItsStatusWhenItsSessionEnds) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
  while (cursor->Next()) {
  }
  session_.reset();
  EXPECT_FALSE(cursor->Next());
  EXPECT_TRUE(cursor->status());
}

TEST_F(ScanTest, CursorsOfOneSessionDoNotDisturbEachOther) {
  ASSERT_NO_FATAL_FAILURE(Load(8));
  std::vector<std::unique_ptr<ScanCursor>> cursors;
  for (int i = 0; i < 5; ++i) cursors.push_back(session_->Scan({}));
  for (const auto& [key, value] : model_) {
    for (const std::unique_ptr<ScanCursor>& cursor : cursors) {
      ASSERT_TRUE(cursor->Next());
      ASSERT_EQ(cursor->key(), key);
      ASSERT_EQ(cursor->value(), value);
    }
  }
}

// The writes split leaves, some of which the scan has read ahead. A key that is there all the time
// is seen once.
TEST_F(ScanTest, SeesEachKeyOnceWhileItsSessionWrites) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    ASSERT_NO_FATAL_FAILURE(Load(8));
    ScanOptions options;
    options.reverse = reverse;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    std::vector<std::string> expected;
    for (const auto& [key, value] : model_) expected.push_back(key);
    if (reverse) std::reverse(expected.begin(), expected.end());
    for (const std::string& key : expected) {
      bool is_new = true;
      while (is_new) {
        ASSERT_TRUE(cursor->Next());
        is_new = model_.count(std::string(cursor->key())) == 0;
      }
      ASSERT_EQ(cursor->key(), key);
      const size_t number = std::stoul(key);
      // Some leaves ahead or behind.
      const size_t other = (number + 1 + 2 * (random_() % 2'000)) % (2 * kKeys);
      ASSERT_TRUE(session_->Put(KeyOf(other), "new"));
    }
    for (size_t i = 1; i < 2 * kKeys; i += 2) static_cast<void>(session_->Delete(KeyOf(i)));
  }
}

TEST_F(ScanTest, ReadsValuesInBlocksForTheEntriesItReturns) {
  ASSERT_NO_FATAL_FAILURE(Load(100));
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    options.reverse = reverse;
    ASSERT_NO_FATAL_FAILURE(ExpectModel(options));
    options.limit = 40;
    const WireCounts before = Scanned();
    ASSERT_NO_FATAL_FAILURE(ExpectModel(options));
    const uint64_t blocks = 40;
    EXPECT_LE(Scanned().reads - before.reads, blocks + 6);
    // Leaves, 32 blocks, 8 blocks.
    EXPECT_LE(Scanned().round_trips - before.round_trips, 3u);
  }
}

TEST_F(ScanTest, SeesBlocksThatAreReplacedOrDeletedMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(Load(100));
  const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
  auto expected = model_.begin();
  for (size_t i = 0; expected != model_.end(); ++i, ++expected) {
    const std::string& key = expected->first;
    // The leaves of the keys that follow are there, and some of their blocks.
    if (i % 50 == 10) {
      auto next = std::next(expected, 3);
      for (int k = 0; k < 35 && next != model_.end(); ++k, ++next) {
        ASSERT_TRUE(session_->Put(next->first, std::string(200, 'n')));
      }
    }
    ASSERT_TRUE(cursor->Next()) << cursor->status().error().ToString();
    ASSERT_EQ(cursor->key(), key);
    const bool is_old = cursor->value() == expected->second;
    ASSERT_TRUE(is_old || cursor->value() == std::string(200, 'n'));
  }
  EXPECT_FALSE(cursor->Next());
}

}  // namespace
}  // namespace gossamer
