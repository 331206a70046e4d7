// A stress test for each ordered pair of CONTRACT.md. One side posts the pair. The other side, on
// its own queue pair, waits for each of its verbs and looks for the second without the first.
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "common/fabric/conformance/harness.h"
#include "common/fabric/shm/shared_copy.h"

namespace gossamer::test {
namespace {

constexpr uint64_t kFirst = 4096;    // region: the stamp that is written first
constexpr uint64_t kSecond = 65536;  // region: the stamp that is written second
constexpr uint64_t kWord = 128;      // lock table and region: a word for atomics only

// Reads a stamp until it is whole.
uint64_t ReadStamp(TestClient& client, uint64_t offset) {
  for (;;) {
    std::array<std::byte, sizeof(Stamp)> bytes;
    EXPECT_EQ(client.Read(offset, bytes), VerbStatus::kSuccess);
    const std::optional<uint64_t> value = Stamp::Parse(bytes.data());
    if (value) return *value;
  }
}

class OrderedPairs : public FabricConformance {
 protected:
  uint64_t rounds() const {
    if (GetParam().kind != FabricKind::kShm) return 1000;
    return shm::kThreadSanitizer ? 10000 : 50000;  // the tool makes them 20 times as slow
  }

  // Runs `post(client, i)` for i = 1 .. rounds() in one thread, and `look(client)` concurrently in
  // another.
  template <typename Post, typename Look>
  void Race(Post post, Look look) {
    const auto port = NewPort();
    std::atomic<bool> done{false};
    std::thread poster([&] {
      TestClient client(*port);
      for (uint64_t i = 1; i <= rounds(); ++i) post(client, i);
      done = true;
    });
    TestClient client(*port);
    do look(client);
    while (!done);
    poster.join();
    look(client);
  }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OrderedPairs);
INSTANTIATE_TEST_SUITE_P(Fabrics, OrderedPairs, testing::ValuesIn(ThreadedFabricCases()),
                         FabricCaseName);

TEST_P(OrderedPairs, WriteThenWrite) {
  Race(
      [](TestClient& client, uint64_t i) {
        const BufferLease buffer = client.Buffer(64);
        Stamp::Of(i).Store(buffer.data());
        Stamp::Of(i).Store(buffer.data() + 32);
        InlineBatch<2> batch(kServer);
        batch.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address()));
        batch.Add(Verb::Write(kSecond, sizeof(Stamp), buffer.address(32)));
        ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
      },
      [](TestClient& client) {
        const uint64_t second = ReadStamp(client, kSecond);
        ASSERT_GE(ReadStamp(client, kFirst), second);
      });
}

TEST_P(OrderedPairs, WriteThenWriteOfAnotherBatchPostedBehind) {
  Race(
      [](TestClient& client, uint64_t i) {
        const BufferLease buffer = client.Buffer(64);
        Stamp::Of(i).Store(buffer.data());
        Stamp::Of(i).Store(buffer.data() + 32);
        InlineBatch<1> first(kServer);
        InlineBatch<1> second(kServer);
        first.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address()));
        second.Add(Verb::Write(kSecond, sizeof(Stamp), buffer.address(32)));
        Batch* const both[] = {&first, &second};
        ExecuteAll(client.endpoint(), both);
        ASSERT_EQ(first.status(), VerbStatus::kSuccess);
        ASSERT_EQ(second.status(), VerbStatus::kSuccess);
      },
      [](TestClient& client) {
        const uint64_t second = ReadStamp(client, kSecond);
        ASSERT_GE(ReadStamp(client, kFirst), second);
      });
}

TEST_P(OrderedPairs, WriteThenAtomic) {
  for (const Space space : {Space::kRegion, Space::kLockTable}) {
    uint64_t base = 0;
    {
      const auto port = NewPort();
      TestClient client(*port);
      base = client.FetchAdd(space, kWord, 0);
      const BufferLease buffer = client.Buffer(64);
      Stamp::Of(0).Store(buffer.data());
      ASSERT_EQ(client.Write(kFirst, {buffer.data(), sizeof(Stamp)}), VerbStatus::kSuccess);
    }
    Race(
        [space](TestClient& client, uint64_t i) {
          const BufferLease buffer = client.Buffer(64);
          Stamp::Of(i).Store(buffer.data());
          InlineBatch<2> batch(kServer);
          batch.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address()));
          batch.Add(Verb::FetchAdd(space, kWord, 1, buffer.address(32)));
          ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
        },
        [space, base](TestClient& client) {
          const uint64_t count = client.FetchAdd(space, kWord, 0) - base;
          ASSERT_GE(ReadStamp(client, kFirst), count);
        });
  }
}

TEST_P(OrderedPairs, AtomicThenRead) {
  for (const Space space : {Space::kRegion, Space::kLockTable}) {
    uint64_t base = 0;
    {
      const auto port = NewPort();
      TestClient client(*port);
      base = client.FetchAdd(space, kWord, 0);
      const BufferLease buffer = client.Buffer(64);
      Stamp::Of(0).Store(buffer.data());
      ASSERT_EQ(client.Write(kFirst, {buffer.data(), sizeof(Stamp)}), VerbStatus::kSuccess);
    }
    Race(
        [space](TestClient& client, uint64_t i) {
          std::array<std::byte, sizeof(Stamp)> stamp;
          Stamp::Of(i).Store(stamp.data());
          ASSERT_EQ(client.Write(kFirst, stamp), VerbStatus::kSuccess);
          client.FetchAdd(space, kWord, 1);
        },
        [space, base](TestClient& client) {
          const BufferLease buffer = client.Buffer(64);
          InlineBatch<2> batch(kServer);
          batch.Add(Verb::FetchAdd(space, kWord, 0, buffer.address()));
          batch.Add(Verb::Read(kFirst, sizeof(Stamp), buffer.address(32)));
          ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
          const uint64_t count = batch.verbs()[0].old_value() - base;
          const std::optional<uint64_t> seen = Stamp::Parse(buffer.data() + 32);
          if (seen) {
            ASSERT_GE(*seen, count);
          }
        });
  }
}

// The lock of the protocol: CAS and READ in one batch, WRITE and CAS in one batch.
TEST_P(OrderedPairs, ALockOfTheTableProtectsACounterInTheRegion) {
  constexpr uint64_t kThreads = 3;
  const uint64_t increments = rounds() / 10;
  const auto port = NewPort();
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestClient client(*port);
      const BufferLease buffer = client.Buffer(256);
      for (uint64_t i = 0; i < increments;) {
        InlineBatch<2> take(kServer);
        take.Add(Verb::CompareSwap(Space::kLockTable, kWord, 0, t, buffer.address()));
        take.Add(Verb::Read(kFirst, sizeof(Stamp), buffer.address(64)));
        ASSERT_EQ(Execute(client.endpoint(), take), VerbStatus::kSuccess);
        if (take.verbs()[0].old_value() != 0) continue;
        const std::optional<uint64_t> value = Stamp::Parse(buffer.data() + 64);
        ASSERT_TRUE(value) << "torn under the lock";
        Stamp::Of(*value + 1).Store(buffer.data() + 128);
        InlineBatch<2> release(kServer);
        release.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address(128)));
        release.Add(Verb::CompareSwap(Space::kLockTable, kWord, t, 0, buffer.address(192)));
        ASSERT_EQ(Execute(client.endpoint(), release), VerbStatus::kSuccess);
        ASSERT_EQ(release.verbs()[1].old_value(), t);
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  TestClient client(*port);
  EXPECT_EQ(ReadStamp(client, kFirst), kThreads * increments);
}

TEST_P(OrderedPairs, ReadThenFencedWriteOfTheSameBytes) {
  const auto port = NewPort();
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(4096);
  for (uint64_t i = 1; i <= rounds() / 10; ++i) {
    Stamp::Of(i).Store(buffer.data());
    InlineBatch<2> batch(kServer);
    batch.Add(Verb::Read(kFirst, sizeof(Stamp), buffer.address(1024)));
    batch.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address())).fence = true;
    ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
    const std::optional<uint64_t> seen = Stamp::Parse(buffer.data() + 1024);
    ASSERT_TRUE(seen);
    ASSERT_EQ(*seen, i - 1);
  }
}

// Load buffering: the other side answers only what the fenced WRITE shows it.
TEST_P(OrderedPairs, ReadThenFencedWrite) {
  std::atomic<bool> done{false};
  const auto port = NewPort();
  std::thread answerer([&] {
    TestClient client(*port);
    while (!done) {
      std::array<std::byte, sizeof(Stamp)> stamp;
      Stamp::Of(ReadStamp(client, kSecond)).Store(stamp.data());
      ASSERT_EQ(client.Write(kFirst, stamp), VerbStatus::kSuccess);
    }
  });
  TestClient client(*port);
  const BufferLease buffer = client.Buffer(64);
  for (uint64_t i = 1; i <= rounds(); ++i) {
    Stamp::Of(i).Store(buffer.data());
    InlineBatch<2> batch(kServer);
    batch.Add(Verb::Read(kFirst, sizeof(Stamp), buffer.address(32)));
    batch.Add(Verb::Write(kSecond, sizeof(Stamp), buffer.address())).fence = true;
    EXPECT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
    const std::optional<uint64_t> seen = Stamp::Parse(buffer.data() + 32);
    if (seen) {
      EXPECT_LT(*seen, i);
    }
  }
  done = true;
  answerer.join();
}

TEST_P(OrderedPairs, AtomicThenFencedWrite) {
  for (const Space space : {Space::kRegion, Space::kLockTable}) {
    uint64_t base = 0;
    {
      const auto port = NewPort();
      TestClient client(*port);
      base = client.FetchAdd(space, kWord, 0);
      std::array<std::byte, sizeof(Stamp)> stamp;
      Stamp::Of(0).Store(stamp.data());
      ASSERT_EQ(client.Write(kFirst, stamp), VerbStatus::kSuccess);
    }
    Race(
        [space](TestClient& client, uint64_t i) {
          const BufferLease buffer = client.Buffer(64);
          Stamp::Of(i).Store(buffer.data());
          InlineBatch<2> batch(kServer);
          batch.Add(Verb::FetchAdd(space, kWord, 1, buffer.address(32)));
          batch.Add(Verb::Write(kFirst, sizeof(Stamp), buffer.address())).fence = true;
          ASSERT_EQ(Execute(client.endpoint(), batch), VerbStatus::kSuccess);
        },
        [space, base](TestClient& client) {
          const uint64_t written = ReadStamp(client, kFirst);
          ASSERT_GE(client.FetchAdd(space, kWord, 0) - base, written);
        });
  }
}

}  // namespace
}  // namespace gossamer::test
