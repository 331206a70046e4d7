// Exact cost of gets, writes and scans on every fabric: round trips, verbs and bytes.
#include <algorithm>
#include <set>

#include "compute/store/testing/cost_fixture.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

class CostTest : public CostFixture, public testing::WithParamInterface<TestFabric> {
 protected:
  CostTest() : CostFixture(GetParam()) {}

  // An operation that reads so many units and writes one.
  static WireCounts CostOfWrite(uint64_t units_read) {
    return {.operations = 1,
            .round_trips = 2,
            .reads = units_read,
            .writes = 1,
            .atomics = 2,
            .bytes_read = units_read * kUnitBytes,
            .bytes_written = kUnitBytes};
  }
  // Deletes a key. Returns whether its home group has never overflowed and has room now. That is so
  // if the key was in its home group and its absence is known without reading the overflow group.
  bool DeleteFromHomeThatNeverOverflowed(const std::string& key) {
    const WireCounts erase =
        CostOf(OperationClass::kDelete, [&] { EXPECT_TRUE(session_->Delete(key)); });
    const WireCounts get = CostOf(OperationClass::kRead, [&] { EXPECT_FALSE(session_->Get(key)); });
    return erase.reads == 1 && get.reads == 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, CostTest, testing::ValuesIn(TestFabrics()), NameOfFabric);

TEST_P(CostTest, GetReadsOneGroupInOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  size_t one_group = 0;
  for (const std::string& key : keys_) {
    const WireCounts cost = CostOfGet(*session_, key);
    // The overflow group is read along if a hint says that the key may be there.
    ASSERT_LE(cost.reads, 2u);
    ASSERT_EQ(Text(cost), Text({.operations = 1,
                                .round_trips = 1,
                                .reads = cost.reads,
                                .bytes_read = cost.reads * kUnitBytes}));
    one_group += cost.reads == 1 ? 1 : 0;
  }
  EXPECT_GE(one_group * 100, keys_.size() * 85);
}

TEST_P(CostTest, AGetOfManyKeysReadsAGroupForEachInOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  constexpr size_t kAtOnce = 64;
  Values values;
  for (size_t first = 0; first + kAtOnce <= keys_.size(); first += kAtOnce) {
    const std::vector<std::string_view> keys(
        keys_.begin() + static_cast<ptrdiff_t>(first),
        keys_.begin() + static_cast<ptrdiff_t>(first + kAtOnce));
    const WireCounts cost =
        CostOf(OperationClass::kRead, [&] { session_->MultiGet(keys, values); });
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_TRUE(values[i]);
    ASSERT_GE(cost.reads, kAtOnce);
    ASSERT_LE(cost.reads * 100, kAtOnce * 160);
    ASSERT_EQ(Text(cost), Text({.operations = kAtOnce,
                                .round_trips = 1,
                                .reads = cost.reads,
                                .bytes_read = cost.reads * kUnitBytes}));
  }
}

// A hot key of many clients, say.
TEST_P(CostTest, EqualNeighboursOfAGetOfManyKeysAreReadOnce) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  std::vector<std::string_view> keys(40, keys_[1]);
  keys.insert(keys.end(), 24, keys_[2]);
  Values values;
  session_->MultiGet(keys, values);  // learns the hints
  const WireCounts cost = CostOf(OperationClass::kRead, [&] { session_->MultiGet(keys, values); });
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(values[i].value(), session_->Get(keys[i]).value());
  }
  EXPECT_LE(cost.reads, 2 * 2u);
  EXPECT_EQ(Text(cost), Text({.operations = 64,
                              .round_trips = 1,
                              .reads = cost.reads,
                              .bytes_read = cost.reads * kUnitBytes}));
}

// A client that only writes finds out, too, which keys are in overflow groups.
TEST_P(CostTest, AnotherSessionLearnsTheHintsAsItWrites) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  const std::unique_ptr<Store> other = OpenAnother();
  const std::unique_ptr<Session> session = other->NewSession().value();
  const auto update_all = [&] {
    return CostOf(*session, OperationClass::kUpdate, [&] {
      for (const std::string& key : keys_) ASSERT_TRUE(session->Update(key, "abcdefgh"));
    });
  };
  update_all();
  EXPECT_EQ(update_all().round_trips, 2 * keys_.size());
  // In batches: of keys of many leaves, and of a few of each leaf.
  std::vector<std::string> sorted = keys_;
  std::ranges::sort(sorted);
  constexpr size_t kStep = 12;
  std::vector<std::string> neighbours;
  for (size_t first = 0; first < kStep; ++first) {
    for (size_t i = first; i < sorted.size(); i += kStep) neighbours.push_back(sorted[i]);
  }
  // Two leaves of a batch that share a lock take turns: few do, and more where a leaf has several
  // keys of a batch. Such a leaf is learned in several batches.
  struct Case {
    const std::vector<std::string>& keys;
    int rounds_to_learn;
    uint64_t most_percent;  // of the round trips without turns
  };
  for (const auto& [keys, rounds_to_learn, most_percent] :
       {Case{keys_, 1, 115}, Case{neighbours, 2, 140}}) {
    const std::unique_ptr<Store> third = OpenAnother();
    const std::unique_ptr<Session> batches = third->NewSession().value();
    constexpr size_t kAtOnce = 32;
    std::vector<KeyValueView> pairs;
    for (const std::string& key : keys) pairs.push_back({key, "abcdefgh"});
    const auto put_all = [&] {
      return CostOf(*batches, OperationClass::kUpdate, [&] {
        std::vector<Status> results(kAtOnce, Ok());
        for (size_t i = 0; i + kAtOnce <= pairs.size(); i += kAtOnce) {
          batches->MultiPut(std::span(pairs).subspan(i, kAtOnce), results);
        }
      });
    };
    for (int round = 0; round < rounds_to_learn; ++round) put_all();
    const WireCounts cost = put_all();
    EXPECT_LE(cost.round_trips, 2 * (pairs.size() / kAtOnce) * most_percent / 100);
  }
}

// The first get of a client, too, which descends: the root is read with its overflow group, for
// there is no hint.
TEST_P(CostTest, TheFirstGetOfATreeOfOneLeafReadsItsOverflowGroup) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 36; ++i) {
    keys.push_back(EightBytes(i * 7919));
    ASSERT_TRUE(session_->Put(keys.back(), "abcdefgh"));
  }
  for (const std::string& key : keys) {
    const std::unique_ptr<Store> other = OpenAnother();
    const std::unique_ptr<Session> session = other->NewSession().value();
    const WireCounts cost =
        CostOf(*session, OperationClass::kRead, [&] { ASSERT_TRUE(session->Get(key)); });
    ASSERT_EQ(cost.reads, 2u);
  }
}

// The root word leads to the leaf: there is no parent to be cached.
TEST_P(CostTest, ATreeOfOneLeafCostsNoMore) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  const std::vector<KeyValueView> pairs = {{"one", "1"}, {"three", "3"}, {"two", "2"}};
  std::vector<Status> results(pairs.size(), Ok());
  session_->MultiPut(pairs, results);
  const WireCounts put =
      CostOf(OperationClass::kUpdate, [&] { session_->MultiPut(pairs, results); });
  EXPECT_EQ(put.operations, 3u);
  EXPECT_EQ(put.round_trips, 2u);
  EXPECT_EQ(put.atomics, 2u);
  const std::vector<std::string_view> keys = {"one", "two", "three", "four"};
  Values values;
  const WireCounts get = CostOf(OperationClass::kRead, [&] { session_->MultiGet(keys, values); });
  EXPECT_EQ(values[1].value(), "2");
  EXPECT_FALSE(values[3]);
  EXPECT_EQ(Text(get), Text({.operations = 4,
                             .round_trips = 1,
                             .reads = 8,  // home and overflow group of each
                             .bytes_read = 8 * kUnitBytes}));
}

TEST_P(CostTest, GetsOfManyCoroutinesGoOutTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  constexpr size_t kCoroutines = 64;
  constexpr size_t kTogether = 32;
  constexpr size_t kRounds = 5;
  size_t next = 0;
  const auto get_some = [&]() -> Task<void> {
    for (size_t round = 0; round < kRounds; ++round) {
      EXPECT_TRUE(co_await session_->AsyncGet(keys_[next++]));
    }
  };
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    for (size_t i = 0; i < kCoroutines; ++i) session_->Spawn(get_some());
    session_->WaitAll();
  });
  ASSERT_LE(cost.reads * 100, kCoroutines * kRounds * 160);
  // The first get is alone, and joins the others after it.
  EXPECT_LE(cost.round_trips, kRounds * (kCoroutines / kTogether + 1));
  EXPECT_EQ(Text(cost), Text({.operations = kCoroutines * kRounds,
                              .round_trips = cost.round_trips,
                              .reads = cost.reads,
                              .bytes_read = cost.reads * kUnitBytes}));
}

// Each goes on when its own server has answered.
TEST_P(CostTest, AndTakeOneRoundTripFromSeveralServers) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded(3));
  constexpr size_t kTogether = 32;
  std::set<ServerId> servers;
  for (size_t i = 1; i <= kTogether; ++i) servers.insert(PathTo(keys_[i]).leaf.server());
  EXPECT_EQ(servers.size(), 3u);
  const auto get = [&](size_t i) -> Task<void> {
    EXPECT_TRUE(co_await session_->AsyncGet(keys_[i]));
  };
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    for (size_t i = 0; i <= kTogether; ++i) session_->Spawn(get(i));
    session_->WaitAll();
  });
  EXPECT_EQ(Text(cost), Text({.operations = 1 + kTogether,
                              .round_trips = 2,  // The first get is alone.
                              .reads = cost.reads,
                              .bytes_read = cost.reads * kUnitBytes}));
}

// It takes its round trip at once.
TEST_P(CostTest, AGetThatIsAloneWaitsForNoOther) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  const std::string& key = *std::ranges::find_if(keys_, [&](const std::string& one) {
    const WireCounts cost = CostOf(OperationClass::kRead, [&] { ASSERT_TRUE(session_->Get(one)); });
    return cost.reads == 1;
  });
  const auto get = [&]() -> Task<void> { EXPECT_TRUE(co_await session_->AsyncGet(key)); };
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    session_->Spawn(get());
    if (GetParam() == TestFabric::kShm) {
      EXPECT_EQ(session_->Poll(), 0u);  // one poll
    }
    session_->WaitAll();
  });
  EXPECT_EQ(Text(cost),
            Text({.operations = 1, .round_trips = 1, .reads = 1, .bytes_read = kUnitBytes}));
}

TEST_P(CostTest, AnotherSessionLearnsTheHintsAsItReads) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  });
  EXPECT_EQ(cost.round_trips, cost.operations);
}

TEST_P(CostTest, ValueBlocksTakeOneMoreOfGetsAndNoneOfUpdates) {
  constexpr uint32_t kLength = 1000;
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  for (const std::string& key : keys_) {
    ASSERT_TRUE(session_->Put(key, std::string(kLength, 'a')));
  }
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  for (const std::string& key : keys_) {
    const WireCounts get = CostOfGet(*session_, key);
    const uint64_t groups = get.reads - 1;
    ASSERT_GE(groups, 1u);
    ASSERT_LE(groups, 2u);
    ASSERT_EQ(Text(get), Text({.operations = 1,
                               .round_trips = 2,
                               .reads = groups + 1,
                               .bytes_read = groups * kUnitBytes + BlockReadBytes(kLength)}));
    const WireCounts update = CostOfUpdate(*session_, key, std::string(kLength, 'b'));
    ASSERT_LE(update.reads, 2u);
    // Now and then, a request for memory.
    ASSERT_LE(update.sends, 1u);
    ASSERT_EQ(Text(update), Text({.operations = 1,
                                  .round_trips = 2 + update.sends,
                                  .reads = update.reads,
                                  .writes = 2,
                                  .atomics = 2,
                                  .sends = update.sends,
                                  .bytes_read = update.reads * kUnitBytes,
                                  .bytes_written = kUnitBytes + BlockReadBytes(kLength)}));
  }
}

// Where the block was the last time, it is READ along with the group.
TEST_P(CostTest, CachedReferencesSaveTheRoundTripOfBlocks) {
  constexpr uint32_t kLength = 100;
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(2'000));
  const std::unique_ptr<Store> other_store = OpenAnother();
  const std::unique_ptr<Session> other = std::move(other_store->NewSession().value());
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  ASSERT_NO_FATAL_FAILURE(WarmUp(*other));
  const auto expect = [&](const std::string& key, char value, uint64_t round_trips,
                          uint64_t blocks) {
    WireCounts cost = CostOf(OperationClass::kRead, [&] {
      ASSERT_EQ(session_->Get(key).value(), std::string(kLength, value));
    });
    const uint64_t groups = cost.reads - blocks;
    ASSERT_GE(groups, 1u);
    ASSERT_LE(groups, 2u);
    ASSERT_EQ(Text(cost),
              Text({.operations = 1,
                    .round_trips = round_trips,
                    .reads = groups + blocks,
                    .bytes_read = groups * kUnitBytes + blocks * BlockReadBytes(kLength)}));
  };
  const auto put = [&](Session& session, const std::string& key, char value) {
    ASSERT_TRUE(session.Put(key, std::string(kLength, value)));
  };
  for (size_t i = 0; i < Scaled(1'000); ++i) {
    const std::string& key = keys_[i];
    ASSERT_NO_FATAL_FAILURE(put(*session_, key, 'a'));
    ASSERT_NO_FATAL_FAILURE(expect(key, 'a', 2, 1)) << "it is not known yet";
    ASSERT_NO_FATAL_FAILURE(expect(key, 'a', 1, 1));
    ASSERT_NO_FATAL_FAILURE(put(*session_, key, 'b'));
    ASSERT_NO_FATAL_FAILURE(expect(key, 'b', 1, 1)) << "an own put keeps it";
    ASSERT_NO_FATAL_FAILURE(put(*other, key, 'c'));
    ASSERT_NO_FATAL_FAILURE(expect(key, 'c', 2, 2)) << "another's block was READ in vain";
    ASSERT_NO_FATAL_FAILURE(expect(key, 'c', 1, 1));
  }
  const CacheCounts cache = session_->counters().cache;
  EXPECT_EQ(cache.along, 4 * Scaled(1'000));
  EXPECT_EQ(cache.along_right, 3 * Scaled(1'000));
}

// A key whose value is not in a block any more is read with its old block once.
TEST_P(CostTest, AReferenceOfAValueThatIsInNoBlockAnyMoreIsForgotten) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(2'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  // Few: after more references in vain, blocks are not READ along for a while.
  for (size_t i = 0; i < 30; ++i) {
    const std::string& key = keys_[i];
    ASSERT_TRUE(session_->Put(key, std::string(100, 'a')));
    ASSERT_TRUE(session_->Get(key));
    ASSERT_TRUE(session_->Put(key, "inline"));
    const WireCounts first = CostOfGet(*session_, key);
    const WireCounts second = CostOfGet(*session_, key);
    ASSERT_EQ(second.reads * kUnitBytes, second.bytes_read);
    ASSERT_EQ(first.round_trips, 1u);
    ASSERT_EQ(first.reads, second.reads + 1);
    ASSERT_EQ(first.bytes_read, second.bytes_read + BlockReadBytes(100));
  }
}

// Those of a MultiGet take one more for all keys.
TEST_P(CostTest, ValueBlocksOfManyKeysAreReadTogether) {
  constexpr uint32_t kLength = 100;
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  for (const std::string& key : keys_) {
    ASSERT_TRUE(session_->Put(key, std::string(kLength, key.back())));
  }
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  constexpr size_t kAtOnce = 64;
  Values values;
  for (size_t first = 0; first + kAtOnce <= keys_.size(); first += kAtOnce) {
    const std::span<const std::string> some(keys_.begin() + static_cast<ptrdiff_t>(first), kAtOnce);
    const std::vector<std::string_view> keys(some.begin(), some.end());
    const WireCounts cost =
        CostOf(OperationClass::kRead, [&] { session_->MultiGet(keys, values); });
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(values[i].value(), std::string(kLength, keys[i].back()));
    }
    const uint64_t groups = cost.reads - kAtOnce;
    ASSERT_GE(groups, kAtOnce);
    ASSERT_LE(groups * 100, kAtOnce * 160);
    ASSERT_EQ(Text(cost),
              Text({.operations = kAtOnce,
                    .round_trips = 2,
                    .reads = groups + kAtOnce,
                    .bytes_read = groups * kUnitBytes + kAtOnce * BlockReadBytes(kLength)}));
    // Where a round trip costs something, the blocks that are known are READ along with the groups.
    const bool are_along = GetParam() != TestFabric::kShm;
    const WireCounts again =
        CostOf(OperationClass::kRead, [&] { session_->MultiGet(keys, values); });
    ASSERT_EQ(Text(again), Text({.operations = kAtOnce,
                                 .round_trips = are_along ? 1u : 2u,
                                 .reads = cost.reads,
                                 .bytes_read = cost.bytes_read}));
    for (size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(values[i].value(), std::string(kLength, keys[i].back()));
    }
  }
}

TEST_P(CostTest, WritesTakeTwoRoundTrips) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  size_t at_home = 0;
  for (size_t i = 0; i < Scaled(2000); ++i) {
    const std::string& key = keys_[i];
    const WireCounts update = CostOfUpdate(*session_, key);
    ASSERT_LE(update.reads, 2u);
    ASSERT_EQ(Text(update), Text(CostOfWrite(update.reads)));
    const WireCounts erase =
        CostOf(OperationClass::kDelete, [&] { ASSERT_TRUE(session_->Delete(key)); });
    ASSERT_EQ(Text(erase), Text(CostOfWrite(update.reads)));
    const WireCounts get = CostOf(OperationClass::kRead, [&] { ASSERT_FALSE(session_->Get(key)); });
    const WireCounts insert =
        CostOf(OperationClass::kInsert, [&] { ASSERT_TRUE(session_->Insert(key, "ABCDEFGH")); });
    // If the home group was full before, the key may also be in the overflow group. If that was
    // full too, the leaf is read whole, because an insert may have to split it.
    const bool whole = insert.bytes_read == kLeafBytes;
    WireCounts expected = CostOfWrite(whole ? 1 : get.reads);
    if (whole) expected.bytes_read = kLeafBytes;
    ASSERT_EQ(Text(insert), Text(expected));
    at_home += get.reads == 1 ? 1 : 0;
  }
  EXPECT_GE(at_home, Scaled(1000));
}

TEST_P(CostTest, ASessionRegistersBeforeItsFirstVerb) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(1'000));
  const std::unique_ptr<Session> session = std::move(store_->NewSession().value());
  const WireCounts first = CostOfGet(*session, keys_[0]);
  WireCounts expected = CostOfGet(*session, keys_[0]);
  ++expected.round_trips;
  ++expected.sends;
  EXPECT_EQ(Text(first), Text(expected));
}

// An insert of a key that is being deleted cannot be combined with the delete (rule W3). It gets
// the lock, and with it the leaf's bytes.
TEST_P(CostTest, AWriteWithALockHandedOverTakesOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  size_t handed_over = 0;
  for (size_t i = 0; i < Scaled(2000); ++i) {
    const std::string& key = keys_[i];
    const bool needs_one_group = DeleteFromHomeThatNeverOverflowed(key);
    ASSERT_TRUE(session_->Insert(key, "12345678"));
    if (!needs_one_group) continue;
    const LockCounts locks = session_->counters().locks;
    WireCounts erase;
    const WireCounts insert = CostOf(OperationClass::kInsert, [&] {
      erase = CostOf(OperationClass::kDelete, [&] {
        session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
          EXPECT_TRUE(co_await session.AsyncDelete(k));
        }(*session_, key));
        session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
          EXPECT_TRUE(co_await session.AsyncInsert(k, "ABCDEFGH"));
        }(*session_, key));
        session_->WaitAll();
      });
    });
    // The key fills its home group, so the group may seem to have overflowed.
    ASSERT_LE(erase.reads, 2u);
    WireCounts expected = CostOfWrite(erase.reads);
    expected.atomics = 1;
    ASSERT_EQ(Text(erase), Text(expected));
    ASSERT_EQ(Text(insert), Text({.operations = 1,
                                  .round_trips = 1,
                                  .writes = 1,
                                  .atomics = 1,
                                  .bytes_written = kUnitBytes}));
    ASSERT_EQ(session_->counters().locks.handed_over, locks.handed_over + 1);
    ASSERT_EQ(session_->counters().locks.acquired, locks.acquired + 1);
    ++handed_over;
  }
  EXPECT_GE(handed_over, Scaled(1000));
}

TEST_P(CostTest, WritesThatWaitForOneLeafAreWrittenTogether) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(1'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  const std::string& key = keys_.front();
  constexpr size_t kWriters = 40;
  const uint64_t combined = session_->counters().locks.combined;
  const WireCounts cost = CostOf(OperationClass::kUpdate, [&] {
    // So that no write finds itself one of few, and begins before the others.
    for (size_t i = 0; i < 4; ++i) {
      session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
        EXPECT_TRUE(co_await session.AsyncGet(k));
      }(*session_, key));
    }
    for (size_t i = 0; i < kWriters; ++i) {
      session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
        EXPECT_TRUE(co_await session.AsyncUpdate(k, "abcdefgh"));
      }(*session_, key));
    }
    session_->WaitAll();
  });
  // All writes together cost as much as one: the others cost nothing.
  WireCounts expected = CostOfWrite(cost.reads);
  expected.operations = kWriters;
  EXPECT_LE(cost.reads, 2u);
  EXPECT_EQ(Text(cost), Text(expected));
  EXPECT_EQ(session_->counters().locks.combined, combined + kWriters - 1);
}

TEST_P(CostTest, ScanTakesOneRoundTripFor32Leaves) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  // Without a limit the first pages are smaller: 4, 8 and 16 leaves.
  uint64_t pages = 0;
  for (uint64_t leaves = 0, page = 4; leaves < report.value().leaves; ++pages) {
    leaves += page;
    page = std::min<uint64_t>(2 * page, 32);
  }
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    options.reverse = reverse;
    const WireCounts cost = CostOf(OperationClass::kScan, [&] {
      const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
      size_t count = 0;
      while (cursor->Next()) ++count;
      ASSERT_EQ(count, keys_.size());
    });
    EXPECT_EQ(Text(cost), Text({.operations = 1,
                                .round_trips = pages,
                                .reads = report.value().leaves,
                                .bytes_read = report.value().leaves * kLeafBytes}));
  }
}

TEST_P(CostTest, ScanOfAHundredTakesAtMostTwoRoundTrips) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  std::sort(keys_.begin(), keys_.end());
  uint64_t round_trips = 0;
  const size_t scans = Scaled(200);
  for (size_t i = 0; i < scans; ++i) {
    ScanOptions options;
    const size_t from = random_() % (keys_.size() - 100);
    options.from = keys_[from];
    options.limit = 100;
    const WireCounts cost = CostOf(OperationClass::kScan, [&] {
      const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
      for (size_t k = 0; k < 100; ++k) {
        ASSERT_TRUE(cursor->Next());
        ASSERT_EQ(cursor->key(), keys_[from + k]);
      }
      ASSERT_FALSE(cursor->Next());
    });
    ASSERT_EQ(cost.operations, 1u);
    ASSERT_LE(cost.round_trips, 2u);
    ASSERT_EQ(cost.bytes_read, cost.reads * kLeafBytes);
    round_trips += cost.round_trips;
  }
  EXPECT_LE(round_trips, scans * 11 / 10);
}

}  // namespace
}  // namespace gossamer
