// Keys that expire, through a session: all that a store does with them.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compute/store/keeping/expiry_sweeper.h"
#include "compute/store/open_store.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/tree/tree.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

using std::chrono::milliseconds;

// In the leaf, in a block, and of a long key.
const std::vector<std::pair<std::string, std::string>> kForms = {
    {"short", "value"},
    {"block", std::string(500, 'b')},
    {"long" + std::string(150, 'l'), "value"}};

class ExpiryTest : public ::testing::Test {
 protected:
  ExpiryTest() {
    LocalOptions options;
    options.memory_bytes = uint64_t{64} << 20;
    options.parameters = {1024, 200, 16};
    store_ = Store::OpenLocal(options).value();
    session_ = store_->NewSession().value();
  }
  Store& store() { return *store_; }
  Session& session() { return *session_; }
  uint64_t LiveBytes() {
    uint64_t bytes = 0;
    const StoreUse uses = store_->MeasureMemory({}).value();
    for (const auto& [server, use] : uses.servers) {
      bytes += use.live_bytes;
    }
    return bytes;
  }
  uint64_t Now() { return session().StoreTimeMs(); }
  // In leaves, in blocks, and of long keys.
  static std::string KeyOf(uint64_t i) {
    return "key" + std::to_string(i) + (i % 9 == 0 ? std::string(150, 'l') : "");
  }
  void PutKeys(uint64_t count) {
    std::vector<KeyValue> pairs;
    for (uint64_t i = 0; i < count; ++i) {
      pairs.push_back({KeyOf(i), i % 7 == 0 ? std::string(300, 'v') : "value",
                       Expiry::After(std::chrono::hours(1))});
    }
    for (const Status& put : session().MultiPut(pairs)) ASSERT_TRUE(put);
  }
  // Until what expires then has done so.
  void AwaitTime(uint64_t ms) {
    while (Now() < ms) std::this_thread::sleep_for(milliseconds(1));
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto cursor = session().Scan({});
    while (cursor->Next()) keys.emplace_back(cursor->key());
    EXPECT_TRUE(cursor->status());
    return keys;
  }

 private:
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

TEST_F(ExpiryTest, AKeyIsThereUntilItsTime) {
  for (const auto& [key, value] : kForms) {
    const uint64_t end = Now() + 100;
    ASSERT_TRUE(session().Put(key, value, Expiry::At(end)));
    const Result<ExpiringValue> found = session().GetWithExpiry(key);
    if (Now() < end) {
      ASSERT_TRUE(found);
      EXPECT_EQ(found.value().value, value);
      EXPECT_EQ(found.value().expiry, Expiry::At(end));
    }
    AwaitTime(end);
    EXPECT_EQ(session().Get(key).error().code, Code::kNotFound);
    EXPECT_EQ(session().TimeToLive(key).error().code, Code::kNotFound);
    EXPECT_TRUE(Keys().empty());
    EXPECT_EQ(session().Update(key, "2").error().code, Code::kNotFound);
    EXPECT_EQ(session().Delete(key).error().code, Code::kNotFound);
    EXPECT_TRUE(session().Insert(key, "2"));
    EXPECT_EQ(session().Get(key).value(), "2");
    EXPECT_EQ(session().TimeToLive(key).value(), std::nullopt);
    EXPECT_TRUE(session().Delete(key));
  }
}

// Of each form, with a time and without: gets, scans, touches and expiry meet a composite value as any
// other, and keep the mark; a put clears it.
TEST_F(ExpiryTest, ACompositeValueStaysOneUntilItIsOverwritten) {
  const auto expiry = [&](std::string_view key) {
    return session().GetWithExpiry(key).value().expiry;
  };
  const auto hour = Expiry::After(std::chrono::hours(1));
  for (const auto& [key, value] : kForms) {
    ASSERT_TRUE(session().Put(key, value, Expiry::Never().OfComposite()));
    EXPECT_EQ(expiry(key), Expiry::Never().OfComposite());
    EXPECT_EQ(session().TimeToLive(key).value(), std::nullopt);
    ASSERT_TRUE(session().Touch(key, Expiry::Keep()));
    EXPECT_EQ(expiry(key), Expiry::Never().OfComposite());
    ASSERT_TRUE(session().Touch(key, hour));
    EXPECT_TRUE(expiry(key).is_composite());
    EXPECT_GT(session().TimeToLive(key).value(), std::chrono::minutes(50));
    const std::vector<std::string_view> keys{key, "absent"};
    Values values;
    session().MultiGet(keys, values);
    EXPECT_EQ(values[0].value(), value);
    EXPECT_EQ(values.expiry(0), expiry(key));
    const auto cursor = session().Scan({});
    ASSERT_TRUE(cursor->Next());
    EXPECT_EQ(cursor->expiry(), expiry(key));
    ASSERT_TRUE(session().Touch(key, Expiry::Never()));
    EXPECT_EQ(expiry(key), Expiry::Never().OfComposite());
    ASSERT_TRUE(session().Put(key, value, Expiry::Keep()));
    EXPECT_EQ(expiry(key), Expiry::Never());
    ASSERT_TRUE(session().Put(key, value, hour.OfComposite()));
    ASSERT_TRUE(session().Put(key, value, Expiry::Keep()));
    EXPECT_FALSE(expiry(key).is_composite());
    EXPECT_GT(session().TimeToLive(key).value(), std::chrono::minutes(50));
    const uint64_t end = Now() + 50;
    ASSERT_TRUE(session().Put(key, value, Expiry::At(end).OfComposite()));
    AwaitTime(end);
    EXPECT_EQ(session().Get(key).error().code, Code::kNotFound);
    EXPECT_TRUE(Keys().empty());
  }
}

TEST_F(ExpiryTest, ATouchKeepsTheValue) {
  for (const auto& [key, value] : kForms) {
    EXPECT_EQ(session().Touch(key, Expiry::After(milliseconds(1))).error().code, Code::kNotFound);
    ASSERT_TRUE(session().Put(key, value));
    ASSERT_TRUE(session().Touch(key, Expiry::After(std::chrono::hours(1))));
    EXPECT_GT(session().TimeToLive(key).value(), std::chrono::minutes(50));
    EXPECT_EQ(session().Get(key).value(), value);
    ASSERT_TRUE(session().Put(key, value + "2", Expiry::Keep()));
    EXPECT_GT(session().TimeToLive(key).value(), std::chrono::minutes(50));
    ASSERT_TRUE(session().Touch(key, Expiry::Never()));
    EXPECT_EQ(session().TimeToLive(key).value(), std::nullopt);
    EXPECT_EQ(session().Get(key).value(), value + "2");
    ASSERT_TRUE(session().Touch(key, Expiry::At(1)));
    EXPECT_EQ(session().Get(key).error().code, Code::kNotFound);
  }
}

// Against a model: all forms, single writes and batches, in leaves that split.
TEST_F(ExpiryTest, AgreesWithAModel) {
  struct Known {
    std::string value;
    uint64_t expires_at = 0;
  };
  std::map<std::string, Known> model;
  uint64_t state = 88172645463325252;
  const auto random = [&state](uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
  };
  const uint64_t far = Now() + 1'000'000'000;
  for (int round = 0; round < 400; ++round) {
    std::vector<KeyValue> pairs;
    const uint64_t count = 1 + random(random(4) == 0 ? 200 : 4);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t number = random(3000);
      KeyValue pair;
      pair.key = "key" + std::to_string(number) + std::string(number % 7 == 0 ? 120 : 0, 'x');
      pair.value = std::string(number % 5 == 0 ? 300 : random(17), 'v') + std::to_string(round);
      if (number % 5 != 0) pair.value.resize(std::min<size_t>(pair.value.size(), 16));
      switch (random(4)) {
        case 0: pair.expiry = Expiry::At(1 + random(1000)); break;  // long ago
        case 1: pair.expiry = Expiry::At(far + random(1000)); break;
        case 2: pair.expiry = Expiry::Keep(); break;
        default: break;
      }
      pairs.push_back(std::move(pair));
    }
    if (pairs.size() == 1) {
      ASSERT_TRUE(session().Put(pairs[0].key, pairs[0].value, pairs[0].expiry));
    } else {
      for (const Status& put : session().MultiPut(pairs)) ASSERT_TRUE(put);
    }
    for (const KeyValue& pair : pairs) {
      const auto known = model.find(pair.key);
      const uint64_t before =
          known == model.end() || (known->second.expires_at != 0 && known->second.expires_at < far)
              ? 0
              : known->second.expires_at;
      model[pair.key] = {pair.value, pair.expiry.Resolve([] { return uint64_t{0}; }, before)};
    }
  }
  for (auto at = model.begin(); at != model.end();) {
    const bool has_expired = at->second.expires_at != 0 && at->second.expires_at < far;
    at = has_expired ? model.erase(at) : std::next(at);
  }
  auto next = model.begin();
  const auto cursor = session().Scan({});
  while (cursor->Next()) {
    ASSERT_NE(next, model.end());
    ASSERT_EQ(cursor->key(), next->first);
    ASSERT_EQ(cursor->value(), next->second.value);
    const Result<ExpiringValue> found = session().GetWithExpiry(next->first);
    ASSERT_TRUE(found);
    EXPECT_EQ(found.value().expiry.at_ms(), next->second.expires_at);
    EXPECT_EQ(cursor->expiry(), found.value().expiry);
    ++next;
  }
  ASSERT_TRUE(cursor->status());
  EXPECT_EQ(next, model.end());
}

// Of keys put with a time to come, which is then set to one that has passed: so nothing depends on
// how long it all takes.
TEST_F(ExpiryTest, DeletesWhatHasExpired) {
  constexpr uint64_t kKeys = 5000;
  PutKeys(kKeys);
  uint64_t expired = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (i % 10 == 0) continue;
    ASSERT_TRUE(session().Touch(KeyOf(i), Expiry::At(1 + i)));
    ++expired;
  }
  const uint64_t live = LiveBytes();
  const RangeDeletion done = session().DeleteExpired({});
  ASSERT_TRUE(done.status);
  EXPECT_EQ(done.deleted, expired);
  EXPECT_EQ(session().counters().expired, expired);
  EXPECT_EQ(Keys().size(), kKeys - expired);
  EXPECT_LT(LiveBytes(), live / 2);
  EXPECT_EQ(session().DeleteExpired({}).deleted, 0u);
  EXPECT_EQ(store().Check({}).value().problem_count, 0u);
}

TEST_F(ExpiryTest, ASweeperFindsWhatHasExpired) {
  constexpr uint64_t kKeys = 5000;
  PutKeys(kKeys);
  for (uint64_t i = 0; i < kKeys; i += 2) ASSERT_TRUE(session().Touch(KeyOf(i), Expiry::At(1)));
  auto& open = static_cast<OpenStore&>(store());
  ExpirySweeper sweeper([&open] { return open.NewOpenSession(); },
                        {.look = milliseconds(20), .longest_look = milliseconds(50)}, 1);
  sweeper.Start();
  while (store().counters().expired < kKeys / 2) std::this_thread::sleep_for(milliseconds(5));
  sweeper.Stop();
  EXPECT_EQ(Keys().size(), kKeys / 2);
}

TEST_F(ExpiryTest, ALookSeesTheShareThatHasExpired) {
  std::vector<KeyValue> pairs;
  for (int i = 0; i < 20'000; ++i) {
    pairs.push_back({"key" + std::to_string(i), "value",
                     i % 4 == 0   ? Expiry::After(milliseconds(1))
                     : i % 4 == 1 ? Expiry::After(std::chrono::hours(1))
                                  : Expiry::Never()});
  }
  for (const Status& put : session().MultiPut(pairs)) ASSERT_TRUE(put);
  AwaitTime(Now() + 5);
  const auto own = static_cast<OpenStore&>(store()).NewOpenSession().value();
  Random random(7);
  const auto seen = own->scheduler().Run(ExpirySweeper::Look(own->tree(), random)).value();
  EXPECT_GT(seen.keys, 500u);
  EXPECT_GT(seen.expiring, seen.expired);
  EXPECT_GT(seen.share(), 0.1);
  EXPECT_LT(seen.share(), 0.4);
}

}  // namespace
}  // namespace gossamer
