// The ordered pairs of CONTRACT.md in a simulated network with all faults, and proof that unordered
// pairs really are unordered. One side posts the pair repeatedly, the other observes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/fabric/sim/test_cluster.h"

namespace gossamer::test {
namespace {

constexpr uint64_t kSeeds = 60;
constexpr uint64_t kRounds = 60;
constexpr uint64_t kFirst = 4096;
constexpr uint64_t kSecond = 65536;
constexpr uint64_t kWord = 128;

struct Outcome {
  uint64_t looked = 0;
  uint64_t seen_out_of_order = 0;
};

Verb WriteStamp(uint64_t offset, uint64_t value, const BufferLease& buffer, size_t at) {
  Stamp::Of(value).Store(buffer.data() + at);
  return Verb::Write(offset, sizeof(Stamp), buffer.address(at));
}

// Reads a stamp until it is whole.
Task<uint64_t> ReadStamp(SimClient& client, uint64_t offset) {
  for (;;) {
    co_await client.Do(Verb::Read(offset, sizeof(Stamp), {}));
    const std::optional<uint64_t> value = Stamp::Parse(client.scratch());
    if (value) co_return *value;
  }
}

Task<uint64_t> ReadWord(SimClient& client) {
  co_await client.Do(Verb::FetchAdd(Space::kLockTable, kWord, 0, {}));
  uint64_t value;
  std::memcpy(&value, client.scratch(), sizeof value);
  co_return value;
}

// Runs `post(client, i)` for i = 1 .. kRounds against a concurrent `look(client, outcome)`, for
// many seeds.
template <typename Post, typename Look>
Outcome Race(Post post, Look look, std::string_view faults = "tear,delay,reorder,write_back") {
  Outcome outcome;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimCluster cluster(seed, faults, 2);
    bool done = false;
    const auto poster = [&](SimClient& client) -> Task<void> {
      for (uint64_t i = 1; i <= kRounds; ++i) co_await post(client, i);
      done = true;
    };
    const auto looker = [&](SimClient& client) -> Task<void> {
      while (!done) {
        ++outcome.looked;
        co_await look(client, outcome);
      }
    };
    cluster.Spawn(0, poster(cluster.client(0)));
    cluster.Spawn(1, looker(cluster.client(1)));
    cluster.Run();
    EXPECT_TRUE(done);
  }
  EXPECT_GT(outcome.looked, kSeeds * kRounds / 4);
  return outcome;
}

Task<void> ExpectSuccess(SimClient& client, Batch& batch) {
  co_await client.endpoint().Execute(batch);
  EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
}

TEST(SimOrder, WriteThenWrite) {
  const Outcome outcome = Race(
      [](SimClient& client, uint64_t i) -> Task<void> {
        const BufferLease buffer = client.Buffer(64);
        InlineBatch<2> batch(kServer);
        batch.Add(WriteStamp(kFirst, i, buffer, 0));
        batch.Add(WriteStamp(kSecond, i, buffer, 32));
        co_await ExpectSuccess(client, batch);
      },
      [](SimClient& client, Outcome& seen) -> Task<void> {
        const uint64_t second = co_await ReadStamp(client, kSecond);
        if (co_await ReadStamp(client, kFirst) < second) ++seen.seen_out_of_order;
      });
  EXPECT_EQ(outcome.seen_out_of_order, 0U);
}

// Also when a single byte of the second WRITE is visible.
TEST(SimOrder, WriteThenWriteByteForByte) {
  const Outcome outcome = Race(
      [](SimClient& client, uint64_t i) -> Task<void> {
        const BufferLease buffer = client.Buffer(64);
        std::memset(buffer.data(), static_cast<int>(i), 64);
        InlineBatch<2> batch(kServer);
        batch.Add(Verb::Write(kFirst, 32, buffer.address()));
        batch.Add(Verb::Write(kSecond, 32, buffer.address(32)));
        co_await ExpectSuccess(client, batch);
      },
      [](SimClient& client, Outcome& seen) -> Task<void> {
        co_await client.Do(Verb::Read(kSecond, 32, {}));
        const std::byte newest = *std::max_element(client.scratch(), client.scratch() + 32);
        co_await client.Do(Verb::Read(kFirst, 32, {}));
        if (*std::min_element(client.scratch(), client.scratch() + 32) < newest) {
          ++seen.seen_out_of_order;
        }
      });
  EXPECT_EQ(outcome.seen_out_of_order, 0U);
}

TEST(SimOrder, WriteThenAtomic) {
  const Outcome outcome = Race(
      [](SimClient& client, uint64_t i) -> Task<void> {
        const BufferLease buffer = client.Buffer(64);
        InlineBatch<2> batch(kServer);
        batch.Add(WriteStamp(kFirst, i, buffer, 0));
        batch.Add(Verb::FetchAdd(Space::kLockTable, kWord, 1, buffer.address(32)));
        co_await ExpectSuccess(client, batch);
      },
      [](SimClient& client, Outcome& seen) -> Task<void> {
        const uint64_t count = co_await ReadWord(client);
        if (co_await ReadStamp(client, kFirst) < count) ++seen.seen_out_of_order;
      });
  EXPECT_EQ(outcome.seen_out_of_order, 0U);
}

// The reader's verbs in one batch: an atomic or a READ reads `kWord` first.
Outcome RaceOfReader(bool by_atomic, bool second_is_atomic = false) {
  return Race(
      [](SimClient& client, uint64_t i) -> Task<void> {
        const BufferLease buffer = client.Buffer(64);
        InlineBatch<1> data(kServer);
        data.Add(WriteStamp(kFirst, i, buffer, 0));
        co_await ExpectSuccess(client, data);
        co_await client.Do(Verb::FetchAdd(Space::kLockTable, kWord, 1, {}));
        co_await client.Do(Verb::FetchAdd(Space::kRegion, kWord, 1, {}));
      },
      [=](SimClient& client, Outcome& seen) -> Task<void> {
        const BufferLease buffer = client.Buffer(64);
        InlineBatch<2> batch(kServer);
        // The writer increments the region's word after the other.
        batch.Add(by_atomic ? Verb::FetchAdd(Space::kRegion, kWord, 0, buffer.address())
                            : Verb::Read(kWord, 8, buffer.address()));
        batch.Add(second_is_atomic ? Verb::FetchAdd(Space::kLockTable, kWord, 0, buffer.address(32))
                                   : Verb::Read(kFirst, sizeof(Stamp), buffer.address(32)));
        co_await ExpectSuccess(client, batch);
        const std::optional<uint64_t> second =
            second_is_atomic ? batch.verbs()[1].old_value() : Stamp::Parse(buffer.data() + 32);
        if (second && *second < batch.verbs()[0].old_value()) ++seen.seen_out_of_order;
      });
}

TEST(SimOrder, AtomicThenRead) { EXPECT_EQ(RaceOfReader(true).seen_out_of_order, 0U); }
TEST(SimOrder, AtomicThenAtomic) { EXPECT_EQ(RaceOfReader(true, true).seen_out_of_order, 0U); }
TEST(SimOrder, ReadThenReadIsNotOrdered) { EXPECT_GT(RaceOfReader(false).seen_out_of_order, 0U); }
TEST(SimOrder, ReadThenAtomicIsNotOrdered) {
  EXPECT_GT(RaceOfReader(false, true).seen_out_of_order, 0U);
}

// READ or atomic, then a WRITE of the same bytes, with or without a fence.
uint64_t SeenByVerbBeforeWrite(bool atomic, bool fence) {
  uint64_t seen = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimCluster cluster(seed, "tear,delay,reorder", 1);
    const auto body = [&](SimClient& client) -> Task<void> {
      const BufferLease buffer = client.Buffer(64);
      for (uint64_t i = 1; i <= kRounds; ++i) {
        std::memcpy(buffer.data(), &i, sizeof i);
        InlineBatch<2> batch(kServer);
        batch.Add(atomic ? Verb::FetchAdd(Space::kRegion, kWord, 0, buffer.address(32))
                         : Verb::Read(kWord, 8, buffer.address(32)));
        batch.Add(Verb::Write(kWord, 8, buffer.address())).fence = fence;
        co_await ExpectSuccess(client, batch);
        if (batch.verbs()[0].old_value() != i - 1) ++seen;
      }
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
  }
  return seen;
}

TEST(SimOrder, ReadOrAtomicThenFencedWrite) {
  EXPECT_EQ(SeenByVerbBeforeWrite(false, true), 0U);
  EXPECT_EQ(SeenByVerbBeforeWrite(true, true), 0U);
}
TEST(SimOrder, ReadOrAtomicThenWriteIsNotOrdered) {
  EXPECT_GT(SeenByVerbBeforeWrite(false, false), 0U);
  EXPECT_GT(SeenByVerbBeforeWrite(true, false), 0U);
}

TEST(SimOrder, WriteThenReadIsNotOrdered) {
  uint64_t missed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimCluster cluster(seed, "reorder", 1);
    const auto body = [&](SimClient& client) -> Task<void> {
      const BufferLease buffer = client.Buffer(64);
      for (uint64_t i = 1; i <= kRounds; ++i) {
        std::memcpy(buffer.data(), &i, sizeof i);
        InlineBatch<2> batch(kServer);
        batch.Add(Verb::Write(kWord, 8, buffer.address()));
        batch.Add(Verb::Read(kWord, 8, buffer.address(32)));
        co_await ExpectSuccess(client, batch);
        if (batch.verbs()[1].old_value() != i) ++missed;
      }
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
  }
  EXPECT_GT(missed, 0U);
}

TEST(SimOrder, NothingOvertakesWhereReorderIsOff) {
  for (const char* faults : {"none", "tear", "delay", "tear,delay,write_back"}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SimCluster cluster(seed, faults, 3);
      const auto body = [](SimClient& client, uint64_t salt) -> Task<void> {
        Random random(salt);
        const BufferLease buffer = client.Buffer(4096);
        for (uint64_t i = 1; i <= kRounds; ++i) {
          InlineBatch<6> batch(kServer);
          while (!batch.full()) {
            const LocalAddress local = buffer.address(batch.verbs().size() * 256);
            switch (random.Below(3)) {
              case 0: batch.Add(Verb::Read(random.Below(256), 64, local)); break;
              case 1: batch.Add(Verb::Write(random.Below(256), 64, local)); break;
              default: batch.Add(Verb::FetchAdd(Space::kLockTable, kWord, 1, local)); break;
            }
          }
          co_await ExpectSuccess(client, batch);
        }
      };
      for (size_t i = 0; i < 3; ++i) cluster.Spawn(i, body(cluster.client(i), 10 * seed + i));
      cluster.Run();
      EXPECT_EQ(cluster.network().counters().overtaken, 0U) << faults << " seed " << seed;
    }
  }
}

}  // namespace
}  // namespace gossamer::test
