// The rules of PROTOCOL.md, one by one: torn and damaged memory, locks left behind, stale caches, missing downlinks,
// scans over splits, many servers. Costs are counted exactly.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "common/testing/seed.h"
#include "compute/tree/testing/test_cluster.h"

namespace gossamer {
namespace {

class ProtocolTest : public testing::Test {
 protected:
  void Open(const StoreParameters& parameters, size_t servers = 1) {
    ClusterOptions options;
    options.parameters = parameters;
    options.servers = servers;
    session_.reset();  // before what it stands on
    client_.reset();
    cluster_ = std::make_unique<TestCluster>(options);
    client_ = std::make_unique<TestClient>(*cluster_);
    session_ = client_->NewSession();
  }
  // Keys 0, 10, 20, ..., in an order that splits leaves in the middle.
  void Load(uint64_t count, size_t value_bytes = 8) {
    std::vector<uint64_t> numbers(count);
    for (uint64_t i = 0; i < count; ++i) numbers[i] = 10 * i;
    std::shuffle(numbers.begin(), numbers.end(), random_);
    for (const uint64_t number : numbers) {
      const std::string value(value_bytes, static_cast<char>('a' + number % 26));
      ASSERT_TRUE(session_->Put(NumberKey(number), value));
      model_[NumberKey(number)] = value;
    }
  }
  void ExpectSame(Session& session) {
    for (const bool reverse : {false, true}) {
      ScanOptions options;
      options.reverse = reverse;
      const std::unique_ptr<ScanCursor> cursor = session.Scan(options);
      std::vector<std::pair<std::string, std::string>> found;
      while (cursor->Next()) found.emplace_back(cursor->key(), cursor->value());
      ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
      if (reverse) std::reverse(found.begin(), found.end());
      ASSERT_EQ(found,
                (std::vector<std::pair<std::string, std::string>>(model_.begin(), model_.end())));
    }
  }
  void ExpectCleanCheck() {
    const CheckReport report = cluster_->Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    EXPECT_EQ(report.keys, model_.size());
    EXPECT_EQ(report.missing_downlinks, 0u);
  }
  // What one operation of `session` costs, repairs apart.
  template <typename Operate>
  static WireCounts CostOf(Session& session, OperationClass kind, Operate&& operate) {
    const WireCounts before = session.counters().of(kind);
    operate();
    WireCounts cost = session.counters().of(kind);
    cost.round_trips -= before.round_trips;
    cost.reads -= before.reads;
    cost.writes -= before.writes;
    cost.cas -= before.cas;
    return cost;
  }
  void Flip(ServerId server, uint64_t offset) {
    std::vector<std::byte> bytes = client_->Read(server, offset, 1);
    bytes[0] ^= std::byte{0x40};
    client_->Write(server, offset, bytes);
  }

  std::mt19937_64 random_{TestSeed()};
  std::map<std::string, std::string> model_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<OpenSession> session_;
};

// ---- Reading ------------------------------------------------------------------------------------------

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
  // Some torn READs are discarded with another of the same batch; none is taken.
  EXPECT_GT(reader->counters().rereads, 200u);
  EXPECT_LE(reader->counters().rereads, plan.scrambled);
}

// Damages one byte of a unit; the key in it fails with Corruption that says where, the keys beside it do not.
TEST_F(ProtocolTest, DamageIsCorruptionWithThePlace) {  // R5
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  const LeafGeometry& geometry = client_->shared().geometry;
  const std::string key = NumberKey(2000);
  const RemotePtr leaf = client_->LeafOf(key);
  const std::string place = "offset " + std::to_string(leaf.offset());
  const std::vector<std::byte> image = client_->LeafBytes(leaf);
  const std::optional<LeafView> view = LeafView::Parse(image, leaf, geometry);
  ASSERT_TRUE(view);
  for (uint32_t unit = 0; unit <= geometry.units(); ++unit) {
    const bool is_trailer = unit == geometry.units();
    const uint64_t at = leaf.offset() + (is_trailer ? geometry.trailer_offset() + 20
                                                    : geometry.unit_offset(unit) + 60);
    Flip(leaf.server(), at);
    for (uint32_t number = 0; number < geometry.units(); ++number) {
      view->unit(number).ForEach([&](const Entry& entry) {
        const std::string k(entry.key);
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
  RemotePtr node = client_->Root().pointer();
  for (uint32_t level = client_->Root().level(); level > 1; --level) {
    node = client_->Internal(node).children[0].pointer;
  }
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
    EXPECT_NE(got.error().message.find("offset " + std::to_string(node.offset())),
              std::string::npos)
        << got.error().message;
    EXPECT_EQ(fresh->Put(key, "new").error().code, Code::kCorruption);
    if (key > NumberKey(50)) break;  // each takes some 0.1 s
  }
  Flip(node.server(), node.offset() + 100);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*fresh));
  ExpectCleanCheck();
}

// Whoever turns from the parent's lock to the parent's bytes must not wait for himself.
TEST_F(ProtocolTest, ADamagedParentStopsNoSplit) {  // R5, W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(100));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));  // with a warm cache
  RemotePtr parent = client_->Root().pointer();
  for (uint32_t level = client_->Root().level(); level > 1; --level) {
    parent = client_->Internal(parent).children[0].pointer;
  }
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
  const RemotePtr leaf = client_->LeafOf(key);
  const std::vector<std::byte> image = client_->LeafBytes(leaf);
  std::optional<BlockRef> block;
  const std::optional<LeafView> view = LeafView::Parse(image, leaf, client_->shared().geometry);
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
    EXPECT_NE(got.error().message.find("offset " + std::to_string(block->ptr().offset())),
              std::string::npos)
        << got.error().message;
  }
  // It can be replaced.
  ASSERT_TRUE(session_->Put(key, "12345678"));
  model_[key] = "12345678";
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// ---- Locks --------------------------------------------------------------------------------------------

TEST_F(ProtocolTest, ALockOfOneWhoLivesStopsWritersOnly) {  // L1, L2, L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  TestClient hasty(*cluster_, {20, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> session = hasty.NewSession();
  const std::string key = NumberKey(1000);
  const RemotePtr leaf = client_->LeafOf(key);
  const uint64_t slot = client_->LockSlot(leaf);
  const Lease lease = client_->LeaseWith(leaf.server());
  const LockWord word(lease, leaf);
  ASSERT_EQ(client_->CompareSwap(leaf.server(), slot, 0, word.word()), 0u);

  for (const Status& status :
       {session->Put(key, "new"), session->Delete(key), session->Update(key, "new"),
        session->Put(key, std::string(100, 'b'))}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kContended);
    const std::string holder = "compute server " +
                               std::to_string(static_cast<uint16_t>(lease.compute)) +
                               " (incarnation " + std::to_string(lease.incarnation) + ")";
    EXPECT_NE(status.error().message.find(holder), std::string::npos) << status.error().message;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session));
  EXPECT_EQ(session->Get(key).value(), model_[key]);
  const CheckReport report = cluster_->Check();
  EXPECT_EQ(report.locks_held, 1u);
  EXPECT_EQ(report.locks_of_the_dead, 0u);

  ASSERT_EQ(client_->CompareSwap(leaf.server(), slot, word.word(), 0), word.word());
  ASSERT_TRUE(session->Put(key, "new"));
  model_[key] = "new";
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session));
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, CheckReleasesLocksOfTheDead) {  // L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  const RemotePtr leaf = client_->LeafOf(NumberKey(100));
  const uint64_t slot = client_->LockSlot(leaf);
  LockWord left;
  {
    TestClient mortal(*cluster_);
    left = LockWord(mortal.shared().servers.Find(leaf.server())->lease, leaf);
    ASSERT_EQ(mortal.CompareSwap(leaf.server(), slot, 0, left.word()), 0u);
    EXPECT_EQ(cluster_->Check().locks_held, 1u) << "while it lives";
  }
  // Its end is noticed a moment later.
  CheckReport report = cluster_->Check();
  while (report.locks_held != 0) report = cluster_->Check();
  EXPECT_EQ(report.locks_of_the_dead, 1u);
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_EQ(client_->CompareSwap(leaf.server(), slot, 0, 0), 0u);
}

TEST_F(ProtocolTest, ALockOfTheDeadIsTakenFromThem) {  // L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  const std::string key = NumberKey(1000);
  const RemotePtr leaf = client_->LeafOf(key);
  const uint64_t slot = client_->LockSlot(leaf);
  {
    TestClient doomed(*cluster_);
    const LockWord word(doomed.LeaseWith(leaf.server()), leaf);
    ASSERT_EQ(doomed.CompareSwap(leaf.server(), slot, 0, word.word()), 0u);
  }
  for (const char* value : {"first", "second"}) {
    const Status status = session_->Put(key, value);
    ASSERT_TRUE(status) << status.error().ToString();
    model_[key] = value;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// All nodes share one lock: nobody may want a second one while holding it.
TEST_F(ProtocolTest, OneLockForTheWholeTree) {  // W5
  ClusterOptions options;
  options.parameters = {256, 8, 8};
  options.lock_table_bytes = 8;
  options.servers = 2;
  cluster_ = std::make_unique<TestCluster>(options);
  client_ = std::make_unique<TestClient>(*cluster_);
  session_ = client_->NewSession();
  std::vector<KeyValue> pairs;
  for (uint64_t i = 0; i < 1000; ++i) {
    pairs.push_back({NumberKey(10 * i), "12345678"});
    model_[pairs.back().key] = pairs.back().value;
  }
  std::shuffle(pairs.begin(), pairs.end(), random_);
  for (const Status& status : session_->MultiPut(pairs)) {
    ASSERT_TRUE(status) << status.error().ToString();
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// A turn at a lock, kept while its node is looked for anew, must not be waited for by the same operation.
TEST_F(ProtocolTest, NobodyWaitsForHisOwnTurn) {  // W5
  ClusterOptions options;
  options.parameters = {256, 8, 8};
  options.lock_table_bytes = 8;
  cluster_ = std::make_unique<TestCluster>(options);
  client_ = std::make_unique<TestClient>(*cluster_);
  session_ = client_->NewSession();
  ASSERT_NO_FATAL_FAILURE(Load(30));
  ASSERT_EQ(client_->Root().level(), 1u);
  TestClient other(*cluster_, {200, 0});
  FaultPlan plan;
  const std::unique_ptr<OpenSession> writer = other.NewSession(plan);
  const RemotePtr root = client_->Root().pointer();
  const LockWord word(client_->LeaseWith(root.server()), root);
  ASSERT_EQ(client_->CompareSwap(ServerId{0}, 0, 0, word.word()), 0u);
  std::optional<Status> put;
  const std::string key = NumberKey(100);
  const auto run = [&]() -> Task<void> { put = co_await writer->AsyncPut(key, "12345678"); };
  writer->Spawn(run());
  while (!put && plan.verbs < 8) writer->Poll();  // Root word, root, CAS and READ, again.
  ASSERT_FALSE(put);
  Flip(root.server(), root.offset() + 100);
  const auto start = std::chrono::steady_clock::now();
  while (!put && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    writer->Poll();
  }
  ASSERT_TRUE(put) << "waits for itself";
  EXPECT_EQ(put->error().code, Code::kContended);
  Flip(root.server(), root.offset() + 100);
  ASSERT_EQ(client_->CompareSwap(ServerId{0}, 0, word.word(), 0), word.word());
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// ---- Stale caches -------------------------------------------------------------------------------------

TEST_F(ProtocolTest, AGetThroughAStalePathCostsTwoRoundTripsMore) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  size_t moved = 0;
  for (uint64_t at = 500; at < 3500; at += 1000) {
    const RemotePtr old_leaf = client_->LeafOf(NumberKey(at));
    for (uint64_t i = 1; client_->LeafOf(NumberKey(at)) == old_leaf && i < 10; ++i) {
      // Below the key, so that it moves right when the leaf splits.
      for (uint64_t j = 0; j < 10; ++j) {
        const std::string key = NumberKey(at - 10 * j - i);
        model_[key] = "12345678";
        ASSERT_TRUE(session_->Put(key, "12345678"));
      }
    }
    if (client_->LeafOf(NumberKey(at)) == old_leaf) continue;
    ++moved;
    const WireCounts get =
        CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(at))); });
    EXPECT_LE(get.round_trips, 3u + 1u);  // and one where the key has overflowed
    EXPECT_EQ(get.cas + get.writes, 0u);
    const WireCounts again =
        CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(at))); });
    EXPECT_LE(again.round_trips, 2u);
  }
  EXPECT_GE(moved, 1u);
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, AWriteThroughAStalePathCostsTwoRoundTripsMore) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  size_t moved = 0;
  for (uint64_t at = 500; at < 3500; at += 1000) {
    const RemotePtr old_leaf = client_->LeafOf(NumberKey(at));
    for (uint64_t i = 1; client_->LeafOf(NumberKey(at)) == old_leaf && i < 10; ++i) {
      for (uint64_t j = 0; j < 10; ++j) {
        const std::string key = NumberKey(at - 10 * j - i);
        model_[key] = "12345678";
        ASSERT_TRUE(session_->Put(key, "12345678"));
      }
    }
    if (client_->LeafOf(NumberKey(at)) == old_leaf) continue;
    ++moved;
    // CAS + READ; READ trailer + unlock; CAS + READ; WRITE + unlock.
    const WireCounts update = CostOf(*stale, OperationClass::kUpdate, [&] {
      ASSERT_TRUE(stale->Update(NumberKey(at), "abcdefgh"));
    });
    model_[NumberKey(at)] = "abcdefgh";
    EXPECT_EQ(update.cas, 4u);
    EXPECT_LE(update.round_trips, 4u + 1u);
    const WireCounts again = CostOf(*stale, OperationClass::kUpdate,
                                    [&] { ASSERT_TRUE(stale->Update(NumberKey(at), "abcdefgh")); });
    EXPECT_EQ(again.cas, 2u);
  }
  EXPECT_GE(moved, 1u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  ExpectCleanCheck();
}

// A session that saw the store empty, and then nothing while others filled it.
TEST_F(ProtocolTest, AStaleRootCostsADescentNotAWalk) {  // R7
  for (const bool reverse : {false, true}) {
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> stale[] = {other.NewSession()};
    TestClient third(*cluster_);
    const std::unique_ptr<OpenSession> writer = third.NewSession();
    TestClient fourth(*cluster_);
    const std::unique_ptr<OpenSession> scanner = fourth.NewSession();
    for (Session* session :
         {static_cast<Session*>(stale[0].get()), static_cast<Session*>(writer.get()),
          static_cast<Session*>(scanner.get())}) {
      ASSERT_EQ(session->Get(NumberKey(5)).error().code, Code::kNotFound);
    }
    ASSERT_NO_FATAL_FAILURE(Load(3000));
    const uint32_t levels = client_->Root().level();
    ASSERT_GE(levels, 3u);
    const WireCounts get = CostOf(*stale[0], OperationClass::kRead,
                                  [&] { ASSERT_TRUE(stale[0]->Get(NumberKey(10 * 2500))); });
    EXPECT_LE(get.round_trips, 4 + levels);
    const WireCounts put = CostOf(*writer, OperationClass::kUpdate,
                                  [&] { ASSERT_TRUE(writer->Update(NumberKey(10 * 2500), "x")); });
    model_[NumberKey(10 * 2500)] = "x";
    EXPECT_LE(put.sends, 1u);  // A session registers before its first lock.
    EXPECT_LE(put.round_trips, 6 + levels + put.sends);
    ScanOptions options;
    options.from = NumberKey(10 * 2500);
    options.reverse = reverse;
    options.limit = 10;
    const WireCounts scan = CostOf(*scanner, OperationClass::kScan, [&] {
      const std::unique_ptr<ScanCursor> cursor = scanner->Scan(options);
      while (cursor->Next()) {
      }
      ASSERT_TRUE(cursor->status());
    });
    EXPECT_LE(scan.round_trips, 10 + levels);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*scanner));
  }
}

// The leaf of a cached path has split many times since.
TEST_F(ProtocolTest, APathFarBehindCostsADescentNotAWalk) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_TRUE(session_->Put(NumberKey(1), "a"));
  for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(session_->Put(NumberKey(1'000'000 + i), "b"));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  TestClient third(*cluster_);
  const std::unique_ptr<OpenSession> scanner = third.NewSession();
  for (OpenSession* session : {stale.get(), scanner.get()}) {
    const std::unique_ptr<ScanCursor> cursor = session->Scan({});
    while (cursor->Next()) {
    }
  }
  for (uint64_t i = 2; i < 3000; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), "c"));
  const uint32_t levels = client_->Root().level();
  const WireCounts get =
      CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(2500))); });
  EXPECT_LE(get.round_trips, 7 + levels);
  ScanOptions options;
  options.to = NumberKey(2501);
  options.reverse = true;
  options.limit = 5;
  std::vector<std::string> found;
  const WireCounts scan = CostOf(*scanner, OperationClass::kScan, [&] {
    const std::unique_ptr<ScanCursor> cursor = scanner->Scan(options);
    while (cursor->Next()) found.emplace_back(cursor->key());
  });
  EXPECT_LE(scan.round_trips, 12 + levels);
  ASSERT_EQ(found.size(), 5u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(found[i], NumberKey(2500 - i));
}

// A split whose client died before it told the parent: the level above is rewritten without the downlink.
TEST_F(ProtocolTest, AMissingDownlinkIsMadeByWhoeverHops) {  // W6, W4
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  RemotePtr pointer = client_->Root().pointer();
  ASSERT_GE(client_->Root().level(), 2u);
  for (uint32_t level = client_->Root().level(); level > 1; --level) {
    pointer = client_->Internal(pointer).children[0].pointer;
  }
  const InternalNode whole = client_->Internal(pointer);
  ASSERT_GE(whole.children.size(), 3u);
  InternalNode without = whole;
  without.version = Next(whole.version);
  without.children.erase(without.children.begin() + 1);
  std::vector<std::byte> image(256);
  ASSERT_TRUE(EncodeInternal(image, pointer, without));
  client_->Write(pointer.server(), pointer.offset(), image);
  EXPECT_EQ(cluster_->Check().missing_downlinks, 1u);
  EXPECT_EQ(cluster_->Check().problem_count, 0u);

  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> hopper = other.NewSession();
  const std::string key(whole.children[1].separator.view());
  const auto found = model_.lower_bound(key);
  const Result<std::string> got = hopper->Get(found->first);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(got.value(), found->second);
  const InternalNode now = client_->Internal(pointer);
  ASSERT_EQ(now.children.size(), whole.children.size());
  EXPECT_EQ(now.children[1].pointer, whole.children[1].pointer);
  EXPECT_EQ(now.children[1].separator, whole.children[1].separator);
  ExpectCleanCheck();
  const WireCounts again =
      CostOf(*hopper, OperationClass::kRead, [&] { ASSERT_TRUE(hopper->Get(found->first)); });
  EXPECT_LE(again.round_trips, 2u);
}

// A repair is for speed only: a lock left on the parent must not hold up the read that hopped.
TEST_F(ProtocolTest, AReadDoesNotWaitForTheLockOfItsRepair) {  // W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  RemotePtr pointer = client_->Root().pointer();
  for (uint32_t level = client_->Root().level(); level > 1; --level) {
    pointer = client_->Internal(pointer).children[0].pointer;
  }
  InternalNode without = client_->Internal(pointer);
  const std::string key(without.children[1].separator.view());
  without.version = Next(without.version);
  without.children.erase(without.children.begin() + 1);
  std::vector<std::byte> image(256);
  ASSERT_TRUE(EncodeInternal(image, pointer, without));
  client_->Write(pointer.server(), pointer.offset(), image);
  const LockWord word({ComputeId{77}, 1}, pointer);
  ASSERT_EQ(client_->CompareSwap(pointer.server(), client_->LockSlot(pointer), 0, word.word()), 0u);

  TestClient patient(*cluster_, {600'000, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> reader = patient.NewSession();
  const auto found = model_.lower_bound(key);
  EXPECT_EQ(reader->Get(found->first).value(), found->second);
  EXPECT_LE(reader->counters().locks.remote_retries, 10u);
}

// ---- Scans over splits --------------------------------------------------------------------------------

TEST_F(ProtocolTest, ScansSeeEachKeyOnceWhileLeavesSplit) {  // R3, R6
  for (const bool reverse : {false, true}) {
    for (uint64_t pause = 1; pause <= 60; pause += 3) {
      SCOPED_TRACE("paused at verb " + std::to_string(pause));
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
        // The scan stands between two verbs: leaves split under it.
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

// ---- Many servers -------------------------------------------------------------------------------------

TEST_F(ProtocolTest, NodesSpreadOverServers) {
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}, 3));
  ASSERT_NO_FATAL_FAILURE(Load(3000));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
  const CheckReport report = cluster_->Check();
  ASSERT_EQ(report.nodes_per_server.size(), 3u);
  const uint64_t nodes = report.leaves + report.internal_nodes;
  for (const uint64_t here : report.nodes_per_server) EXPECT_GE(here, nodes / 5);
}

// Stopped between any two verbs of splits over two servers, no leaf points to a sibling that is not there.
TEST_F(ProtocolTest, ASiblingElsewhereIsWrittenBeforeItsLeaf) {  // W1
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}, 2));
  ASSERT_NO_FATAL_FAILURE(Load(60));
  FaultPlan plan;
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> writer = other.NewSession(plan);
  const StepGuard guard(plan);
  size_t elsewhere = 0;
  for (uint64_t i = 0; i < 240; ++i) {
    const std::string key = NumberKey(10 * (i * 7 % 60) + 1 + i % 9);
    model_[key] = "12345678";
    plan.allowed_verbs = plan.verbs;
    std::optional<Status> put;
    const auto run = [&]() -> Task<void> { put = co_await writer->AsyncPut(key, "12345678"); };
    writer->Spawn(run());
    while (!put || writer->Poll() != 0) {
      ++plan.allowed_verbs;
      for (int poll = 0; poll < 8; ++poll) writer->Poll();
      // The whole chain of leaves is valid at every step.
      RemotePtr leaf = client_->LeafOf(NumberKey(0));
      while (!leaf.is_null()) {
        const std::vector<std::byte> bytes = client_->LeafBytes(leaf);
        const std::optional<LeafView> view =
            LeafView::Parse(bytes, leaf, client_->shared().geometry);
        ASSERT_TRUE(view) << "verb " << plan.verbs;
        const RemotePtr sibling = view->trailer().sibling();
        if (!sibling.is_null() && sibling.server() != leaf.server()) ++elsewhere;
        leaf = sibling;
      }
    }
    ASSERT_TRUE(*put) << put->error().ToString();
    plan.allowed_verbs = FaultPlan::kNever;
  }
  EXPECT_EQ(plan.forbidden_writes, 0u);
  EXPECT_GT(elsewhere, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

}  // namespace
}  // namespace gossamer
