// Memory runs out: the error says what to do, the tree stays valid and readable, and operations
// that need no memory succeed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

struct Shape {
  std::string name;
  StoreParameters parameters;
  size_t servers;
  size_t value_bytes;

  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }
};

class ExhaustionTest : public testing::TestWithParam<Shape> {
 protected:
  void Open(uint64_t memory_bytes) {
    ClusterOptions options;
    options.parameters = GetParam().parameters;
    options.servers = GetParam().servers;
    options.memory_bytes = memory_bytes;
    options.chunk_bytes = uint64_t{64} << 10;
    cluster_ = std::make_unique<TestCluster>(options);
    client_ = std::make_unique<TestClient>(*cluster_);
    session_ = client_->NewSession();
  }
  static constexpr uint64_t kSmallMemory = uint64_t{512} << 10;
  // Several times, if their values are in blocks.
  static uint64_t PutsThatFillMemory() {
    if (GetParam().value_bytes <= GetParam().parameters.inline_value_bytes) return 2'000;
    return std::min<uint64_t>(8 * GetParam().servers * kSmallMemory / GetParam().value_bytes,
                              20'000);
  }
  std::string Value(char c) const { return std::string(GetParam().value_bytes, c); }
  // Puts random keys until a put fails.
  Status Fill() {
    for (;;) {
      const std::string key = NumberKey(random_());
      const Status put = session_->Put(key, Value('a'));
      if (!put) {
        refused_ = key;
        return put;
      }
      model_[key] = Value('a');
    }
  }
  void ExpectSame() {
    for (const auto& [key, value] : model_) {
      const Result<std::string> got = session_->Get(key);
      ASSERT_TRUE(got) << got.error().ToString();
      ASSERT_EQ(got.value(), value);
    }
    EXPECT_EQ(session_->Get(refused_).error().code, Code::kNotFound);
    const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
    for (const auto& [key, value] : model_) {
      ASSERT_TRUE(cursor->Next());
      ASSERT_EQ(cursor->key(), key);
      ASSERT_EQ(cursor->value(), value);
    }
    EXPECT_FALSE(cursor->Next());
    const CheckReport report = cluster_->Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    EXPECT_EQ(report.keys, model_.size());
  }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::string refused_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<OpenSession> session_;
};

TEST_P(ExhaustionTest, AFullStoreStaysWholeAndUsable) {
  ASSERT_NO_FATAL_FAILURE(Open(uint64_t{512} << 10));
  const Status put = Fill();
  EXPECT_EQ(put.error().code, Code::kExhausted);
  EXPECT_NE(put.error().message.find("delete keys, start another memory server"), std::string::npos)
      << put.error().message;
  ASSERT_NO_FATAL_FAILURE(ExpectSame());

  // Existing keys can be overwritten, unless the value needs a block: no block is left for it. More
  // than one block gets free: one that lies across the border of two chunks comes back in two
  // parts.
  const bool has_blocks = GetParam().value_bytes > GetParam().parameters.inline_value_bytes;
  size_t overwritten = 0;
  for (auto& [key, value] : model_) {
    const size_t in_leaf = std::min<size_t>(GetParam().parameters.inline_value_bytes, 1);
    const std::string fresh = has_blocks ? std::string(in_leaf, 'b') : Value('b');
    const Status over = session_->Put(key, fresh);
    ASSERT_TRUE(over) << over.error().ToString();
    value = fresh;
    if (has_blocks && ++overwritten >= 3 && random_() % 4 == 0) break;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame());

  // A delete makes room in its leaf, and frees its block.
  size_t replaced = 0;
  while (replaced < 20) {
    const auto victim = model_.begin();
    std::string neighbour = victim->first;
    neighbour.back() = static_cast<char>(neighbour.back() ^ 1);
    const std::string gone = victim->first;
    ASSERT_TRUE(session_->Delete(gone));
    model_.erase(gone);
    const Status again = session_->Put(gone, Value('c'));
    ASSERT_TRUE(again) << again.error().ToString();
    model_[gone] = Value('c');
    ++replaced;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
}

// Endless overwriting takes no more memory than the blocks in their grace period. Large blocks fill
// the memory soon, and each time the session waits.
TEST_P(ExhaustionTest, OverwritesGiveBlocksBack) {
  ASSERT_NO_FATAL_FAILURE(Open(kSmallMemory));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), Value('a')));
  for (uint64_t i = 0; i < PutsThatFillMemory(); ++i) {
    const std::string key = NumberKey(i % 20);
    const Status put = session_->Put(key, Value(static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(put) << i << ": " << put.error().ToString();
    model_[key] = Value(static_cast<char>('a' + i % 26));
  }
  refused_ = NumberKey(99);
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
}

// Also those of batches: of few and of many writes of a leaf, and of equal keys, of which the last
// one alone is stored.
TEST_P(ExhaustionTest, OverwritesOfBatchesGiveBlocksBack) {
  ASSERT_NO_FATAL_FAILURE(Open(kSmallMemory));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), Value('a')));
  for (uint64_t i = 0; i < PutsThatFillMemory();) {
    std::vector<KeyValue> pairs;
    for (size_t left = 2 + random_() % 11; left != 0; --left, ++i) {
      pairs.push_back({NumberKey(random_() % 20), Value(static_cast<char>('a' + i % 26))});
      model_[pairs.back().key] = pairs.back().value;
    }
    for (const Status& put : session_->MultiPut(pairs)) {
      ASSERT_TRUE(put) << i << ": " << put.error().ToString();
    }
  }
  refused_ = NumberKey(99);
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ExhaustionTest,
    testing::Values(Shape{"SmallNodes", {256, 8, 8}, 1, 8}, Shape{"Default", {1024, 32, 16}, 1, 16},
                    Shape{"LargeNodes", {4096, 32, 0}, 1, 0}, Shape{"Blocks", {1024, 8, 8}, 1, 300},
                    Shape{"SmallBlocks", {1024, 8, 0}, 1, 20},
                    Shape{"LargeBlocks", {1024, 8, 8}, 1, 5000},
                    Shape{"Servers", {256, 8, 8}, 3, 8},
                    Shape{"BlocksOnServers", {1024, 8, 8}, 2, 300}),
    [](const testing::TestParamInfo<Shape>& shape) { return shape.param.name; });

// A value too large for any server must not make nodes seem exhausted.
TEST(BlockTest, AValueTooLargeForWhatIsLeftStopsNothingElse) {
  ClusterOptions options;
  options.memory_bytes = uint64_t{512} << 10;
  options.chunk_bytes = uint64_t{64} << 10;
  TestCluster cluster(options);
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  const Status huge = session->Put("huge", std::string(kMaxValueBytes, 'h'));
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::kExhausted);
  for (uint64_t i = 0; i < 500; ++i) {
    const Status put = session->Put(NumberKey(i), "12345678");
    ASSERT_TRUE(put) << put.error().ToString();
  }
  for (uint64_t i = 0; i < 10; ++i) {
    const Status put = session->Put(NumberKey(i), std::string(200, 'v'));
    ASSERT_TRUE(put) << put.error().ToString();
  }
}

// The WRITE of a block ends as unknown and lands late. The memory must not have been given out
// again (E3, U1).
TEST(BlockTest, ABlockWhoseWriteIsUnknownIsNotUsedAgain) {
  ClusterOptions options;
  options.memory_bytes = uint64_t{128} << 10;
  options.chunk_bytes = uint64_t{16} << 10;
  TestCluster cluster(options);
  TestClient client(cluster, {20, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> healthy = client.NewSession();
  const std::string value(1000, 'v');
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(healthy->Put(NumberKey(i), "12345678"));
  for (uint64_t verb = 1; verb <= 4; ++verb) {
    FaultPlan plan;
    plan.break_at = verb;
    {
      const std::unique_ptr<OpenSession> session = client.NewSession(plan);
      // Above all other keys, so that the leaf's lock does not stay behind.
      const Status put = session->Put("other", std::string(1000, 'w'));
      ASSERT_FALSE(put);
    }
    // Takes every block, so that freed blocks are taken at once.
    uint64_t count = 0;
    while (count < 150 && healthy->Put(NumberKey(count), value)) ++count;
    ASSERT_GE(count, 50u);
    for (uint64_t i = 0; i < 150 && count < 150; ++i) {
      // All blocks are taken; each of these puts takes one just freed.
      ASSERT_TRUE(healthy->Put(NumberKey(i % count), "12345678"));
      ASSERT_TRUE(healthy->Put(NumberKey(i % count), value));
    }
    for (const FaultPlan::LateWrite& late : plan.late_writes) {
      client.Write(late.server, late.offset, late.bytes);
    }
    for (uint64_t i = 0; i < count; ++i) {
      const Result<std::string> got = healthy->Get(NumberKey(i));
      ASSERT_TRUE(got) << "verb " << verb << ": " << got.error().ToString();
      ASSERT_EQ(got.value(), value);
    }
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(healthy->Put(NumberKey(i), "12345678"));
  }
}

// A client gives back what it keeps when it renews its lease, a second after others were refused.
// Their writes wait for that.
TEST(SharedMemoryTest, WhatAnIdleClientKeepsServesOthers) {
  ClusterOptions options;
  options.parameters = {1024, 8, 8};
  options.memory_bytes = uint64_t{4} << 20;
  TestCluster cluster(options);
  const std::string value(100, 'a');
  const std::unique_ptr<Store> idle = cluster.OpenStore();
  const std::unique_ptr<Session> hoarder = std::move(idle->NewSession().value());
  uint64_t keys = 0;
  while (hoarder->Put(NumberKey(keys), value)) ++keys;
  ASSERT_GT(keys, 1000u);
  for (uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(hoarder->Delete(NumberKey(i)));

  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = std::move(store->NewSession().value());
  for (uint64_t i = 0; i < keys * 3 / 4; ++i) {
    const Status put = session->Put(NumberKey(i), value);
    ASSERT_TRUE(put) << i << ": " << put.error().ToString();
  }
}

}  // namespace
}  // namespace gossamer
