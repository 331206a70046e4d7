// Exact costs on the wire, rung by rung of the ladder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/seed.h"
#include "compute/research/sherman/testing/sim_cluster.h"

namespace gossamer::sherman {
namespace {

constexpr uint64_t kKeys = 2'000;
constexpr uint64_t kLock = 1;  // bytes of a released lock
constexpr uint64_t kEntry = 18;

Design Rung(std::string_view name) { return *FindDesign(name); }

// One memory server and a client thread, with a tree of three levels and a warm cache.
class Fixture {
 public:
  explicit Fixture(const Design& design, uint32_t memory_servers = 1)
      : cluster(TestSeed(), memory_servers, design),
        store(cluster.AddStore()),
        session(cluster.AddSession(store)) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      EXPECT_TRUE(session.Put(KeyOf(i * 2), ValueOf(i))) << i;
    }
    const auto cursor = session.Scan({});
    while (cursor->Next()) {
    }
    EXPECT_TRUE(cursor->status());
  }

  // What `operation` adds to the class.
  template <typename Operation>
  WireCounts Cost(OperationClass kind, Operation operation) {
    const Counters before = session.counters();
    operation();
    return Since(before, session.counters()).of(kind);
  }

  SimCluster cluster;
  ShermanStore& store;
  ShermanSession& session;
};

struct Write {
  uint64_t round_trips;
  uint64_t bytes_written;
};

void ExpectWrite(const WireCounts& cost, const Write& expected) {
  EXPECT_EQ(cost.operations, 1u);
  EXPECT_EQ(cost.round_trips, expected.round_trips);
  EXPECT_EQ(cost.atomics, 1u);
  EXPECT_EQ(cost.reads, 1u);
  EXPECT_EQ(cost.bytes_read, kNodeBytes);
  EXPECT_EQ(cost.writes, 2u);
  EXPECT_EQ(cost.bytes_written, expected.bytes_written);
}

TEST(ShermanCostTest, WritesWithoutASplit) {
  struct Case {
    const char* design;
    Write cost;
  };
  for (const Case& one : {
           Case{"naive", {4, kNodeBytes + kLock}},         // CAS, READ, WRITE, release
           Case{"combined", {3, kNodeBytes + kLock}},      // CAS, READ, WRITE and release
           Case{"on_chip", {3, kNodeBytes + kLock}},       // likewise
           Case{"hierarchical", {3, kNodeBytes + kLock}},  // likewise, alone
           Case{"sherman", {3, kEntry + kLock}},
       }) {
    SCOPED_TRACE(one.design);
    Fixture f(Rung(one.design));
    ExpectWrite(f.Cost(OperationClass::kUpdate,
                       [&f] { EXPECT_TRUE(f.session.Update(KeyOf(600), ValueOf(7))); }),
                one.cost);
    ExpectWrite(
        f.Cost(OperationClass::kDelete, [&f] { EXPECT_TRUE(f.session.Delete(KeyOf(602))); }),
        one.cost);
    ExpectWrite(f.Cost(OperationClass::kInsert,
                       [&f] { EXPECT_TRUE(f.session.Insert(KeyOf(602), ValueOf(8))); }),
                one.cost);
    EXPECT_EQ(f.session.Get(KeyOf(600)).value(), ValueOf(7));
    EXPECT_EQ(f.session.Get(KeyOf(602)).value(), ValueOf(8));
  }
}

TEST(ShermanCostTest, ALockMayBeReleasedByACas) {
  Design design = Rung("combined");
  design.release_by_write = false;
  Fixture f(design);
  const WireCounts cost = f.Cost(OperationClass::kUpdate, [&f] {
    EXPECT_TRUE(f.session.Update(KeyOf(600), ValueOf(7)));
    EXPECT_TRUE(f.session.Update(KeyOf(600), ValueOf(8))) << "the lock is free again";
  });
  EXPECT_EQ(cost.round_trips, 2 * 3u);
  EXPECT_EQ(cost.atomics, 2 * 2u);
  EXPECT_EQ(cost.writes, 2u);
  EXPECT_EQ(cost.bytes_written, 2 * kNodeBytes);
}

TEST(ShermanCostTest, AGetIsOneReadOfTheLeaf) {
  for (const NamedDesign& one : kLadder) {
    Fixture f(one.design);
    const WireCounts cost =
        f.Cost(OperationClass::kRead, [&f] { EXPECT_TRUE(f.session.Get(KeyOf(1000))); });
    EXPECT_EQ(cost.round_trips, 1u);
    EXPECT_EQ(cost.reads, 1u);
    EXPECT_EQ(cost.bytes_read, kNodeBytes);
    EXPECT_EQ(cost.writes + cost.atomics, 0u);
  }
}

TEST(ShermanCostTest, AColdCacheReadsTheRootTheParentAndTheLeaf) {
  Fixture f(Design{});
  ShermanSession& cold = f.cluster.AddSession(f.cluster.AddStore());
  EXPECT_TRUE(cold.Get(KeyOf(1000)));
  EXPECT_EQ(cold.counters().of(OperationClass::kRead).round_trips, 3u);
  EXPECT_EQ(cold.counters().cache.misses, 1u);
  EXPECT_TRUE(cold.Get(KeyOf(1000)));
  EXPECT_EQ(cold.counters().of(OperationClass::kRead).round_trips, 4u);
  EXPECT_EQ(cold.counters().cache.hits, 1u);
}

// A write that finds nothing to do only releases the lock.
TEST(ShermanCostTest, AnUpdateOfAnAbsentKeyWritesNothing) {
  Fixture f(Design{});
  const WireCounts cost = f.Cost(OperationClass::kInsert, [&f] {
    EXPECT_EQ(f.session.Update(KeyOf(601), ValueOf(1)).error().code, Code::kNotFound);
  });
  EXPECT_EQ(cost.round_trips, 3u);
  EXPECT_EQ(cost.bytes_written, kLock);
}

constexpr uint64_t kWriters = 6;

// What so many coroutines count that update one key at a time.
Counters CountedByWriters(Fixture& f) {
  const Counters before = f.session.counters();
  for (uint64_t i = 0; i < kWriters; ++i) {
    f.session.Spawn([](ShermanSession& session, uint64_t value) -> Task<void> {
      const std::string key = KeyOf(600);
      const std::string bytes = ValueOf(value);
      EXPECT_TRUE(co_await session.AsyncUpdate(key, bytes));
    }(f.session, i));
  }
  f.cluster.Run();
  return Since(before, f.session.counters());
}

// The first takes the remote lock, four get it handed over, and the sixth takes it again.
TEST(ShermanCostTest, ALockIsHandedOverFourTimesInARow) {
  Fixture f(Design{});
  const Counters counted = CountedByWriters(f);
  const WireCounts& cost = counted.of(OperationClass::kUpdate);
  EXPECT_EQ(counted.locks.acquired, 2u);
  EXPECT_EQ(counted.locks.handed_over, LocalLocks::kMostHandovers);
  EXPECT_EQ(counted.locks.remote_retries, 0u);
  EXPECT_EQ(cost.atomics, 2u);
  // CAS for the first and the last; READ and WRITE for each.
  EXPECT_EQ(cost.round_trips, 2 + 2 * kWriters);
  EXPECT_EQ(cost.writes, kWriters + 2) << "released by the fifth and by the last";
  EXPECT_EQ(cost.bytes_written, kWriters * kEntry + 2 * kLock);
  EXPECT_EQ(f.session.Get(KeyOf(600)).value(), ValueOf(kWriters - 1)) << "first come, first served";
}

// Without local locks each of them takes the remote lock, and tries in vain meanwhile.
TEST(ShermanCostTest, WithoutLocalLocksTheThreadsOfAServerSpin) {
  Fixture f(Rung("on_chip"));
  const Counters counted = CountedByWriters(f);
  EXPECT_EQ(counted.locks.acquired, kWriters);
  EXPECT_EQ(counted.locks.handed_over, 0u);
  EXPECT_GT(counted.locks.remote_retries, 0u);
  EXPECT_EQ(counted.of(OperationClass::kUpdate).atomics, kWriters + counted.locks.remote_retries);
}

// Puts keys behind the last one until a leaf splits. Returns what that put cost.
WireCounts CostOfSplit(Fixture& f, uint64_t& next) {
  for (;; ++next) {
    const uint64_t key = kKeys * 2 + next;
    const WireCounts cost = f.Cost(OperationClass::kInsertSplit, [&f, key] {
      EXPECT_TRUE(f.session.Put(KeyOf(key), ValueOf(key)));
    });
    if (cost.operations != 0) return cost;
  }
}

TEST(ShermanCostTest, ASiblingOnTheSameServerJoinsTheBatch) {
  struct Case {
    const char* design;
    uint64_t round_trips;
  };
  for (const Case& one : {
           Case{"naive", 9},    // CAS, READ, 2 WRITEs, release; parent: CAS, READ, WRITE, release
           Case{"combined", 6}  // CAS, READ, 2 WRITEs and release; parent: CAS, READ, WRITE and it
       }) {
    SCOPED_TRACE(one.design);
    Fixture f(Rung(one.design));
    uint64_t next = 0;
    const WireCounts cost = CostOfSplit(f, next);
    EXPECT_EQ(cost.round_trips, one.round_trips);
    EXPECT_EQ(cost.atomics, 2u);
    EXPECT_EQ(cost.bytes_read, 2 * kNodeBytes);
    EXPECT_EQ(cost.bytes_written, 3 * kNodeBytes + 2 * kLock);
  }
}

// New nodes are made on all servers in turn, and siblings of ascending keys are split next: each is
// on the other server.
TEST(ShermanCostTest, ASiblingOnAnotherServerIsWrittenBefore) {
  Fixture f(Rung("sherman"), 2);
  uint64_t next = 0;
  const WireCounts cost = CostOfSplit(f, next);
  EXPECT_EQ(cost.round_trips, 7u);
  EXPECT_EQ(cost.bytes_written, 3 * kNodeBytes + 2 * kLock);
}

TEST(ShermanCostTest, AScanReadsItsLeavesSideBySide) {
  Fixture f(Design{});
  uint64_t keys = 0;
  const WireCounts cost = f.Cost(OperationClass::kScan, [&f, &keys] {
    ScanOptions options;
    options.from = KeyOf(100);
    options.limit = 100;
    const auto cursor = f.session.Scan(options);
    for (uint64_t expected = 100; cursor->Next(); expected += 2, ++keys) {
      ASSERT_EQ(cursor->key(), KeyOf(expected));
      ASSERT_EQ(cursor->value(), ValueOf(expected / 2));
    }
    EXPECT_TRUE(cursor->status());
  });
  EXPECT_EQ(keys, 100u);
  EXPECT_EQ(cost.operations, 1u);
  // Ascending inserts leave 27 keys in each leaf: 3 leaves at first, and 2 for the rest.
  EXPECT_EQ(cost.round_trips, 2u);
  EXPECT_EQ(cost.bytes_read, 5 * kNodeBytes);
}

}  // namespace
}  // namespace gossamer::sherman
