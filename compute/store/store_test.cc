// The store against a model: every operation, on stores of several shapes, by one session and then
// by another.
#include "gossamer/store.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>

#include "common/testing/seed.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

using Model = std::map<std::string, std::string>;

struct Shape {
  std::string name;
  StoreParameters parameters;
  size_t max_value_bytes;
  uint64_t cache_bytes;

  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }
};

class StoreTest : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    LocalOptions options;
    options.memory_bytes = uint64_t{256} << 20;
    options.parameters = GetParam().parameters;
    options.cache_bytes = GetParam().cache_bytes;
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

  // Few distinct short keys, which repeat, and long ones that share long prefixes.
  std::string RandomKey() {
    const size_t longest = GetParam().parameters.max_key_bytes;
    std::string key(random_() % 4 == 0 ? longest - random_() % 3 : random_() % (longest + 1), 'k');
    for (size_t i = key.size() / 2; i < key.size(); ++i) key[i] = static_cast<char>(random_() % 3);
    if (!key.empty()) key[0] = static_cast<char>(random_());
    return key;
  }
  std::string RandomValue() {
    std::string value(random_() % (GetParam().max_value_bytes + 1), '\0');
    for (char& c : value) c = static_cast<char>(random_());
    return value;
  }

  void ExpectSame(Session& session) {
    ScanOptions forward;
    std::unique_ptr<ScanCursor> cursor = session.Scan(forward);
    for (const auto& [key, value] : model_) {
      ASSERT_TRUE(cursor->Next()) << "before " << testing::PrintToString(key);
      ASSERT_EQ(cursor->key(), key);
      ASSERT_EQ(cursor->value(), value);
    }
    EXPECT_FALSE(cursor->Next());
    EXPECT_TRUE(cursor->status());
    ScanOptions backward;
    backward.reverse = true;
    cursor = session.Scan(backward);
    for (auto pair = model_.rbegin(); pair != model_.rend(); ++pair) {
      ASSERT_TRUE(cursor->Next()) << "after " << testing::PrintToString(pair->first);
      ASSERT_EQ(cursor->key(), pair->first);
      ASSERT_EQ(cursor->value(), pair->second);
    }
    EXPECT_FALSE(cursor->Next());
  }

  void ExpectCleanCheck() {
    const Result<CheckReport> report = store_->Check({});
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report.value().problem_count, 0u) << testing::PrintToString(report.value().problems);
    EXPECT_EQ(report.value().keys, model_.size());
    EXPECT_EQ(report.value().missing_downlinks, 0u);
  }

  std::mt19937_64 random_{TestSeed()};
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
  Model model_;
};

TEST_P(StoreTest, BehavesAsAMap) {
  for (int i = 0; i < Rounds(20000); ++i) {
    const std::string key = RandomKey();
    const auto old = model_.find(key);
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: {
        const std::string value = RandomValue();
        const Status status = session_->Put(key, value);
        ASSERT_TRUE(status) << status.error().ToString();
        model_[key] = value;
        break;
      }
      case 3: {
        const std::string value = RandomValue();
        const Status status = session_->Insert(key, value);
        ASSERT_EQ(status.has_value(), old == model_.end());
        if (!status) {
          ASSERT_EQ(status.error().code, Code::kAlreadyExists);
        }
        if (status) model_[key] = value;
        break;
      }
      case 4: {
        const std::string value = RandomValue();
        const Status status = session_->Update(key, value);
        ASSERT_EQ(status.has_value(), old != model_.end());
        if (!status) {
          ASSERT_EQ(status.error().code, Code::kNotFound);
        }
        if (status) model_[key] = value;
        break;
      }
      case 5: {
        const Status status = session_->Delete(key);
        ASSERT_EQ(status.has_value(), old != model_.end());
        if (!status) {
          ASSERT_EQ(status.error().code, Code::kNotFound);
        }
        model_.erase(key);
        break;
      }
      default: {
        const Result<std::string> value = session_->Get(key);
        ASSERT_EQ(value.has_value(), old != model_.end());
        if (!value) {
          ASSERT_EQ(value.error().code, Code::kNotFound);
        }
        if (value) {
          ASSERT_EQ(value.value(), old->second);
        }
        break;
      }
    }
  }
  ExpectSame(*session_);
  const std::unique_ptr<Session> other = NewSession();
  ExpectSame(*other);
  ExpectCleanCheck();
}

TEST_P(StoreTest, ScansRanges) {
  for (int i = 0; i < 3000; ++i) {
    const std::string key = RandomKey();
    const std::string value = RandomValue();
    ASSERT_TRUE(session_->Put(key, value));
    model_[key] = value;
  }
  for (int i = 0; i < 200; ++i) {
    ScanOptions options;
    options.from = RandomKey();
    if (random_() % 2 == 0) options.to = RandomKey() + std::string(random_() % 40, 'z');
    if (random_() % 4 == 0) options.prefix = RandomKey().substr(0, 2);
    if (random_() % 2 == 0) options.limit = random_() % 200;
    options.reverse = random_() % 2 == 0;
    std::vector<std::string> expected;
    for (const auto& [key, value] : model_) {
      if (key >= options.from && (!options.to || key < *options.to) &&
          key.starts_with(options.prefix)) {
        expected.push_back(key);
      }
    }
    if (options.reverse) std::reverse(expected.begin(), expected.end());
    if (expected.size() > options.limit) expected.resize(options.limit);
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    std::vector<std::string> found;
    while (cursor->Next()) found.emplace_back(cursor->key());
    ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
    ASSERT_EQ(found, expected);
  }
}

TEST_P(StoreTest, ManyOperationsInFlightOnOneThread) {
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < 5000; ++i) {
    keys.push_back(RandomKey());
    model_[keys.back()] = "";
  }
  std::vector<KeyValue> pairs;
  for (auto& [key, value] : model_) {
    value = RandomValue();
    pairs.push_back({key, value});
  }
  std::shuffle(pairs.begin(), pairs.end(), random_);
  for (const Status& status : session_->MultiPut(pairs)) {
    ASSERT_TRUE(status) << status.error().ToString();
  }
  std::vector<std::string_view> views;
  for (const KeyValue& pair : pairs) views.push_back(pair.key);
  const std::vector<Result<std::string>> values = session_->MultiGet(views);
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_TRUE(values[i]) << values[i].error().ToString();
    ASSERT_EQ(values[i].value(), pairs[i].value);
  }
  // Absent, too long, and there, in one batch.
  const std::string too_long(GetParam().parameters.max_key_bytes + size_t{1}, 'x');
  const std::vector<std::string_view> mixed = {views[0], "no such key", too_long, views[1]};
  Values found;
  session_->MultiGet(mixed, found);
  ASSERT_EQ(found.size(), mixed.size());
  ASSERT_TRUE(found[0] && found[3]);
  EXPECT_EQ(found[0].value(), pairs[0].value);
  EXPECT_EQ(found[3].value(), pairs[1].value);
  EXPECT_EQ(found[1].error().code, mixed[1].size() <= GetParam().parameters.max_key_bytes
                                       ? Code::kNotFound
                                       : Code::kInvalidArgument);
  EXPECT_EQ(found[2].error().code, Code::kInvalidArgument);
  ExpectSame(*session_);
  ExpectCleanCheck();
  const std::vector<std::string_view> half(views.begin(), views.begin() + 1000);
  for (const Status& status : session_->MultiDelete(half)) ASSERT_TRUE(status);
  for (const std::string_view key : half) model_.erase(std::string(key));
  ExpectSame(*session_);
  ExpectCleanCheck();
}

TEST_P(StoreTest, GetsOfManyCoroutines) {
  for (int i = 0; i < 3000; ++i) {
    const std::string key = RandomKey();
    model_[key] = RandomValue();
    ASSERT_TRUE(session_->Put(key, model_[key]));
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : model_) {
    keys.push_back(key);
    if (random_() % 4 == 0) keys.push_back(RandomKey());  // usually absent
    if (random_() % 64 == 0) {
      keys.emplace_back(GetParam().parameters.max_key_bytes + size_t{1}, 'x');
    }
  }
  std::shuffle(keys.begin(), keys.end(), random_);
  const auto expect_right = [this](const std::string& key, const Result<std::string>& value) {
    const auto found = model_.find(key);
    if (found != model_.end()) {
      ASSERT_TRUE(value) << value.error().ToString();
      EXPECT_EQ(value.value(), found->second);
    } else {
      ASSERT_FALSE(value);
      EXPECT_EQ(value.error().code, key.size() > GetParam().parameters.max_key_bytes
                                        ? Code::kInvalidArgument
                                        : Code::kNotFound);
    }
  };
  size_t next = 0;
  const auto get_some = [&]() -> Task<void> {
    while (next < keys.size()) {
      const std::string& key = keys[next++];
      expect_right(key, co_await session_->AsyncGet(key));
      // A call that runs the others meanwhile.
      if (next % 16 == 0) expect_right(key, session_->Get(key));
    }
  };
  for (int i = 0; i < 100; ++i) session_->Spawn(get_some());
  session_->WaitAll();
  EXPECT_GE(next, keys.size());
}

// Gets of one group: the first to go on polls until another has ended.
TEST_P(StoreTest, ACoroutineThatPollsLetsTheOthersOfItsGroupGoOn) {
  ASSERT_TRUE(session_->Put("a", "1"));
  const auto get = [this](bool& has_ended) -> Task<void> {
    EXPECT_TRUE(co_await session_->AsyncGet("a"));
    has_ended = true;
  };
  bool ended[2] = {false, false};
  size_t polls = 0;
  const auto poll = [&]() -> Task<void> {
    EXPECT_TRUE(co_await session_->AsyncGet("a"));
    for (; !ended[1] && polls < 100'000; ++polls) session_->Poll();
  };
  session_->Spawn(get(ended[0]));  // alone
  session_->Spawn(poll());
  session_->Spawn(get(ended[1]));
  session_->WaitAll();
  EXPECT_TRUE(ended[0] && ended[1]);
  EXPECT_LT(polls, 100'000u);
}

TEST(StoreMemoryTest, IsTouchedIfThatIsWanted) {
  // Of this process, now.
  const auto resident_bytes = [] {
    uint64_t size = 0;
    uint64_t resident = 0;
    std::ifstream("/proc/self/statm") >> size >> resident;
    return resident * static_cast<uint64_t>(::getpagesize());
  };
  LocalOptions options;
  options.memory_bytes = uint64_t{256} << 20;
  const uint64_t before = resident_bytes();
  const std::unique_ptr<Store> lazy = std::move(Store::OpenLocal(options).value());
  EXPECT_LT(resident_bytes(), before + options.memory_bytes / 2);
  options.touch_memory = true;
  const std::unique_ptr<Store> eager = std::move(Store::OpenLocal(options).value());
  // The kernel counts for each thread by itself, and adds up now and then.
  EXPECT_GE(resident_bytes(), before + options.memory_bytes * 15 / 16);
}

// Blocks reach to the last byte of the region.
TEST(StoreMemoryTest, FullMemoryKeepsEveryBlockReadable) {
  LocalOptions options;
  options.memory_bytes = uint64_t{4} << 20;
  const Result<std::unique_ptr<Store>> store = Store::OpenLocal(options);
  ASSERT_TRUE(store) << store.error().ToString();
  const Result<std::unique_ptr<Session>> session = store.value()->NewSession();
  ASSERT_TRUE(session) << session.error().ToString();
  std::vector<std::string> stored;
  Status status = Ok();
  while (status) {
    std::string key = fmt::format("key{}", stored.size());
    status = session.value()->Put(key, std::string(40, 'v') + key);
    if (status) stored.push_back(std::move(key));
  }
  EXPECT_EQ(status.error().code, Code::kExhausted) << status.error().ToString();
  EXPECT_GT(stored.size(), 10'000u);
  for (const std::string& key : stored) {
    const Result<std::string> value = session.value()->Get(key);
    ASSERT_TRUE(value) << key << ": " << value.error().ToString();
    ASSERT_EQ(value.value(), std::string(40, 'v') + key);
  }
  const Result<CheckReport> report = store.value()->Check({});
  ASSERT_TRUE(report);
  EXPECT_EQ(report.value().problem_count, 0u) << report.value().problems.front();
}

// Counted where leaves are read, and estimated from a sample else.
TEST(StoreMemoryTest, TellsAboutHowManyKeysThereAre) {
  std::mt19937_64 random(TestSeed());
  for (const size_t value_bytes : {8, 100}) {
    LocalOptions options;
    options.memory_bytes = uint64_t{64} << 20;
    const std::unique_ptr<Store> store = std::move(Store::OpenLocal(options).value());
    const std::unique_ptr<Session> session = std::move(store->NewSession().value());
    uint64_t keys = 0;
    for (const uint64_t wanted : {0, 5, 5'000, 60'000}) {
      SCOPED_TRACE(fmt::format("{} keys, values of {} B", wanted, value_bytes));
      while (keys < wanted) {
        const Status put =
            session->Insert(fmt::format("{:08x}", random() >> 32), std::string(value_bytes, 'v'));
        if (put) ++keys;
      }
      const StoreUse use = store->MeasureMemory({}).value();
      EXPECT_EQ(use.keys_are_estimated, value_bytes == 8 && wanted == 60'000);
      if (use.keys_are_estimated) {
        EXPECT_NEAR(static_cast<double>(use.keys), static_cast<double>(keys),
                    0.07 * static_cast<double>(keys));
      } else {
        EXPECT_EQ(use.keys, keys);
      }
    }
  }
}

// One use in 64 is sampled.
TEST(StoreHotLeavesTest, SinglePutsCountAsSingleGetsDo) {
  constexpr uint64_t kUses = 4096;
  for (const bool puts : {false, true}) {
    LocalOptions options;
    options.memory_bytes = uint64_t{16} << 20;
    const std::unique_ptr<Store> store = Store::OpenLocal(options).value();
    const std::unique_ptr<Session> session = store->NewSession().value();
    ASSERT_TRUE(session->Put("key", "value"));
    for (uint64_t i = 0; i < kUses; ++i) {
      if (puts) {
        ASSERT_TRUE(session->Put("key", "other"));
      } else {
        ASSERT_TRUE(session->Get("key"));
      }
    }
    const std::vector<HotLeaf> hot = store->HotLeaves(1);
    ASSERT_EQ(hot.size(), 1u) << (puts ? "puts" : "gets");
    EXPECT_GT(hot[0].operations, kUses / 2) << (puts ? "puts" : "gets");
  }
}

TEST_P(StoreTest, SaysWhichArgumentIsTooLong) {
  const std::string long_key(GetParam().parameters.max_key_bytes + size_t{1}, 'k');
  const Status put = session_->Put(long_key, "v");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kInvalidArgument);
  EXPECT_NE(put.error().message.find(std::to_string(long_key.size())), std::string::npos);
  EXPECT_EQ(session_->Get(long_key).error().code, Code::kInvalidArgument);
  const Status huge = session_->Put("k", std::string(kMaxValueBytes + 1, 'v'));
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::kInvalidArgument);
  ASSERT_TRUE(session_->Put("k", std::string(kMaxValueBytes, 'v')));
  EXPECT_EQ(session_->Get("k").value().size(), kMaxValueBytes);
}

INSTANTIATE_TEST_SUITE_P(Shapes, StoreTest,
                         testing::Values(Shape{"Default", {1024, 32, 16}, 16, 64 << 20},
                                         Shape{"Blocks", {1024, 32, 16}, 300, 64 << 20},
                                         Shape{"SmallNodes", {256, 32, 16}, 24, 64 << 20},
                                         Shape{"ShortKeys", {256, 8, 8}, 8, 64 << 20},
                                         Shape{"LongInline", {1024, 16, 64}, 64, 64 << 20},
                                         Shape{"LargeNodes", {4096, 32, 0}, 16, 64 << 20},
                                         Shape{"TinyCache", {512, 32, 16}, 16, 2048},
                                         Shape{"NoCache", {512, 8, 8}, 8, 0}),
                         [](const testing::TestParamInfo<Shape>& shape) {
                           return shape.param.name;
                         });

}  // namespace
}  // namespace gossamer
