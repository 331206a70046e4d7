// The rules of PROTOCOL.md about reads: torn and damaged memory, and scans while leaves split.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "compute/store/testing/protocol_fixture.h"

namespace gossamer {
namespace {

TEST_F(ProtocolTest, TornReadsAreReadAgain) {  // R1, R2
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(500));
  for (uint64_t i = 0; i < 500; i += 7) {
    model_[NumberKey(10 * i)] = std::string(200, 'x');
    ASSERT_TRUE(session_->Put(NumberKey(10 * i), model_[NumberKey(10 * i)]));
  }
  TestClient other(*cluster_);
  FaultPlan plan;
  plan.random.seed(TestSeed());
  plan.scramble = 0.3;
  const std::unique_ptr<OpenSession> reader = other.NewSession(plan);
  for (const auto& [key, value] : model_) {
    const Result<std::string> got = reader->Get(key);
    ASSERT_TRUE(got) << got.error().ToString();
    ASSERT_EQ(got.value(), value);
    ASSERT_EQ(reader->Get(key + "x").error().code, Code::kInvalidArgument);
  }
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_EQ(reader->Get(NumberKey(10 * i + 5)).error().code, Code::kNotFound);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*reader));
  EXPECT_GT(plan.scrambled, 300u);
  // Some torn READs are discarded with another one of the same batch. None is accepted.
  EXPECT_GT(reader->counters().rereads, 200u);
  EXPECT_LE(reader->counters().rereads, plan.scrambled);
}

// Damages one byte of a unit. Its key fails with Corruption and the location; other keys do not
// fail.
TEST_F(ProtocolTest, DamageIsCorruptionWithThePlace) {  // R5
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  const LeafGeometry& geometry = client_->shared().geometry;
  const std::string key = NumberKey(2000);
  const auto [leaf, low] = client_->FindLeaf(key);
  const std::string place = fmt::format("offset {}", leaf.offset());
  const std::vector<std::byte> image = client_->LeafBytes(leaf);
  const std::optional<LeafView> view = LeafView::Parse(image, leaf, geometry, low);
  ASSERT_TRUE(view);
  for (uint32_t unit = 0; unit <= geometry.units(); ++unit) {
    const bool is_trailer = unit == geometry.units();
    const uint64_t at = leaf.offset() + (is_trailer ? geometry.trailer_offset() + 20
                                                    : geometry.unit_offset(unit) + 60);
    Flip(leaf.server(), at);
    for (uint32_t number = 0; number < geometry.units(); ++number) {
      view->unit(number).ForEach([&](const Entry& entry) {
        const std::string k = std::string(view->prefix()) + std::string(entry.key);
        const Result<std::string> got = session_->Get(k);
        const bool reads_damage = number == unit || (number == geometry.overflow_unit() &&
                                                     geometry.GroupOf(KeyHash(k)) == unit);
        if (got) {
          EXPECT_FALSE(reads_damage);
          EXPECT_EQ(got.value(), model_[k]);
        } else {
          EXPECT_TRUE(reads_damage) << got.error().ToString();
          EXPECT_EQ(got.error().code, Code::kCorruption);
          EXPECT_NE(got.error().message.find(place), std::string::npos) << got.error().message;
        }
        if (number == unit && !is_trailer) {
          const Status put = session_->Put(k, "new");
          EXPECT_EQ(put.error().code, Code::kCorruption);
        }
      });
    }
    const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
    size_t before = 0;
    while (cursor->Next()) ++before;
    ASSERT_FALSE(cursor->status());
    EXPECT_EQ(cursor->status().error().code, Code::kCorruption);
    EXPECT_NE(cursor->status().error().message.find(place), std::string::npos);
    EXPECT_GT(before, 0u);
    EXPECT_LT(before, model_.size());
    EXPECT_TRUE(session_->Get(NumberKey(0)));
    const CheckReport report = cluster_->Check();
    EXPECT_NE(report.problem_count, 0u);
    EXPECT_EQ(report.locks_held, 0u);
    Flip(leaf.server(), at);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, ADamagedInternalNodeIsCorruptionWithThePlace) {  // R5
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(600));
  const RemotePtr node = LeftmostAt(1);
  const InternalNode damaged = client_->Internal(node);
  ASSERT_FALSE(damaged.high.infinite);
  Flip(node.server(), node.offset() + 100);
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> fresh = other.NewSession();
  for (const auto& [key, value] : model_) {
    const Result<std::string> got = fresh->Get(key);
    if (!damaged.high.Admits(key)) {
      ASSERT_TRUE(got) << got.error().ToString();
      ASSERT_EQ(got.value(), value);
      continue;
    }
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::kCorruption);
    EXPECT_NE(got.error().message.find(fmt::format("offset {}", node.offset())), std::string::npos)
        << got.error().message;
    EXPECT_EQ(fresh->Put(key, "new").error().code, Code::kCorruption);
    if (key > NumberKey(50)) break;  // each takes about 0.1 s
  }
  Flip(node.server(), node.offset() + 100);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*fresh));
  ExpectCleanCheck();
}

// An operation that goes from the parent's lock to the parent's bytes must not wait for itself.
TEST_F(ProtocolTest, ADamagedParentStopsNoSplit) {  // R5, W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(100));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));  // with a warm cache
  const RemotePtr parent = LeftmostAt(1);
  Flip(parent.server(), parent.offset() + 100);
  for (uint64_t i = 1; i < 10; ++i) {
    const std::string key = NumberKey(20 + i);
    const Status put = session_->Put(key, "12345678");
    if (put) {
      model_[key] = "12345678";
    } else {
      EXPECT_EQ(put.error().code, Code::kCorruption) << put.error().ToString();
    }
  }
  Flip(parent.server(), parent.offset() + 100);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  EXPECT_EQ(cluster_->Check().problem_count, 0u);
}

TEST_F(ProtocolTest, ADamagedValueBlockIsCorruptionWithThePlace) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(20, 300));
  const std::string key = NumberKey(50);
  const auto [leaf, low] = client_->FindLeaf(key);
  const std::vector<std::byte> image = client_->LeafBytes(leaf);
  std::optional<BlockRef> block;
  const std::optional<LeafView> view =
      LeafView::Parse(image, leaf, client_->shared().geometry, low);
  for (uint32_t unit = 0; unit < view->unit_count(); ++unit) {
    const std::optional<Entry> entry = view->unit(unit).Find(key);
    if (entry) block = entry->block();
  }
  ASSERT_TRUE(block);
  Flip(block->ptr().server(), block->ptr().offset() + 100);
  for (const auto& [k, value] : model_) {
    const Result<std::string> got = session_->Get(k);
    ASSERT_EQ(got.has_value(), k != key);
    if (got) continue;
    EXPECT_EQ(got.error().code, Code::kCorruption);
    EXPECT_NE(got.error().message.find(fmt::format("offset {}", block->ptr().offset())),
              std::string::npos)
        << got.error().message;
  }
  // The value can be replaced.
  ASSERT_TRUE(session_->Put(key, "12345678"));
  model_[key] = "12345678";
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, ScansSeeEachKeyOnceWhileLeavesSplit) {  // R3, R6
  for (const bool reverse : {false, true}) {
    for (uint64_t pause = 1; pause <= 60; pause += 3) {
      SCOPED_TRACE(fmt::format("paused at verb {}", pause));
      model_.clear();
      ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
      ASSERT_NO_FATAL_FAILURE(Load(120));
      TestClient other(*cluster_);
      FaultPlan plan;
      const std::unique_ptr<OpenSession> scanner = other.NewSession(plan);
      const StepGuard guard(plan);
      ASSERT_TRUE(scanner->Get(NumberKey(300)));
      plan.allowed_verbs = plan.verbs + pause;
      plan.tear = 0.5;
      plan.random.seed(TestSeed() + pause);
      std::vector<std::string> found;
      bool ended = false;
      Status status = Ok();
      const auto scan = [&]() -> Task<void> {
        ScanOptions options;
        options.reverse = reverse;
        const std::unique_ptr<ScanCursor> cursor = scanner->Scan(options);
        while (co_await cursor->AsyncNext()) found.emplace_back(cursor->key());
        status = cursor->status();
        ended = true;
      };
      scanner->Spawn(scan());
      uint64_t fresh = 0;
      while (!ended) {
        for (int i = 0; i < 100; ++i) scanner->Poll();
        if (ended) break;
        // The scan is between two verbs: leaves split under it.
        for (uint64_t i = 0; i < 24; ++i, ++fresh) {
          ASSERT_TRUE(session_->Put(NumberKey(10 * (7 * fresh % 120) + 1 + fresh % 8), "12345678"));
        }
        plan.allowed_verbs += pause;
        if (fresh > 900) plan.allowed_verbs = FaultPlan::kNever;
      }
      plan.allowed_verbs = FaultPlan::kNever;  // for a repair that the scan may have left
      scanner->WaitAll();
      ASSERT_TRUE(status) << status.error().ToString();
      std::vector<std::string> in_order = found;
      std::sort(in_order.begin(), in_order.end());
      ASSERT_EQ(std::adjacent_find(in_order.begin(), in_order.end()), in_order.end());
      if (reverse) std::reverse(in_order.begin(), in_order.end());
      ASSERT_EQ(found, in_order);
      std::sort(in_order.begin(), in_order.end());
      for (const auto& [key, value] : model_) {
        ASSERT_TRUE(std::binary_search(in_order.begin(), in_order.end(), key));
      }
    }
  }
}

}  // namespace
}  // namespace gossamer
